package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coreos/ign-converter/translate/v24tov31"
	"github.com/coreos/ignition/config/v2_4"
	"github.com/coreos/ignition/v2/config/v3_2/translate"
	translate3_3 "github.com/coreos/ignition/v2/config/v3_3/translate"
	translate3_4 "github.com/coreos/ignition/v2/config/v3_4/translate"
	"github.com/coreos/ignition/v2/config/v3_5"
	translate3_5 "github.com/coreos/ignition/v2/config/v3_5/translate"
	"github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/ignition/v2/config/v3_6/types"
)

// A verdict on one config of 3.x, by the rules of its own version.
func judge(raw []byte) answer {
	_, verdict := read3(raw, true)
	return verdict
}

// Reads a config of any version into the types of 3.6.0, brought to that version or else to 3.5.0, which has the same fields.
func read(raw []byte, newest bool) (types.Config, answer) {
	if isSpec2(raw) {
		return read2(raw, newest)
	}
	return read3(raw, newest)
}

func read3(raw []byte, newest bool) (types.Config, answer) {
	config, rpt, err := v3_6.ParseCompatibleVersion(raw)
	verdict := answer{Accepted: err == nil && !rpt.IsFatal(), Entries: []entry{}}
	if err != nil {
		verdict.Error = err.Error()
	}
	for _, e := range rpt.Entries {
		verdict.Entries = append(verdict.Entries, entry{Kind: e.Kind.String(), Path: e.Context.String(), Message: e.Message})
	}
	if verdict.Accepted && !newest {
		older, _, err := v3_5.ParseCompatibleVersion(raw)
		stopOn(err)
		config = renamed(older)
	}
	return config, verdict
}

// The same fields under the types of another version; `ignition.version` stays.
func renamed(older any) (config types.Config) {
	text, err := json.Marshal(older)
	stopOn(err)
	stopOn(json.Unmarshal(text, &config))
	return config
}

func isNewest(raw json.RawMessage) bool {
	return strings.HasPrefix(version(raw), "3.6.")
}

func isSpec2(raw []byte) bool {
	return strings.HasPrefix(version(raw), "2.")
}

// Empty if it says none.
func version(raw []byte) string {
	var header struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if json.Unmarshal(raw, &header) != nil {
		return ""
	}
	return header.Ignition.Version
}

// Spec 2 is read and brought to 2.4.0 by the Ignition that had it, to 3.1.0 by the converter, and on by the Ignition of today,
// whose rules it must keep then.
func read2(raw []byte, newest bool) (config types.Config, verdict answer) {
	verdict.Entries = []entry{}
	defer func() {
		// Some configs that it accepts stop the old one.
		if why := recover(); why != nil {
			config, verdict = types.Config{}, answer{Error: fmt.Sprint("panic: ", why), Entries: []entry{}}
		}
	}()
	old, rpt, err := v2_4.Parse(raw)
	for _, e := range rpt.Entries {
		verdict.Entries = append(verdict.Entries, entry{Kind: e.Kind.String(), Message: e.Message})
	}
	if err == nil && rpt.IsFatal() {
		err = fmt.Errorf("%s", rpt.String())
	}
	if err != nil {
		verdict.Error = err.Error()
		return
	}
	// A file system that is mounted goes on without a path: on the machine nothing is put there by its name.
	paths := map[string]string{}
	for _, f := range old.Storage.Filesystems {
		if f.Mount != nil {
			paths[f.Name] = ""
		}
	}
	converted, err := v24tov31.Translate(old, paths)
	if err != nil {
		verdict.Error = "converter: " + err.Error()
		return
	}
	today := translate3_5.Translate(translate3_4.Translate(translate3_3.Translate(translate.Translate(converted))))
	text, err := json.Marshal(today)
	if err != nil {
		verdict.Error = err.Error()
		return
	}
	warnings := verdict.Entries
	config, verdict = read3(text, newest)
	verdict.Entries = append(warnings, verdict.Entries...)
	return
}
