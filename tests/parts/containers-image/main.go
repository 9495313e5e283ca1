// Evaluates policies on images as podman, CRI-O and bootc do, by the library inside them. Each line of stdin is a query,
// each line of stdout its answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

type query struct {
	// The text of a policy.json.
	Policy string `json:"policy"`
	// host/repository:tag or host/repository@digest, in a registry without TLS.
	Image string `json:"image"`
	// The directory registries.d.
	RegistriesDir string `json:"registriesDir"`
	// Whether the image of this platform in an index is checked, as by podman, and not the index, as by bootc.
	Instance bool `json:"instance"`
}

type answer struct {
	// The policy can be read.
	Valid   bool   `json:"valid"`
	Allowed bool   `json:"allowed"`
	Error   string `json:"error"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var asked query
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		text, _ := json.Marshal(evaluate(asked))
		fmt.Println(string(text))
	}
}

func evaluate(asked query) answer {
	policy, err := signature.NewPolicyFromBytes([]byte(asked.Policy))
	if err != nil {
		return answer{Error: err.Error()}
	}
	allowed, err := isAllowed(context.Background(), policy, asked)
	if err != nil {
		return answer{Valid: true, Error: err.Error()}
	}
	return answer{Valid: true, Allowed: allowed}
}

func isAllowed(ctx context.Context, policy *signature.Policy, asked query) (bool, error) {
	policyContext, err := signature.NewPolicyContext(policy)
	if err != nil {
		return false, err
	}
	defer policyContext.Destroy()
	reference, err := docker.ParseReference("//" + asked.Image)
	if err != nil {
		return false, err
	}
	system := &types.SystemContext{
		ArchitectureChoice:          "amd64",
		OSChoice:                    "linux",
		RegistriesDirPath:           asked.RegistriesDir,
		DockerInsecureSkipTLSVerify: types.OptionalBoolTrue,
		SystemRegistriesConfPath:    os.DevNull,
	}
	source, err := reference.NewImageSource(ctx, system)
	if err != nil {
		return false, err
	}
	defer source.Close()
	var instance *digest.Digest
	if asked.Instance {
		instance, err = choose(ctx, system, source)
		if err != nil {
			return false, err
		}
	}
	return policyContext.IsRunningImageAllowed(ctx, image.UnparsedInstance(source, instance))
}

func choose(ctx context.Context, system *types.SystemContext, source types.ImageSource) (*digest.Digest, error) {
	text, mediaType, err := source.GetManifest(ctx, nil)
	if err != nil || !manifest.MIMETypeIsMultiImage(mediaType) {
		return nil, err
	}
	list, err := manifest.ListFromBlob(text, mediaType)
	if err != nil {
		return nil, err
	}
	chosen, err := list.ChooseInstance(system)
	return &chosen, err
}
