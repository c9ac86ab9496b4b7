package translate

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// userData is what the user data of a launch template says about its nodes.
type userData struct {
	labels map[string]string
	taints []corev1.Taint
	// rest names settings beyond the join, the labels and the taints; script says that there are commands that nobody can read.
	rest   []string
	script bool
}

var (
	// flags of bootstrap.sh and of kubelet, as the first passes them on in --kubelet-extra-args and nodeadm in spec.kubelet.flags.
	flags  = regexp.MustCompile(`(?:^|[\s'"=\\])--([a-z0-9-]+)(?:[= ]\\?['"]?([^\s'"\\-][^\s'"\\]*))?`)
	quoted = regexp.MustCompile(`"([^"]*)"`)

	// What only joins the cluster: arguments of bootstrap.sh, settings of Bottlerocket, variables that EKS's own scripts set.
	joinFlags     = []string{"apiserver-endpoint", "b64-cluster-ca", "dns-cluster-ip", "ip-family", "service-ipv6-cidr", "container-runtime"}
	joinSettings  = []string{"cluster-name", "api-server", "cluster-certificate", "cluster-dns-ip"}
	joinVariables = []string{"B64_CLUSTER_CA=", "API_SERVER_URL=", "K8S_CLUSTER_DNS_IP="}

	// noCommands begin lines that do nothing: comments, shell options, and the frame of MIME archives, which EKS itself writes
	// without the blank line that would make it one.
	noCommands = []string{"#", "set ", "--", "MIME-Version", "Content-"}
)

const bootstrapScript = "/etc/eks/bootstrap.sh"

// readUserData reads scripts for bootstrap.sh (Amazon Linux 2), NodeConfigs for nodeadm (Amazon Linux 2023) and settings of
// Bottlerocket, in a MIME archive or bare.
func readUserData(s string) userData {
	u := userData{labels: map[string]string{}}
	for _, part := range parts(s) {
		switch {
		case strings.Contains(part, "node.eks.aws") && u.readNodeConfig(part):
		case strings.Contains(part, "[settings"):
			u.readSettings(part)
		default:
			u.readScript(part)
		}
	}
	return u
}

// parts are those of a MIME archive. What is none, or a broken one, is a part by itself.
func parts(s string) []string {
	whole := []string{s}
	m, err := mail.ReadMessage(strings.NewReader(strings.TrimLeft(s, "\r\n\t ")))
	if err != nil {
		return whole
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return whole
	}
	var out []string
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			return whole
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return whole
		}
		out = append(out, string(b))
	}
}

// readNodeConfig says whether the part was a NodeConfig.
func (u *userData) readNodeConfig(part string) bool {
	var specs []map[string]json.RawMessage
	for _, document := range strings.Split(part, "\n---") {
		var config struct {
			Spec map[string]json.RawMessage `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &config); err != nil {
			return false
		}
		specs = append(specs, config.Spec)
	}
	for _, spec := range specs {
		for _, field := range sortedKeys(spec) {
			switch field {
			case "cluster": // the join
			case "kubelet":
				u.readKubelet(spec[field])
			default:
				u.rest = append(u.rest, "NodeConfig spec."+field)
			}
		}
	}
	return true
}

func (u *userData) readKubelet(raw json.RawMessage) {
	var kubelet struct {
		Flags  []string                   `json:"flags"`
		Config map[string]json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(raw, &kubelet); err != nil {
		u.rest = append(u.rest, "NodeConfig spec.kubelet")
		return
	}
	u.readFlags(strings.Join(kubelet.Flags, " "))
	for _, field := range sortedKeys(kubelet.Config) {
		var taints []corev1.Taint
		if field == "registerWithTaints" && json.Unmarshal(kubelet.Config[field], &taints) == nil {
			u.taints = append(u.taints, taints...)
			continue
		}
		u.rest = append(u.rest, "NodeConfig spec.kubelet.config."+field)
	}
}

// readSettings reads Bottlerocket's TOML as far as node labels and taints go; every other setting is named.
func (u *userData) readSettings(part string) {
	section := ""
	for line := range strings.Lines(part) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[] ")
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		u.readSetting(section, strings.Trim(key, `"' `), strings.TrimSpace(value))
	}
}

func (u *userData) readSetting(section, key, value string) {
	switch {
	case section == "settings.kubernetes.node-labels":
		u.labels[key] = strings.Trim(value, `"'`)
	case section == "settings.kubernetes.node-taints":
		for _, m := range quoted.FindAllStringSubmatch(value, -1) {
			u.addTaint(key, m[1])
		}
	case section == "settings.kubernetes" && slices.Contains(joinSettings, key):
	default:
		u.rest = append(u.rest, section+"."+key)
	}
}

// readScript reads the call of bootstrap.sh. What EKS's own scripts do around it does not count.
func (u *userData) readScript(part string) {
	for line := range strings.Lines(strings.ReplaceAll(part, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		begins := func(with string) bool { return strings.HasPrefix(line, with) }
		_, arguments, bootstrap := strings.Cut(line, bootstrapScript)
		switch {
		case line == "", slices.ContainsFunc(noCommands, begins), slices.ContainsFunc(joinVariables, begins):
		case bootstrap:
			u.readFlags(strings.ReplaceAll(arguments, "--kubelet-extra-args", " "))
		default:
			u.script = true
		}
	}
}

func (u *userData) readFlags(s string) {
	for _, m := range flags.FindAllStringSubmatch(s, -1) {
		switch name, value := m[1], m[2]; {
		case name == "node-labels":
			u.addLabels(value)
		case name == "register-with-taints":
			for _, t := range strings.Split(value, ",") {
				u.addTaintOf(t)
			}
		case !slices.Contains(joinFlags, name):
			u.rest = append(u.rest, strings.TrimSuffix("--"+name+"="+value, "="))
		}
	}
}

func (u *userData) addLabels(pairs string) {
	for _, pair := range strings.Split(pairs, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			u.labels[k] = v
		} else if pair != "" {
			u.rest = append(u.rest, "label "+pair)
		}
	}
}

// addTaintOf reads "key=value:Effect" and "key:Effect".
func (u *userData) addTaintOf(s string) {
	if s == "" {
		return
	}
	key, valueEffect, ok := strings.Cut(s, "=")
	if !ok {
		key, valueEffect, _ = strings.Cut(s, ":")
		valueEffect = ":" + valueEffect
	}
	u.addTaint(key, valueEffect)
}

func (u *userData) addTaint(key, valueEffect string) {
	t, ok := taint(key, valueEffect)
	if !ok {
		u.rest = append(u.rest, "taint "+key+"="+valueEffect)
		return
	}
	u.taints = append(u.taints, t)
}

// taint reads "value:Effect" for a key.
func taint(key, valueEffect string) (corev1.Taint, bool) {
	i := strings.LastIndexByte(valueEffect, ':')
	if key == "" || i < 0 {
		return corev1.Taint{}, false
	}
	t := corev1.Taint{Key: key, Value: valueEffect[:i], Effect: corev1.TaintEffect(valueEffect[i+1:])}
	return t, knownEffect(t.Effect)
}

func knownEffect(e corev1.TaintEffect) bool {
	return e == corev1.TaintEffectNoSchedule || e == corev1.TaintEffectPreferNoSchedule || e == corev1.TaintEffectNoExecute
}
