package autoscaler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const yamlStatus = `
time: 2026-05-04 03:01:55.123456789 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
    lastProbeTime: null
nodeGroups:
- name: general
  health: {cloudProviderTarget: 6, minSize: 1, maxSize: 9}
  scaleUp: {status: NoActivity}
- name: memory
`

const textStatus = `Cluster-autoscaler status at 2022-01-02 03:04:05.6 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=6 unready=0)
    LastProbeTime:      2022-01-02 03:04:05 +0000 UTC

NodeGroups:
  Name:        general
  Health:      Healthy (ready=6 minSize=1, maxSize=9)

  Name:        memory
  Health:      Healthy (ready=4)
`

func TestReadStatus(t *testing.T) {
	tests := map[string]struct {
		reason      string
		text        string
		annotation  string
		wantGroups  []string
		wantWritten time.Time
	}{
		"YAML": {
			reason: "1.30 and later", text: yamlStatus, annotation: "2026-05-04 03:01:50 +0000 UTC",
			wantGroups: []string{"general", "memory"}, wantWritten: time.Date(2026, 5, 4, 3, 1, 55, 123456789, time.UTC),
		},
		"YAMLInAnotherZone": {
			reason: "the time is that of the machine", text: "time: 2026-05-04 05:01:55 +0200 CEST\nautoscalerStatus: Running\n",
			wantWritten: time.Date(2026, 5, 4, 3, 1, 55, 0, time.UTC),
		},
		"YAMLWithoutTime": {
			reason: "the annotation has it too", text: "nodeGroups: [{name: general}]", annotation: "2026-05-04 03:01:50 +0000 UTC",
			wantGroups: []string{"general"}, wantWritten: time.Date(2026, 5, 4, 3, 1, 50, 0, time.UTC),
		},
		"NoGroupLeft": {
			reason: "it has let go of all, and says so", text: "time: 2026-05-04 03:01:55 +0000 UTC\nnodeGroups: []\n",
			wantWritten: time.Date(2026, 5, 4, 3, 1, 55, 0, time.UTC),
		},
		"Text": {
			reason: "before 1.30", text: textStatus, annotation: "2022-01-02 03:04:05.6 +0000 UTC",
			wantGroups: []string{"general", "memory"}, wantWritten: time.Date(2022, 1, 2, 3, 4, 5, 600000000, time.UTC),
		},
		"TextOfAFirstStart": {reason: "it knows nothing yet", text: "Cluster-autoscaler is initializing"},
		"Empty":             {reason: "no text is no proof"},
		"NoTime":            {reason: "a time that nobody can read is none", text: "nodeGroups: [{name: a}]", annotation: "yesterday", wantGroups: []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			groups, written := readStatus(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{lastUpdated: tc.annotation}},
				Data:       map[string]string{statusKey: tc.text},
			})
			if diff := cmp.Diff(tc.wantGroups, groups); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if !written.Equal(tc.wantWritten) {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.wantWritten, written)
			}
		})
	}
}
