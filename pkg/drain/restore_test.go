package drain

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// restored is what Restore writes on every node.
func restored(change ...func(*shape)) shape {
	s := shape{Annotations: map[string]string{
		"castoff.sh/legacy-pool": "general", "castoff.sh/held-by": "castoff", "castoff.sh/restored-from": "gone",
		"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
	}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func TestRestore(t *testing.T) {
	labelled := func(labels map[string]string) func(*shape) { return func(s *shape) { s.Labels = labels } }
	tainted := func(taints ...corev1.Taint) func(*shape) { return func(s *shape) { s.Taints = taints } }
	noExecute := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute} }
	ours := map[string]string{"castoff.sh/cordoned-by": "castoff", "castoff.sh/excluded-by": "castoff"}
	exclude := corev1.LabelNodeExcludeBalancers
	tests := map[string]struct {
		reason string
		have   shape
		from   inventory.NodeSnapshot
		want   shape
	}{
		"Nothing": {reason: "it is held, and known as restored", want: restored()},
		"Labels": {
			reason: "what the group does not give comes back, what the node has stays",
			have:   shape{Labels: map[string]string{"team": "new"}},
			from:   inventory.NodeSnapshot{Labels: map[string]string{"team": "old", "rack": "7", "node-role.kubernetes.io/edge": ""}},
			want:   restored(labelled(map[string]string{"team": "new", "rack": "7", "node-role.kubernetes.io/edge": ""})),
		},
		"Machine": {
			reason: "which machine it is, and what was measured on it, is not copied",
			from: inventory.NodeSnapshot{Labels: map[string]string{
				"kubernetes.io/hostname": "gone", "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m6g.large",
				"beta.kubernetes.io/instance-type": "m6g.large", "failure-domain.beta.kubernetes.io/zone": "a", "topology.kubernetes.io/zone": "a",
				"topology.k8s.aws/zone-id": "use1-az1", "topology.ebs.csi.aws.com/zone": "a", "k8s.io/cloud-provider-aws": "x",
				"eks.amazonaws.com/nodegroup-image": "ami-1", "alpha.eksctl.io/instance-id": "i-1", "vpc.amazonaws.com/has-trunk-attached": "true",
				"feature.node.kubernetes.io/cpu-cpuid.AVX": "true", "nvidia.com/gpu.product": "T4", "karpenter.sh/nodepool": "x",
				"castoff.sh/pool": "general", "castoff.sh/scaler": "karpenter",
			}},
			want: restored(),
		},
		"AlmostMachine": {
			reason: "a name that only looks like one is the user's",
			from:   inventory.NodeSnapshot{Labels: map[string]string{"hostname": "a", "example.com/topology": "b", "mynvidia.com/x": "c", "topology": "d"}},
			want:   restored(labelled(map[string]string{"hostname": "a", "example.com/topology": "b", "mynvidia.com/x": "c", "topology": "d"})),
		},
		"Taints": {
			reason: "by key and effect, behind those that are there; when they were added is another node's life",
			have:   shape{Taints: []corev1.Taint{noSchedule("own"), {Key: "dedicated", Value: "new", Effect: corev1.TaintEffectNoSchedule}}},
			from: inventory.NodeSnapshot{Taints: []corev1.Taint{noSchedule("dedicated"),
				{Key: "dedicated", Value: "true", Effect: corev1.TaintEffectNoExecute, TimeAdded: ptr.To(metav1.NewTime(now.Add(-time.Hour)))}, noSchedule("nvidia.com/gpu")}},
			want: restored(tainted(noSchedule("own"), corev1.Taint{Key: "dedicated", Value: "new", Effect: corev1.TaintEffectNoSchedule},
				corev1.Taint{Key: "dedicated", Value: "true", Effect: corev1.TaintEffectNoExecute}, noSchedule("nvidia.com/gpu"))),
		},
		"Moment": {
			reason: "a state that the recorded node was in is not the new one's",
			from: inventory.NodeSnapshot{Taints: []corev1.Taint{
				noExecute("node.kubernetes.io/not-ready"), noExecute("node.kubernetes.io/unreachable"), noSchedule("node.kubernetes.io/unschedulable"),
				noSchedule("node.cloudprovider.kubernetes.io/uninitialized"), noSchedule("ToBeDeletedByClusterAutoscaler"),
				noSchedule("DeletionCandidateOfClusterAutoscaler"), noSchedule("startup-taint.cluster-autoscaler.kubernetes.io/x"),
				noSchedule("aws-node-termination-handler/spot-itn"), noSchedule("ebs.csi.aws.com/agent-not-ready"), noExecute("node.cilium.io/agent-not-ready"),
				noSchedule("karpenter.sh/disrupted"), softTaint, hardTaint,
			}},
			want: restored(),
		},
		"Cordon": {
			reason: "the user had cordoned it", from: inventory.NodeSnapshot{Unschedulable: true},
			want: restored(func(s *shape) { s.Unschedulable = true }),
		},
		"CordonOfAScaleDown": {
			reason: "Cluster Autoscaler cordons what it is about to delete: nobody wants that back",
			from:   inventory.NodeSnapshot{Unschedulable: true, Taints: []corev1.Taint{noSchedule("ToBeDeletedByClusterAutoscaler")}},
			want:   restored(),
		},
		"OursBecomesTheirs": {
			reason: "what the user had outlives what castoff does to the new node",
			have:   shape{Labels: map[string]string{exclude: "true"}, Annotations: ours, Unschedulable: true},
			from:   inventory.NodeSnapshot{Labels: map[string]string{exclude: ""}, Unschedulable: true},
			want:   restored(labelled(map[string]string{exclude: "true"}), func(s *shape) { s.Unschedulable = true }),
		},
		"OursStaysOurs": {
			reason: "what the user did not have is castoff's to undo",
			have:   shape{Labels: map[string]string{exclude: "true"}, Annotations: ours, Unschedulable: true},
			want: restored(labelled(map[string]string{exclude: "true"}), func(s *shape) {
				s.Unschedulable = true
				s.Annotations["castoff.sh/cordoned-by"], s.Annotations["castoff.sh/excluded-by"] = "castoff", "castoff"
			}),
		},
		"UsersHold": {
			reason: "a hold of the user's gets no signature of castoff's",
			have:   shape{Annotations: map[string]string{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}},
			want:   restored(func(s *shape) { delete(s.Annotations, "castoff.sh/held-by") }),
		},
		"Once": {
			reason: "what differs since is somebody's own",
			have:   shape{Annotations: map[string]string{"castoff.sh/restored-from": "another"}},
			from:   inventory.NodeSnapshot{Labels: map[string]string{"rack": "7"}, Unschedulable: true},
			want:   shape{Annotations: map[string]string{"castoff.sh/restored-from": "another"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.from.Name = "gone"
			got, patches := after(t, tc.have, restoreIt(tc.from), restoreIt(tc.from))
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if changed := !cmp.Equal(tc.have, tc.want, cmpopts.EquateEmpty()); (patches == 1) != changed || patches > 1 {
				t.Errorf("%s: %d patches for a node that changes: %t", tc.reason, patches, changed)
			}
		})
	}
}

// TestRestoreThenUnmark leaves the recorded node's own, and nothing of castoff's.
func TestRestoreThenUnmark(t *testing.T) {
	from := inventory.NodeSnapshot{Name: "gone", Labels: map[string]string{"rack": "7"}, Taints: []corev1.Taint{noSchedule("dedicated")}, Unschedulable: true}
	got, _ := after(t, shape{}, mark, fenceIt, beginIt, restoreIt(from), releaseIt, unmarkIt)
	want := shape{Labels: from.Labels, Taints: from.Taints, Unschedulable: true}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTheWayBackOnARealNode: the API server's own rules for patches, labels and taints; each step rests when it is repeated.
func TestTheWayBackOnARealNode(t *testing.T) {
	user := shape{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"x": "y"}, Taints: []corev1.Taint{noSchedule("dedicated")}}
	name := createNode(t, user)
	before := shapeOf(getNode(t, name)) // admission adds a taint of its own
	from := inventory.NodeSnapshot{Name: "gone", Labels: map[string]string{"rack": "7"}}
	steps := []struct {
		reason string
		do     act
	}{
		{"fenced", func(ctx context.Context, d *Drainer) error { return d.Fence(ctx, name, "general") }},
		{"drained", func(ctx context.Context, d *Drainer) error { return d.Begin(ctx, name) }},
		{"back in service", func(ctx context.Context, d *Drainer) error { return d.Release(ctx, name) }},
		{"restored and held", func(ctx context.Context, d *Drainer) error { return d.Restore(ctx, name, "general", from) }},
		{"on its own again", func(ctx context.Context, d *Drainer) error { return d.Unmark(ctx, name) }},
	}
	d := New(cluster.Client, cluster.Client, clock)
	for _, step := range steps {
		var versions []string
		for range 2 {
			if err := step.do(t.Context(), d); err != nil {
				t.Fatalf("%s: %v", step.reason, err)
			}
			versions = append(versions, getNode(t, name).ResourceVersion)
		}
		if versions[0] != versions[1] {
			t.Errorf("%s: the second call wrote", step.reason)
		}
	}
	before.Labels = with(before.Labels, "rack", "7")
	if diff := cmp.Diff(before, shapeOf(getNode(t, name)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("want the user's node and what was recorded: -want +got:\n%s", diff)
	}
}

// TestReleaseLosesToAConcurrentWriter is against the real API server: the patch carries the resourceVersion.
func TestReleaseLosesToAConcurrentWriter(t *testing.T) {
	c := withWatch(t)
	name := createNode(t, fenced)
	racing := interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			other := getNode(t, name)
			other.Spec.Taints = append(other.Spec.Taints, noSchedule("dedicated"))
			if err := c.Update(ctx, other); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	err := New(racing, c, clock).Release(t.Context(), name)
	if !apierrors.IsConflict(err) || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("want a conflict that is tried again, got %v", err)
	}
	if got := getNode(t, name); !got.Spec.Unschedulable || !hasTaint(got.Spec.Taints, "dedicated") {
		t.Errorf("half a release was written: %+v", shapeOf(got))
	}
}
