package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// claiming makes the pod want a claim.
func claiming(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// bound is a claim and its volume, which nodes of those names alone can reach; of none: every node can.
func bound(claim, volume string, requirements ...corev1.NodeSelectorRequirement) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}}
	if len(requirements) > 0 {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}}}}
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}, pv
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func TestStrandedPods(t *testing.T) {
	accepted := []v1alpha1.AcceptedRisk{{Check: "BarePod", Object: "*", Reason: "x"}, {Check: "LocalVolume", Object: "persistentvolume/pv-local", Reason: "a cache"}}
	local := []inventory.StrandedPod{{
		Pod: types.NamespacedName{Namespace: "default", Name: "a"}, Claim: types.NamespacedName{Namespace: "default", Name: "local"}, Volume: "pv-local", Hosts: []string{"old-1"},
	}}
	for name, tc := range map[string]struct {
		reason string
		risks  []v1alpha1.AcceptedRisk
		pod    *corev1.Pod
		want   []inventory.StrandedPod
	}{
		"Local":       {"its disk is one node's", accepted, pod("a", claiming("local")), local},
		"Second":      {"whichever of its volumes it is", accepted, pod("a", claiming("ebs"), claiming("local")), local},
		"NotAccepted": {"nobody accepts the loss of any, so nothing is read", accepted[:1], pod("a", claiming("local")), nil},
		"Zone":        {"a zone has other nodes", accepted, pod("a", claiming("ebs")), nil},
		"Anywhere":    {"every node reaches it", accepted, pod("a", claiming("nfs")), nil},
		"Unbound":     {"it waits for a volume, not for a node of its own", accepted, pod("a", claiming("unbound")), nil},
		"NoClaim":     {"its claim is deleted already: its controller makes one anew", accepted, pod("a", claiming("missing")), nil},
		"NoVolume":    {"or the volume is", accepted, pod("a", claiming("lost")), nil},
		"None":        {"it has none", accepted, pod("a"), nil},
		"Bound":       {"it has a node", accepted, pod("a", claiming("local"), func(p *corev1.Pod) { p.Spec.NodeName = "n" }), nil},
		"Leaving":     {"it goes", accepted, pod("a", claiming("local"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, v := range []struct {
				claim, volume string
				at            []corev1.NodeSelectorRequirement
			}{
				{"local", "pv-local", []corev1.NodeSelectorRequirement{in(corev1.LabelHostname, "old-1"), in(corev1.LabelTopologyZone, "a")}},
				{"ebs", "pv-ebs", []corev1.NodeSelectorRequirement{in(corev1.LabelTopologyZone, "a")}},
				{"nfs", "pv-nfs", nil}, {"unbound", "", nil},
			} {
				claim, volume := bound(v.claim, v.volume, v.at...)
				w.must(w.c.Create(t.Context(), claim))
				if v.volume != "" {
					w.must(w.c.Create(t.Context(), volume))
				}
			}
			lost, _ := bound("lost", "pv-lost")
			w.must(w.c.Create(t.Context(), lost))
			w.must(w.c.Create(t.Context(), tc.pod))
			got, err := w.reconciler().Observer.strandedPods(t.Context(), tc.risks)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestHosts: alternatives that do not all name nodes leave the pod other places.
func TestHosts(t *testing.T) {
	term := func(r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: r}
	}
	for name, tc := range map[string]struct {
		reason string
		terms  []corev1.NodeSelectorTerm
		want   []string
	}{
		"HostName": {"the local volume provisioner's", []corev1.NodeSelectorTerm{term(in(corev1.LabelHostname, "a"))}, []string{"a"}},
		"Driver":   {"a driver's own key", []corev1.NodeSelectorTerm{term(in("topology.topolvm.io/node", "a"))}, []string{"a"}},
		"Field":    {"the node's name", []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", "a")}}}, []string{"a"}},
		"Two":      {"either of them will do", []corev1.NodeSelectorTerm{term(in(corev1.LabelHostname, "a")), term(in(corev1.LabelHostname, "b", "c"))}, []string{"a", "b", "c"}},
		"OrZone":   {"a zone is not one node", []corev1.NodeSelectorTerm{term(in(corev1.LabelHostname, "a")), term(in(corev1.LabelTopologyZone, "z"))}, nil},
		"None":     {"nothing is asked for", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, hosts(&corev1.NodeSelector{NodeSelectorTerms: tc.terms})); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
	if hosts(nil) != nil {
		t.Error("no selector names no node")
	}
}
