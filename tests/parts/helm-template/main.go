// Renders a chart as `helm template` does: Helm's own loader, schema check and engine, without the rest of Helm, which takes
// minutes to build.
//
//	helm-template CHART NAMESPACE <values.json >objects.yaml
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	if err := render(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(folder, namespace string) error {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	var given map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	release := common.ReleaseOptions{Name: "mosb", Namespace: namespace, Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(chart, given, release, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	texts, err := engine.Render(chart, values)
	if err != nil {
		return err
	}
	for _, crd := range chart.CRDObjects() {
		fmt.Printf("---\n%s\n", crd.File.Data)
	}
	var names []string
	for name := range texts {
		if path.Ext(name) == ".yaml" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Println(texts[name])
	}
	return nil
}
