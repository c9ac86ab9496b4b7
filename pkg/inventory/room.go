package inventory

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const mib = 1 << 20

// Room computes what is allocatable on a node of the type: Karpenter's share for the hypervisor (7.5 %,
// VM_MEMORY_OVERHEAD_PERCENT), the reserve of EKS's images (255 MiB and 11 for each pod; 6 %, 1 %, 0.5 %, 0.5 % and then 0.25 % of
// each core) and the kubelet's eviction threshold of 100 MiB. maxPods of the kubelet, 0 where it is not set. A kubelet that runs
// knows better: prefer what a node of the type says.
func (t InstanceType) Room(maxPods int64) corev1.ResourceList {
	pods := t.MaxPods
	if maxPods > 0 {
		pods = maxPods
	}
	if pods == 0 {
		pods = 110 // the kubelet's default
	}
	memory := t.MemoryMiB*mib*925/1000 - (255+11*pods+100)*mib
	cpu := float64(t.VCPUs * 1000)
	for core := range t.VCPUs {
		switch {
		case core == 0:
			cpu -= 60
		case core == 1:
			cpu -= 10
		case core < 4:
			cpu -= 5
		default:
			cpu -= 2.5
		}
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(max(int64(cpu), 0), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(max(memory, 0), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}
}
