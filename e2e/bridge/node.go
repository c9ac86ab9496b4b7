package bridge

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

const (
	// AnnotationEnded on a Node says that its instance is going down: kwok no longer keeps it Ready.
	AnnotationEnded = "lab.castoff.sh/ended"
	// AnnotationInstance on a Node names the instance it was made for.
	AnnotationInstance = "lab.castoff.sh/instance"
	// ReasonEnded is the reason of the Ready conditions of such a Node and of its pods.
	ReasonEnded = "InstanceEnded"
)

// register says how the instance's kubelet would register, or why it would not.
func register(instance simapi.Instance) (registration, error) {
	r, err := parseUserData(instance.UserData)
	if err != nil {
		return r, err
	}
	managed := instance.NodeGroup != ""
	switch {
	case r.cluster == "" && !managed:
		return r, fmt.Errorf("nothing in the user data joins a cluster: neither a NodeConfig nor a call of bootstrap.sh")
	case r.cluster != "" && r.cluster != instance.Cluster:
		return r, fmt.Errorf("the user data joins cluster %q, the instance belongs to %q", r.cluster, instance.Cluster)
	}
	if managed { // EKS adds its own part to the user data
		maps.Copy(r.labels, instance.Labels)
		for _, taint := range instance.Taints {
			r.addTaint(corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect)})
		}
	}
	return r, checkLabels(r.labels)
}

// addTaint adds a taint, or changes the value of the one of that key and effect.
func (r *registration) addTaint(taint corev1.Taint) {
	r.taints = slices.DeleteFunc(r.taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
	r.taints = append(r.taints, taint)
}

// newNode is the Node as the kubelet and the cloud's node controller leave it, but for the Ready condition, which kwok adds.
func newNode(instance simapi.Instance, r registration, kubeletVersion string) *corev1.Node {
	maxPods := instance.MaxPods
	if r.maxPods > 0 {
		maxPods = r.maxPods
	}
	capacity, allocatable := resources(instance, maxPods)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        instance.PrivateDNSName,
			Labels:      nodeLabels(instance, r),
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", AnnotationInstance: instance.ID},
		},
		Spec: corev1.NodeSpec{ProviderID: providerID(instance), Taints: r.taints},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: allocatable,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: instance.PrivateIP},
				{Type: corev1.NodeInternalDNS, Address: instance.PrivateDNSName},
				{Type: corev1.NodeHostName, Address: instance.PrivateDNSName},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: instance.Architecture, OperatingSystem: "linux", KubeletVersion: kubeletVersion,
				ContainerRuntimeVersion: "containerd://2.1.0", KernelVersion: "6.12", OSImage: "Amazon Linux 2023 (simulated)",
				MachineID: instance.ID, SystemUUID: instance.ID, BootID: instance.ID,
			},
		},
	}
}

func providerID(instance simapi.Instance) string {
	return fmt.Sprintf("aws:///%s/%s", instance.Zone, instance.ID)
}

// nodeLabels are the user data's, then those nobody may choose.
func nodeLabels(instance simapi.Instance, r registration) map[string]string {
	labels := maps.Clone(r.labels)
	for key, value := range map[string]string{
		corev1.LabelHostname:                instance.PrivateDNSName,
		corev1.LabelArchStable:              instance.Architecture,
		"beta.kubernetes.io/arch":           instance.Architecture,
		corev1.LabelOSStable:                "linux",
		"beta.kubernetes.io/os":             "linux",
		corev1.LabelInstanceTypeStable:      instance.Type,
		corev1.LabelInstanceType:            instance.Type,
		corev1.LabelTopologyZone:            instance.Zone,
		corev1.LabelFailureDomainBetaZone:   instance.Zone,
		corev1.LabelTopologyRegion:          instance.Region,
		corev1.LabelFailureDomainBetaRegion: instance.Region,
	} {
		labels[key] = value
	}
	if instance.NodeGroup != "" {
		labels["eks.amazonaws.com/nodegroup"] = instance.NodeGroup
		labels["eks.amazonaws.com/nodegroup-image"] = instance.ImageID
		labels["eks.amazonaws.com/capacityType"] = "ON_DEMAND"
		if instance.Spot {
			labels["eks.amazonaws.com/capacityType"] = "SPOT"
		}
	}
	return labels
}

const (
	mebibyte = 1 << 20
	// hypervisorShare of an instance's advertised memory, in percent, does not reach the operating system. A little less
	// than what Karpenter allows for by default (7.5), as on most real types.
	hypervisorShare = 6
	// rootVolume is what EKS images have by default.
	rootVolume = 20 << 30
)

// resources are what an EKS image reports: allocatable is less what it reserves for the kubelet (CPU by steps of the
// number of cores; memory 255 MiB and 11 MiB a pod), the eviction threshold of 100 MiB and a tenth of the disk.
func resources(instance simapi.Instance, maxPods int64) (capacity, allocatable corev1.ResourceList) {
	memory := instance.MemoryMiB * mebibyte / 100 * (100 - hypervisorShare)
	reserved := (255 + 11*maxPods + 100) * mebibyte
	capacity = corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(instance.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(rootVolume, resource.BinarySI),
	}
	allocatable = corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(instance.MilliCPU-reservedMilliCPU(instance.MilliCPU), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(max(0, memory-reserved), resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(rootVolume/10*9-(1<<30), resource.BinarySI),
	}
	return capacity, allocatable
}

// reservedMilliCPU is 6% of the first core, 1% of the second, 0.5% of the next two and 0.25% of all others.
func reservedMilliCPU(milliCPU int64) int64 {
	reservedMicro, from := int64(0), int64(0)
	for _, step := range []struct{ upTo, perMille100 int64 }{{1000, 600}, {2000, 100}, {4000, 50}, {1 << 40, 25}} {
		if milliCPU > from {
			reservedMicro += (min(milliCPU, step.upTo) - from) * step.perMille100
		}
		from = step.upTo
	}
	return reservedMicro / 10000
}
