package main

import (
	"encoding/json"
	"slices"

	"github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/ignition/v2/config/v3_6/types"
)

// Reads the configs and merges them, the first one being the base. The result is of 3.6.0 only if one of them is.
func merge(configs []json.RawMessage, ownContents bool) answer {
	var merged types.Config
	newest := slices.ContainsFunc(configs, isNewest)
	for i, raw := range configs {
		config, verdict := read(raw, newest)
		if !verdict.Accepted {
			verdict.Refused = &i
			return verdict
		}
		switch {
		case i == 0:
			merged = config
		case ownContents:
			merged = v3_6.Merge(giveWay(merged, config), config)
		default:
			merged = v3_6.Merge(merged, config)
		}
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return answer{Error: err.Error(), Entries: []entry{}}
	}
	verdict := judge(text)
	verdict.Valid = verdict.Accepted
	verdict.Accepted = true
	verdict.Config = json.RawMessage(text)
	return verdict
}

// The parent, without what the child's own contents would inherit from other ones.
func giveWay(parent, child types.Config) types.Config {
	theirs := map[string]types.Resource{}
	for _, f := range child.Storage.Files {
		theirs[f.Path] = f.Contents
	}
	files := append([]types.File{}, parent.Storage.Files...)
	for i := range files {
		dropContents(&files[i].Contents, theirs[files[i].Path])
	}
	parent.Storage.Files = files

	keys := map[string]types.Resource{}
	for _, l := range child.Storage.Luks {
		keys[l.Name] = l.KeyFile
	}
	luks := append([]types.Luks{}, parent.Storage.Luks...)
	for i := range luks {
		dropContents(&luks[i].KeyFile, keys[luks[i].Name])
	}
	parent.Storage.Luks = luks
	return parent
}

func dropContents(ours *types.Resource, theirs types.Resource) {
	if theirs.Source != nil {
		*ours = types.Resource{}
	}
}
