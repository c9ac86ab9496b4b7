package translate

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// kubeletFlags are the flags of the kubelet that an EC2NodeClass has a place for, by the field of the kubelet's configuration that
// they stand for (Kubernetes, "kubelet", and the EC2NodeClass's definition).
var kubeletFlags = map[string]string{
	"max-pods": "maxPods", "pods-per-core": "podsPerCore", "system-reserved": "systemReserved", "kube-reserved": "kubeReserved",
	"eviction-hard": "evictionHard", "eviction-soft": "evictionSoft", "eviction-soft-grace-period": "evictionSoftGracePeriod",
	"eviction-max-pod-grace-period": "evictionMaxPodGracePeriod", "image-gc-high-threshold": "imageGCHighThresholdPercent",
	"image-gc-low-threshold": "imageGCLowThresholdPercent", "cpu-cfs-quota": "cpuCFSQuota", "cluster-dns": "clusterDNS",
}

// The keys that the definition of an EC2NodeClass takes.
var (
	reservedKeys = []string{"cpu", "memory", "ephemeral-storage", "pid"}
	evictionKeys = []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"}
	percentage   = regexp.MustCompile(`^(\d{1,2}(\.\d{1,2})?|100(\.0{1,2})?)%$`)
)

// setFlag takes a flag of the kubelet; false where it has no place in spec.kubelet, or the value is none that it takes.
func (u *userData) setFlag(name, value string) bool {
	field, ok := kubeletFlags[name]
	if !ok || strings.Contains(value, "$") {
		return false
	}
	switch {
	case strings.HasPrefix(field, "eviction") && field != "evictionMaxPodGracePeriod", strings.HasSuffix(field, "Reserved"):
		pairs := map[string]string{}
		for _, pair := range strings.Split(value, ",") {
			i := strings.IndexAny(pair, "<=")
			if i < 0 {
				return false
			}
			pairs[strings.TrimSpace(pair[:i])] = strings.TrimSpace(pair[i+1:])
		}
		return u.setKubelet(field, pairs)
	case field == "clusterDNS":
		return u.setKubelet(field, strings.Split(value, ","))
	case field == "cpuCFSQuota":
		return u.setKubelet(field, value != "false")
	}
	n, err := strconv.ParseInt(value, 10, 32)
	return err == nil && u.setKubelet(field, n)
}

// setKubelet sets a field of spec.kubelet by its name; false, and nothing is set, where the definition would refuse it.
func (u *userData) setKubelet(field string, value any) bool {
	if !slices.Contains(slices.Collect(maps.Values(kubeletFlags)), field) {
		return false
	}
	written, err := json.Marshal(map[string]any{field: value})
	if err != nil {
		return false
	}
	var alone awsv1.KubeletConfiguration
	if json.Unmarshal(written, &alone) != nil || !fits(alone) {
		return false
	}
	return json.Unmarshal(written, &u.kubelet) == nil
}

func fits(k awsv1.KubeletConfiguration) bool {
	for _, n := range []*int32{k.MaxPods, k.PodsPerCore, k.EvictionMaxPodGracePeriod, k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent} {
		if n != nil && *n < 0 {
			return false
		}
	}
	for _, n := range []*int32{k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent} {
		if n != nil && *n > 100 {
			return false
		}
	}
	for key := range k.EvictionSoftGracePeriod {
		if !slices.Contains(evictionKeys, key) {
			return false
		}
	}
	return quantities(k.SystemReserved, reservedKeys, false) && quantities(k.KubeReserved, reservedKeys, false) &&
		quantities(k.EvictionHard, evictionKeys, true) && quantities(k.EvictionSoft, evictionKeys, true)
}

func quantities(of map[string]string, keys []string, percent bool) bool {
	for key, value := range of {
		q, err := resource.ParseQuantity(value)
		if !slices.Contains(keys, key) || (err != nil || q.Sign() < 0) && (!percent || !percentage.MatchString(value)) {
			return false
		}
	}
	return true
}

// settleKubelet drops what the definition refuses in combination: a soft threshold without a grace period or the reverse, and
// image collection that would stop above where it starts.
func (u *userData) settleKubelet() {
	k := &u.kubelet
	for _, key := range sortedKeys(k.EvictionSoft) {
		if _, ok := k.EvictionSoftGracePeriod[key]; !ok {
			u.drop("evictionSoft %s", key)
			delete(k.EvictionSoft, key)
		}
	}
	for _, key := range sortedKeys(k.EvictionSoftGracePeriod) {
		if _, ok := k.EvictionSoft[key]; !ok {
			u.drop("evictionSoftGracePeriod %s", key)
			delete(k.EvictionSoftGracePeriod, key)
		}
	}
	if high, low := k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent; high != nil && low != nil && *high <= *low {
		u.drop("imageGCHighThresholdPercent and imageGCLowThresholdPercent")
		k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent = nil, nil
	}
}

// spec is spec.kubelet, nil where nothing is set.
func (u *userData) spec() *awsv1.KubeletConfiguration {
	if b, err := json.Marshal(u.kubelet); err != nil || string(b) == "{}" {
		return nil
	}
	return &u.kubelet
}
