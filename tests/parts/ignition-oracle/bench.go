package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/ignition/v2/config/v3_6/types"
	"sigs.k8s.io/yaml"
)

type machineConfig struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Config json.RawMessage `json:"config"`
	} `json:"spec"`
}

// Reads a MachineConfig from each file of a directory, merges their configs in the order of their names, whatever the files
// are called, and prints a name made of the result.
func bench(directory string) error {
	files, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	all := make([]machineConfig, len(files))
	for i, file := range files {
		text, err := os.ReadFile(filepath.Join(directory, file.Name()))
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, &all[i]); err != nil {
			return fmt.Errorf("%s: %w", file.Name(), err)
		}
	}
	slices.SortFunc(all, func(a, b machineConfig) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	var merged types.Config
	for i, object := range all {
		config, verdict := read(object.Spec.Config, true)
		if !verdict.Accepted {
			return fmt.Errorf("%s: %s %v", object.Metadata.Name, verdict.Error, verdict.Entries)
		}
		if i == 0 {
			merged = config
		} else {
			merged = v3_6.Merge(merged, config)
		}
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("rendered-worker-%x\n", sha256.Sum256(text))
	return err
}
