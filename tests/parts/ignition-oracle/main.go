// Package main asks the real Ignition: one config per line on standard input, one verdict per
// line on standard output, both JSON. It is the validation that `ignition-apply` runs.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/coreos/ignition/v2/config/v3_5"
)

type entry struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

type verdict struct {
	Accepted bool    `json:"accepted"`
	Error    string  `json:"error,omitempty"`
	Entries  []entry `json:"entries"`
}

func judge(line []byte) verdict {
	_, rpt, err := v3_5.ParseCompatibleVersion(line)
	v := verdict{Accepted: err == nil && !rpt.IsFatal(), Entries: []entry{}}
	if err != nil {
		v.Error = err.Error()
	}
	for _, e := range rpt.Entries {
		v.Entries = append(v.Entries, entry{Kind: e.Kind.String(), Path: e.Context.String(), Message: e.Message})
	}
	return v
}

func main() {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := enc.Encode(judge(line)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			// An answer for each question, so that a generated test can ask and wait.
			if err := out.Flush(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
