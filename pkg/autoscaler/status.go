package autoscaler

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	statusKey     = "status"
	lastUpdated   = "cluster-autoscaler.kubernetes.io/last-updated"
	statusLayout  = "2006-01-02 15:04:05.999999999 -0700 MST"
	groupsHeading = "NodeGroups:"
)

// status is the YAML that Cluster Autoscaler writes since 1.30, as far as castoff reads it.
type status struct {
	Time       string `json:"time"`
	NodeGroups []struct {
		Name string `json:"name"`
	} `json:"nodeGroups"`
}

// readStatus gives the groups that Cluster Autoscaler says it manages, and when it said so; a zero time if it does not tell.
func readStatus(configMap *corev1.ConfigMap) (groups []string, written time.Time) {
	written = parseTime(configMap.Annotations[lastUpdated])
	text := configMap.Data[statusKey]
	document := status{}
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || (document.Time == "" && document.NodeGroups == nil) {
		return groupsInText(text), written // plain text, before 1.30
	}
	for _, group := range document.NodeGroups {
		groups = append(groups, group.Name)
	}
	if at := parseTime(document.Time); !at.IsZero() {
		written = at
	}
	return groups, written
}

// groupsInText reads the text that people were meant to read: below NodeGroups:, a line "Name: x" for each.
func groupsInText(text string) (groups []string) {
	_, list, _ := strings.Cut(text, groupsHeading)
	for line := range strings.Lines(list) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "Name:"); found {
			groups = append(groups, strings.TrimSpace(name))
		}
	}
	return groups
}

func parseTime(text string) time.Time {
	at, err := time.Parse(statusLayout, text)
	if err != nil {
		return time.Time{} // no time is as good as none: whoever asks for a fresh one waits
	}
	return at.UTC()
}
