package bridge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

func instance(change func(*simapi.Instance)) simapi.Instance {
	i := simapi.Instance{
		ID: "i-1", Type: "m5.large", Zone: "us-east-1a", Region: "us-east-1", State: "running", ImageID: "ami-1",
		PrivateIP: "10.0.0.7", PrivateDNSName: "ip-10-0-0-7.ec2.internal", Architecture: "amd64", RoleAuthorised: true,
		RoleARN: "arn:aws:iam::123456789012:role/nodes", Cluster: "harbor", AutoScalingGroup: "general",
		UserData: "#!/bin/sh\n/etc/eks/bootstrap.sh harbor --kubelet-extra-args --node-labels=pool=general,kubernetes.io/arch=mine\n",
		MilliCPU: 2000, MemoryMiB: 8192, MaxPods: 29,
	}
	if change != nil {
		change(&i)
	}
	return i
}

func TestNewNode(t *testing.T) {
	cases := map[string]struct {
		reason      string
		instance    simapi.Instance
		wantLabels  map[string]string
		wantNoLabel string
		wantTaints  []corev1.Taint
	}{
		"SelfManaged": {
			reason:      "labels come from the user data, but for those nobody may choose",
			instance:    instance(nil),
			wantLabels:  map[string]string{"pool": "general", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "ip-10-0-0-7.ec2.internal", "topology.kubernetes.io/zone": "us-east-1a", "topology.kubernetes.io/region": "us-east-1", "node.kubernetes.io/instance-type": "m5.large", "kubernetes.io/os": "linux"},
			wantNoLabel: "eks.amazonaws.com/nodegroup",
		},
		"ManagedNodeGroupWithUserData": {
			reason: "a taint that is in both is there once, with the node group's value",
			instance: instance(func(i *simapi.Instance) {
				i.NodeGroup = "batch"
				i.UserData = "#!/bin/sh\n/etc/eks/bootstrap.sh harbor --kubelet-extra-args --register-with-taints=spot=no:NoSchedule,own=1:NoSchedule\n"
				i.Taints = []simapi.Taint{{Key: "spot", Value: "true", Effect: "NoSchedule"}}
			}),
			wantLabels:  map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"},
			wantNoLabel: "pool",
			wantTaints: []corev1.Taint{
				{Key: "own", Value: "1", Effect: corev1.TaintEffectNoSchedule}, {Key: "spot", Value: "true", Effect: corev1.TaintEffectNoSchedule},
			},
		},
		"ManagedNodeGroup": {
			reason: "EKS adds labels and taints of the node group",
			instance: instance(func(i *simapi.Instance) {
				i.UserData, i.NodeGroup, i.Spot = "", "batch", true
				i.Labels = map[string]string{"team": "data"}
				i.Taints = []simapi.Taint{{Key: "spot", Value: "true", Effect: "NoSchedule"}}
			}),
			wantLabels:  map[string]string{"team": "data", "eks.amazonaws.com/nodegroup": "batch", "eks.amazonaws.com/capacityType": "SPOT", "eks.amazonaws.com/nodegroup-image": "ami-1"},
			wantNoLabel: "pool",
			wantTaints:  []corev1.Taint{{Key: "spot", Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := register(tc.instance)
			if err != nil {
				t.Fatal(err)
			}
			node := newNode(tc.instance, r, "v1.36.3")
			for key, want := range tc.wantLabels {
				if got := node.Labels[key]; got != want {
					t.Errorf("%s: label %s: got %q, want %q", tc.reason, key, got, want)
				}
			}
			if value, found := node.Labels[tc.wantNoLabel]; found {
				t.Errorf("%s: unwanted label %s=%s", tc.reason, tc.wantNoLabel, value)
			}
			if diff := cmp.Diff(tc.wantTaints, node.Spec.Taints); diff != "" {
				t.Errorf("%s: taints (-want +got):\n%s", tc.reason, diff)
			}
			if node.Name != "ip-10-0-0-7.ec2.internal" || node.Spec.ProviderID != "aws:///us-east-1a/i-1" || node.Annotations["kwok.x-k8s.io/node"] != "fake" {
				t.Errorf("name %q, providerID %q, annotations %v", node.Name, node.Spec.ProviderID, node.Annotations)
			}
		})
	}
}

func TestResources(t *testing.T) {
	capacity, allocatable := resources(instance(nil), 29)
	got := map[string]string{}
	for name, list := range map[string]corev1.ResourceList{"capacity": capacity, "allocatable": allocatable} {
		for resource, quantity := range list {
			got[name+" "+string(resource)] = quantity.String()
		}
	}
	// m5.large: 60 + 10 millicores reserved; 8 GiB less 6%, less 255 + 11*29 + 100 MiB.
	want := map[string]string{
		"capacity cpu": "2", "allocatable cpu": "1930m", "capacity pods": "29", "allocatable pods": "29",
		"capacity ephemeral-storage": "20Gi", "allocatable ephemeral-storage": "17Gi",
		"capacity memory": got["capacity memory"], "allocatable memory": got["allocatable memory"],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	memory, free := capacity.Memory().Value()>>20, allocatable.Memory().Value()>>20
	if memory != 7700 || free != 7700-255-11*29-100 {
		t.Errorf("memory: capacity %d MiB, allocatable %d MiB", memory, free)
	}
}

func TestReservedMilliCPU(t *testing.T) {
	for milliCPU, want := range map[int64]int64{1000: 60, 2000: 70, 4000: 80, 8000: 90, 96000: 310} {
		if got := reservedMilliCPU(milliCPU); got != want {
			t.Errorf("%d: got %d, want %d", milliCPU, got, want)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	cases := map[string]struct {
		reason   string
		instance simapi.Instance
		want     string
	}{
		"NothingJoins": {
			"a self-managed node needs user data", instance(func(i *simapi.Instance) { i.UserData = "" }), "nothing in the user data",
		},
		"OtherCluster": {
			"copied from another cluster's template", instance(func(i *simapi.Instance) { i.Cluster = "lagoon" }), `"harbor"`,
		},
		"ForbiddenLabel": {
			"the kubelet does not start with labels of Kubernetes' own domains", instance(func(i *simapi.Instance) {
				i.UserData = strings.Replace(i.UserData, "pool=general", "node-role.kubernetes.io/worker=true", 1)
			}), "node-role.kubernetes.io/worker",
		},
		"ForbiddenLabelOfANodeGroup": {
			"EKS passes them on as a flag too", instance(func(i *simapi.Instance) {
				i.UserData, i.NodeGroup, i.Labels = "", "batch", map[string]string{"cluster.k8s.io/x": ""}
			}), "cluster.k8s.io/x",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := register(tc.instance)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want an error that mentions %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}

func TestCheckLabelsAllows(t *testing.T) {
	allowed := map[string]string{
		"team": "", "example.com/x": "", "node.kubernetes.io/x": "", "a.node.kubernetes.io/x": "", "kubelet.kubernetes.io/x": "",
		"topology.kubernetes.io/zone": "", "karpenter.sh/nodepool": "", "notkubernetes.io/x": "",
	}
	if err := checkLabels(allowed); err != nil {
		t.Error(err)
	}
}

func TestMapsRole(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/nodes"
	rows := func(arn, group string) string {
		return "- rolearn: " + arn + "\n  username: system:node:{{EC2PrivateDNSName}}\n  groups: [system:bootstrappers, " + group + "]\n"
	}
	cases := map[string]struct {
		mapRoles, role string
		want           bool
	}{
		"Listed":     {rows(role, "system:nodes"), role, true},
		"OtherRole":  {rows(role+"2", "system:nodes"), role, false},
		"OtherGroup": {rows(role, "system:masters"), role, false},
		"Broken":     {"- rolearn: [", role, false},
		"NoRole":     {"- groups: [system:nodes]", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := mapsRole(tc.mapRoles, tc.role); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
