package preflight

import "github.com/castoff-sh/castoff/pkg/inventory"

// CheckBarePod is the check for pods without a controller.
const CheckBarePod = "BarePod"

// barePods: a pod that no controller owns is gone for good once it is evicted, so castoff does not evict it and its node
// would never be empty.
func barePods(in Input) []inventory.Finding {
	pods, pools := in.legacyPods()
	var out []inventory.Finding
	for i, p := range pods {
		if p.Owner != nil || p.Mirror {
			continue
		}
		f := block(CheckBarePod, p.Object(), "No controller would bring this pod back, so castoff does not evict it and node "+p.Node+
			" would never be empty. Delete the pod, or give it a controller.")
		f.Pool = pools[i]
		out = append(out, f)
	}
	return out
}
