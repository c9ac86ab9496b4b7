package translate

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// object is a JSON object whose members nobody has to know.
type object = map[string]json.RawMessage

// readNodeConfig lifts the cluster, labels, taints and what spec.kubelet takes out of NodeConfigs (nodeadm, "API reference"), and
// returns those that still say something.
func (u *userData) readNodeConfig(content string) string {
	var out []string
	for _, document := range strings.Split("\n"+content, "\n---") {
		var config object
		if err := yaml.Unmarshal([]byte(document), &config); err != nil {
			u.broken = "its NodeConfig is no YAML"
			return ""
		}
		var spec object
		if raw := config["spec"]; raw != nil && json.Unmarshal(raw, &spec) != nil {
			u.broken = "spec of its NodeConfig is no object"
			return ""
		}
		u.readNodeConfigSpec(spec)
		if len(spec) == 0 {
			continue
		}
		config["spec"] = marshal(spec)
		written, err := yaml.Marshal(config)
		if err != nil {
			u.broken = "its NodeConfig cannot be written again"
			return ""
		}
		out = append(out, string(written))
	}
	return strings.Join(out, "---\n")
}

func (u *userData) readNodeConfigSpec(spec object) {
	delete(spec, "cluster") // Karpenter writes it
	if raw, ok := spec["kubelet"]; ok {
		if kept, ok := u.readKubelet(raw); !ok {
			u.broken = "spec.kubelet of its NodeConfig is not as nodeadm takes it"
		} else if kept == nil {
			delete(spec, "kubelet")
		} else {
			spec["kubelet"] = kept
		}
	}
	if raw, ok := spec["instance"]; ok && u.readLocalStorage(raw) {
		delete(spec, "instance")
	}
}

// readKubelet returns what is left of spec.kubelet, nil when nothing is.
func (u *userData) readKubelet(raw json.RawMessage) (json.RawMessage, bool) {
	var kubelet struct {
		Flags  []string `json:"flags,omitempty"`
		Config object   `json:"config,omitempty"`
	}
	if json.Unmarshal(raw, &kubelet) != nil {
		return nil, false
	}
	var flags []string
	u.readKubeletFlags(kubelet.Flags, func(flag string) { flags = append(flags, flag) })
	for _, field := range sortedKeys(kubelet.Config) {
		if (field == "registerWithTaints" && u.readTaints(kubelet.Config[field])) || u.setKubelet(field, kubelet.Config[field]) {
			delete(kubelet.Config, field)
		}
	}
	if kubelet.Flags = flags; len(flags) == 0 && len(kubelet.Config) == 0 {
		return nil, true
	}
	return marshal(kubelet), true
}

func (u *userData) readTaints(raw json.RawMessage) bool {
	var taints []corev1.Taint
	if json.Unmarshal(raw, &taints) != nil {
		return false
	}
	for _, t := range taints {
		u.addTaint(t.Key, t.Value+":"+string(t.Effect))
	}
	return true
}

// readLocalStorage says whether spec.instance asks for nothing but a RAID 0 of the instance store disks, as the EC2NodeClass can.
func (u *userData) readLocalStorage(raw json.RawMessage) bool {
	var instance map[string]map[string]any
	if json.Unmarshal(raw, &instance) != nil || len(instance) != 1 {
		return false
	}
	storage := instance["localStorage"]
	if strategy, _ := storage["strategy"].(string); len(storage) != 1 || strategy != "RAID0" {
		return false
	}
	u.raid0 = true
	return true
}

// marshal writes what was read as JSON.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // what was JSON is JSON
	}
	return b
}
