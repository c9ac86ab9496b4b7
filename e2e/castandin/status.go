package castandin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	// timeFormat is Go's own, as upstream prints a time.Time.
	timeFormat            = "2006-01-02 15:04:05.999999999 -0700 MST"
	annotationLastUpdated = "cluster-autoscaler.kubernetes.io/last-updated"
)

// The YAML under the key `status`, Cluster Autoscaler 1.30 and later.
type (
	statusDocument struct {
		Time             string        `json:"time"`
		AutoscalerStatus string        `json:"autoscalerStatus"`
		ClusterWide      groupStatus   `json:"clusterWide"`
		NodeGroups       []groupStatus `json:"nodeGroups,omitempty"`
	}
	groupStatus struct {
		Name      string       `json:"name,omitempty"`
		Health    healthStatus `json:"health"`
		ScaleUp   probe        `json:"scaleUp"`
		ScaleDown probe        `json:"scaleDown"`
	}
	healthStatus struct {
		probe               `json:",inline"`
		NodeCounts          nodeCounts `json:"nodeCounts"`
		CloudProviderTarget *int       `json:"cloudProviderTarget,omitempty"`
		MinSize             *int       `json:"minSize,omitempty"`
		MaxSize             *int       `json:"maxSize,omitempty"`
	}
	nodeCounts struct {
		Registered   registered `json:"registered"`
		Unregistered int        `json:"unregistered"`
	}
	registered struct {
		Total      int `json:"total"`
		Ready      int `json:"ready"`
		NotStarted int `json:"notStarted"`
	}
	probe struct {
		Status        string       `json:"status"`
		Candidates    *int         `json:"candidates,omitempty"`
		LastProbeTime *metav1.Time `json:"lastProbeTime"`
	}
)

func newStatus(w *world, list []*Group, idle map[string]time.Time, healthy bool, now time.Time) statusDocument {
	at := metav1.NewTime(now)
	doc := statusDocument{Time: now.UTC().Format(timeFormat), AutoscalerStatus: "Running"}
	whole := groupStatus{Health: healthStatus{probe: probe{Status: word(healthy, "Healthy", "Unhealthy"), LastProbeTime: &at}}}
	busy, candidates := false, 0
	for _, group := range list {
		members, upcoming := w.members(group), w.upcoming(group, now)
		counts := countNodes(members, group.Desired)
		groupIdle := 0
		for _, node := range members {
			if _, ok := idle[node.Name]; ok {
				groupIdle++
			}
		}
		doc.NodeGroups = append(doc.NodeGroups, groupStatus{
			Name: group.Name,
			Health: healthStatus{probe: probe{Status: "Healthy", LastProbeTime: &at}, NodeCounts: counts,
				CloudProviderTarget: &group.Desired, MinSize: &group.Min, MaxSize: &group.Max},
			ScaleUp:   probe{Status: word(upcoming > 0, "InProgress", "NoActivity"), LastProbeTime: &at},
			ScaleDown: probe{Status: word(groupIdle > 0, "CandidatesPresent", "NoCandidates"), Candidates: &groupIdle, LastProbeTime: &at},
		})
		busy, candidates = busy || upcoming > 0, candidates+groupIdle
	}
	whole.Health.NodeCounts = countNodes(w.nodes, len(w.nodes))
	whole.ScaleUp = probe{Status: word(busy, "InProgress", "NoActivity"), LastProbeTime: &at}
	whole.ScaleDown = probe{Status: word(candidates > 0, "CandidatesPresent", "NoCandidates"), Candidates: &candidates, LastProbeTime: &at}
	doc.ClusterWide = whole
	return doc
}

func countNodes(nodes []*corev1.Node, target int) nodeCounts {
	counts := nodeCounts{Registered: registered{Total: len(nodes)}, Unregistered: max(0, target-len(nodes))}
	for _, node := range nodes {
		if ready(node) {
			counts.Registered.Ready++
		}
	}
	counts.Registered.NotStarted = counts.Registered.Total - counts.Registered.Ready
	return counts
}

func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func (a *Autoscaler) writeStatus(ctx context.Context, doc statusDocument) error {
	if !a.opts.WriteStatus {
		return nil
	}
	body, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("writing the status as YAML: %w", err)
	}
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: a.opts.StatusName, Namespace: a.opts.Namespace, Annotations: map[string]string{annotationLastUpdated: doc.Time}},
		Data:       map[string]string{"status": string(body)},
	}
	maps := a.kube.CoreV1().ConfigMaps(a.opts.Namespace)
	_, err = maps.Update(ctx, wanted, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, wanted, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", a.opts.Namespace, a.opts.StatusName, err)
	}
	return nil
}

// removeStatus deletes the ConfigMap, as upstream does on SIGTERM only.
func (a *Autoscaler) removeStatus(ctx context.Context) error {
	err := a.kube.CoreV1().ConfigMaps(a.opts.Namespace).Delete(ctx, a.opts.StatusName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting ConfigMap %s/%s: %w", a.opts.Namespace, a.opts.StatusName, err)
	}
	return nil
}
