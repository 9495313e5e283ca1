// Package main asks the real Ignition: one question per line on standard input, one answer per line on standard output, both
// JSON. A question says what to do with configs of any spec version, 2.0.0 to 3.6.0:
//
//	judge      one config of 3.x: the verdict of the validation that ignition-apply runs
//	translate  one config: what it is in the shape of 3.5.0, or of 3.6.0 if it is one of that
//	merge      several: what they are together
//
// With the arguments `bench DIRECTORY` it merges the MachineConfigs of a directory instead.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

type question struct {
	Do      string            `json:"do"`
	Configs []json.RawMessage `json:"configs"`
	// Merges as if a config's own contents brought their own compression, hash and headers.
	OwnContents bool `json:"ownContents"`
}

type entry struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

type answer struct {
	Accepted bool    `json:"accepted"`
	Error    string  `json:"error,omitempty"`
	Entries  []entry `json:"entries"`
	// Which config was not accepted, if one was not.
	Refused *int `json:"refused,omitempty"`
	// What came out.
	Config any `json:"config,omitempty"`
	// Whether what came out is a config that Ignition takes.
	Valid bool `json:"valid"`
}

func reply(line []byte) answer {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{Error: "no question: " + err.Error()}
	}
	switch q.Do {
	case "judge":
		return judge(q.Configs[0])
	case "translate", "merge":
		return merge(q.Configs, q.OwnContents)
	}
	return answer{Error: "no question: " + q.Do}
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "bench" {
		stopOn(bench(os.Args[2]))
		return
	}
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			stopOn(enc.Encode(reply(line)))
			// An answer for each question, so that a generated test can ask and wait.
			stopOn(out.Flush())
		}
		if err == io.EOF {
			return
		}
		stopOn(err)
	}
}

func stopOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
