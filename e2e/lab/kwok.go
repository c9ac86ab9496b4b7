package lab

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/castoff-sh/castoff/e2e/bridge"
	"github.com/castoff-sh/castoff/e2e/runner"
)

// What a pod says about how it is played. All values are Go durations ("7s") but for ShutdownGrace.
const (
	// AnnotationStartup is from the pod's scheduling to its being Ready.
	AnnotationStartup = "lab.castoff.sh/startup"
	// AnnotationShutdown is from the pod's deletion to its end, at most its grace period; ShutdownGrace is all of it.
	AnnotationShutdown = "lab.castoff.sh/shutdown"
	// AnnotationDuration is how long a Job's pod runs before it succeeds.
	AnnotationDuration = "lab.castoff.sh/duration"
	// ShutdownGrace makes a pod use its grace period to the end.
	ShutdownGrace = "grace"
)

// LabelNodeNotReady with the value "true" makes a node not Ready for as long as it is there.
const LabelNodeNotReady = "lab.castoff.sh/not-ready"

//go:embed stages.yaml
var stagesTemplate string

// kwokConfig renders kwok's stages. Pods with a container of the images are left to the runner.
func kwokConfig(c Config) (string, error) {
	parsed, err := template.New("stages.yaml").Delims("[[", "]]").Parse(stagesTemplate)
	if err != nil {
		return "", fmt.Errorf("parse kwok's stages: %w", err)
	}
	foreign, err := foreignExpression(slices.Sorted(maps.Keys(c.Images)))
	if err != nil {
		return "", err
	}
	var rendered strings.Builder
	err = parsed.Execute(&rendered, map[string]any{
		"Startup":             AnnotationStartup,
		"Duration":            AnnotationDuration,
		"NotReady":            LabelNodeNotReady,
		"Ended":               bridge.AnnotationEnded,
		"EndedReason":         bridge.ReasonEnded,
		"StartupMilliseconds": c.PodStartup.Milliseconds(),
		"JobMilliseconds":     c.JobDuration.Milliseconds(),
		"Foreign":             foreign,
	})
	if err != nil {
		return "", fmt.Errorf("render kwok's stages: %w", err)
	}
	return rendered.String(), nil
}

// foreignExpression is a jq expression, fit for YAML's single quotes, that is true for pods without a container of the
// image repositories given, and for idle ones.
func foreignExpression(repositories []string) (string, error) {
	if len(repositories) == 0 {
		return "true", nil
	}
	quoted := make([]string, len(repositories))
	for i, repository := range repositories {
		quoted[i] = regexp.QuoteMeta(repository)
	}
	pattern, err := json.Marshal("^(" + strings.Join(quoted, "|") + ")([:@]|$)")
	if err != nil {
		return "", fmt.Errorf("quote image names: %w", err)
	}
	expression := fmt.Sprintf("([.spec.containers[].image | test(%s)] | any | not) or (.metadata.labels // {} | has(%q))", pattern, runner.Idle)
	return strings.ReplaceAll(expression, "'", "''"), nil
}
