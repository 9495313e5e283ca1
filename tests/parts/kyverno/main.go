// Evaluates policies on images as Kyverno does when a pod is created, by its engine and its own verifier of signatures.
// Each line of stdin is a query, each line of stdout its answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	kyvernov1 "github.com/kyverno/kyverno/api/kyverno/v1"
	"github.com/kyverno/kyverno/pkg/config"
	"github.com/kyverno/kyverno/pkg/engine"
	"github.com/kyverno/kyverno/pkg/engine/adapters"
	engineapi "github.com/kyverno/kyverno/pkg/engine/api"
	"github.com/kyverno/kyverno/pkg/engine/factories"
	"github.com/kyverno/kyverno/pkg/engine/jmespath"
	"github.com/kyverno/kyverno/pkg/engine/policycontext"
	imageverifycache "github.com/kyverno/kyverno/pkg/image/verification/cache"
	"github.com/kyverno/sdk/extensions/registryclient"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type query struct {
	// A ClusterPolicy with rules for images.
	Policy kyvernov1.ClusterPolicy `json:"policy"`
	// The image of the pod, in a registry without TLS on this machine.
	Image string `json:"image"`
}

type rule struct {
	Name string `json:"name"`
	// pass, fail, error, skip
	Status  string `json:"status"`
	Message string `json:"message"`
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
		rules, err := evaluate(asked)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		text, _ := json.Marshal(rules)
		fmt.Println(string(text))
	}
}

// The results of the policy's rules. It is empty if none is for the pod.
func evaluate(asked query) ([]rule, error) {
	configuration := config.NewDefaultConfiguration(false)
	jmes := jmespath.New(configuration)
	client := adapters.RegistryClient(registryclient.New())
	verifying := engine.NewEngine(
		configuration,
		jmes,
		nil,
		factories.DefaultRegistryClientFactory(client, nil),
		imageverifycache.DisabledImageVerifyCache(),
		factories.DefaultContextLoaderFactory(nil),
		nil,
		nil,
	)
	pod := unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   map[string]any{"name": "pod", "namespace": "default"},
		"spec": map[string]any{
			"containers": []any{map[string]any{"name": "os", "image": asked.Image}},
		},
	}}
	created, err := policycontext.NewPolicyContext(jmes, pod, kyvernov1.Create, nil, configuration)
	if err != nil {
		return nil, err
	}
	created = created.WithPolicy(&asked.Policy).WithNewResource(pod)
	response, _ := verifying.VerifyAndPatchImages(context.Background(), created)
	rules := []rule{}
	for _, result := range response.PolicyResponse.Rules {
		if result.RuleType() == engineapi.ImageVerify {
			rules = append(rules, rule{result.Name(), string(result.Status()), result.Message()})
		}
	}
	return rules, nil
}
