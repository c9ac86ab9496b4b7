package lab

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func TestKwokConfig(t *testing.T) {
	rendered, err := kwokConfig(Config{Images: map[string]string{"ghcr.io/castoff-sh/manager": "/m", "it's.odd/x": "/x"}, PodStartup: 1500 * time.Millisecond, JobDuration: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	type expression struct {
		Key      string
		Operator string
		Values   []string
	}
	type stage struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Selector struct{ MatchExpressions []expression }
			Delay    struct{ DurationMilliseconds int64 }
			Next     struct {
				Delete  bool
				Patches []struct{ Subresource, Type, Template string }
			}
		}
	}
	delays := map[string]int64{}
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		var s stage
		if err := yaml.UnmarshalStrict([]byte(document), &map[string]any{}); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if err := yaml.Unmarshal([]byte(document), &s); err != nil {
			t.Fatal(err)
		}
		name := s.Metadata.Name
		delays[name] = s.Spec.Delay.DurationMilliseconds
		if s.Kind != "Stage" || s.Spec.Next.Delete || len(s.Spec.Next.Patches) != 1 || s.Spec.Next.Patches[0].Type != "strategic" {
			t.Errorf("%s: kwok only patches: %+v", name, s)
		}
		if !strings.HasPrefix(name, "pod-") {
			continue
		}
		if !strings.Contains(s.Spec.Next.Patches[0].Template, "uid: {{ .metadata.uid | Quote }}") {
			t.Errorf("%s: a patch must be for the pod of that UID only", name)
		}
		foreign := false
		for _, e := range s.Spec.Selector.MatchExpressions {
			foreign = foreign || strings.Contains(e.Key, `castoff-sh/manager`) && strings.Contains(e.Key, `it's\\.odd/x`)
		}
		if !foreign {
			t.Errorf("%s: plays the runner's pods: %+v", name, s.Spec.Selector)
		}
	}
	if delays["pod-ready"] != 1500 || delays["pod-complete"] != 4000 {
		t.Errorf("delays: %v", delays)
	}
}

func TestForeignExpression(t *testing.T) {
	expression, err := foreignExpression([]string{"ghcr.io/castoff-sh/manager"})
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile(`test\("(.*?)"\)`).FindStringSubmatch(expression)
	if quoted == nil {
		t.Fatalf("no pattern in %s", expression)
	}
	if idle := `or (.metadata.labels // {} | has("castoff.sh/placeholder"))`; !strings.HasSuffix(expression, idle) {
		t.Errorf("idle pods of a known image are kwok's, too: %s", expression)
	}
	pattern := regexp.MustCompile(strings.ReplaceAll(quoted[1], `\\`, `\`))
	for image, want := range map[string]bool{
		"ghcr.io/castoff-sh/manager":      true,
		"ghcr.io/castoff-sh/manager:v1":   true,
		"ghcr.io/castoff-sh/manager@sha":  true,
		"ghcr.io/castoff-sh/managers":     false,
		"ghcrXio/castoff-sh/manager":      false,
		"x/ghcr.io/castoff-sh/manager:v1": false,
	} {
		if got := pattern.MatchString(image); got != want {
			t.Errorf("%s: got %t, want %t", image, got, want)
		}
	}
	if expression, err := foreignExpression(nil); err != nil || expression != "true" {
		t.Errorf("without images every pod is kwok's: %q, %v", expression, err)
	}
}
