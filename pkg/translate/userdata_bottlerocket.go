package translate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

var (
	tomlSettings = regexp.MustCompile(`(?m)^\s*\[\s*settings\b`)

	// joinSettings only join the cluster.
	joinSettings = []string{"cluster-name", "api-server", "cluster-certificate"}
	// knownSettings are those of settings.kubernetes that Karpenter passes on; it drops all others (its BottlerocketKubernetes).
	knownSettings = []string{
		"allowed-unsafe-sysctls", "cloud-provider", "cluster-domain", "container-log-max-files", "container-log-max-size", "container-log-max-workers",
		"container-log-monitor-interval", "cpu-manager-policy", "cpu-manager-policy-options", "cpu-manager-reconcile-period", "credential-providers",
		"device-ownership-from-security-context", "event-burst", "event-qps", "hostname-override-source", "ids-per-pod", "kube-api-burst", "kube-api-qps",
		"log-level", "memory-manager-policy", "pod-pids-limit", "registry-burst", "registry-qps", "seccomp-default", "server-tls-bootstrap",
		"shutdown-grace-period", "shutdown-grace-period-for-critical-pods", "single-process-oom-kill", "static-pods", "topology-manager-policy",
		"topology-manager-policy-options", "topology-manager-scope",
	}
	// bottlerocketKubelet are the names of what spec.kubelet takes.
	bottlerocketKubelet = map[string]string{
		"max-pods": "maxPods", "system-reserved": "systemReserved", "kube-reserved": "kubeReserved", "eviction-hard": "evictionHard",
		"eviction-soft": "evictionSoft", "eviction-soft-grace-period": "evictionSoftGracePeriod", "eviction-max-pod-grace-period": "evictionMaxPodGracePeriod",
		"image-gc-high-threshold-percent": "imageGCHighThresholdPercent", "image-gc-low-threshold-percent": "imageGCLowThresholdPercent",
		"cpu-cfs-quota-enforced": "cpuCFSQuota", "cluster-dns-ip": "clusterDNS",
	}
)

type table = map[string]any

// readSettings lifts the join, labels, taints and what spec.kubelet takes out of the settings of Bottlerocket ("Settings reference").
func (u *userData) readSettings(s string) {
	var all table
	if err := toml.Unmarshal([]byte(s), &all); err != nil {
		u.broken = "its settings of Bottlerocket are no TOML: " + err.Error()
		return
	}
	settings, ok := all["settings"].(table)
	if !ok {
		u.broken = "it has no settings of Bottlerocket"
		return
	}
	kubernetes, _ := settings["kubernetes"].(table)
	for _, key := range sortedKeys(kubernetes) {
		if !u.readSetting(key, kubernetes[key]) {
			continue
		}
		delete(kubernetes, key)
	}
	if len(kubernetes) == 0 {
		delete(settings, "kubernetes")
	}
	if len(settings) == 0 {
		delete(all, "settings")
	}
	if len(all) == 0 {
		return
	}
	written, err := toml.Marshal(all)
	if err != nil {
		u.broken = "its settings of Bottlerocket cannot be written again: " + err.Error()
		return
	}
	u.kept = append(u.kept, part{content: string(written)})
}

// readSetting says whether a setting of settings.kubernetes is not to be kept: it was carried over, or is listed.
func (u *userData) readSetting(key string, value any) bool {
	switch {
	case key == "node-labels":
		u.readNodeLabels(value)
	case key == "node-taints":
		u.readNodeTaints(value)
	case slices.Contains(joinSettings, key):
	case slices.Contains(knownSettings, key):
		return false
	default:
		if field, ok := bottlerocketKubelet[key]; !ok || !u.setKubelet(field, kubeletValue(field, value)) {
			u.drop("settings.kubernetes.%s", key)
		}
	}
	return true
}

func (u *userData) readNodeLabels(value any) {
	labels, ok := value.(table)
	if !ok {
		u.drop("settings.kubernetes.node-labels")
	}
	for _, k := range sortedKeys(labels) {
		u.labels[k] = fmt.Sprint(labels[k])
	}
}

// readNodeTaints reads key = "value:Effect" and key = ["value:Effect", …].
func (u *userData) readNodeTaints(value any) {
	taints, ok := value.(table)
	if !ok {
		u.drop("settings.kubernetes.node-taints")
	}
	for _, k := range sortedKeys(taints) {
		list, ok := taints[k].([]any)
		if !ok {
			list = []any{taints[k]}
		}
		for _, t := range list {
			u.addTaint(k, fmt.Sprint(t))
		}
	}
}

// kubeletValue is a value in the type of the kubelet's configuration: Bottlerocket takes numbers in quotes, and one address or many.
func kubeletValue(field string, value any) any {
	s, ok := value.(string)
	switch {
	case !ok:
		return value
	case field == "clusterDNS":
		return []string{s}
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32); err == nil {
		return n
	}
	return value
}
