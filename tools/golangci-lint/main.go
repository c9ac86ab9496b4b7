// Command golangci-lint is golangci-lint with kube-api-linter built in, so that one binary checks the whole repository.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"
	_ "sigs.k8s.io/kube-api-linter" // registers the linter "kubeapilinter"
)

func main() {
	if err := commands.Execute(buildInfo()); err != nil {
		fmt.Fprintln(os.Stderr, "golangci-lint:", err)
		os.Exit(exitcodes.Failure)
	}
}

// buildInfo names the golangci-lint release that go.mod pins: the linter keys its cache and checks its configuration by it.
func buildInfo() commands.BuildInfo {
	info := commands.BuildInfo{Version: "unknown", Commit: "?", Date: "?"}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	info.GoVersion = build.GoVersion
	for _, module := range build.Deps {
		if module.Path == "github.com/golangci/golangci-lint/v2" {
			info.Version = module.Version[1:]
		}
	}
	return info
}
