package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	"sigs.k8s.io/yaml"
)

// Reads a MachineConfig from each file of a directory, merges their configs and prints a name made of the result.
func bench(directory string) error {
	files, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	var merged types.Config
	for i, file := range files {
		path := filepath.Join(directory, file.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var object struct {
			Spec struct {
				Config json.RawMessage `json:"config"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(text, &object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		config, verdict := read(object.Spec.Config)
		if !verdict.Accepted {
			return fmt.Errorf("%s: %s %v", path, verdict.Error, verdict.Entries)
		}
		if i == 0 {
			merged = config
		} else {
			merged = v3_5.Merge(merged, config)
		}
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("rendered-worker-%x\n", sha256.Sum256(text))
	return err
}
