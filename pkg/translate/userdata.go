package translate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
)

// userData is the user data of a launch template, taken apart: what Karpenter sets itself is lifted out, the rest is kept.
type userData struct {
	labels map[string]string
	taints []corev1.Taint
	// kubelet is what spec.kubelet of an EC2NodeClass takes, and raid0 whether instance store disks become one.
	kubelet awsv1.KubeletConfiguration
	raid0   bool
	// kept are the parts that are left for spec.userData, and form how they are written.
	kept []part
	form form
	// rest names settings that Karpenter has no place for; late says that commands that followed the join now precede it.
	rest []string
	late bool
	// broken says why the user data cannot be taken apart; empty when it could.
	broken string
}

// form is the language of user data.
type form int

const (
	formNone  form = iota
	formCloud      // scripts and NodeConfigs, for cloud-init and nodeadm
	formTOML       // settings of Bottlerocket
	formWindows
)

// readUserData reads scripts for bootstrap.sh (Amazon Linux 2), NodeConfigs for nodeadm (Amazon Linux 2023), both in a MIME archive
// or bare, settings of Bottlerocket, and PowerShell for Windows.
func readUserData(s string) userData {
	u := userData{labels: map[string]string{}}
	switch trimmed := strings.TrimSpace(s); {
	case trimmed == "":
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		u.broken = "it is not text"
	case strings.Contains(trimmed, "<powershell>") || strings.Contains(trimmed, "<script>"):
		u.form = formWindows
		u.readWindows(trimmed)
	case tomlSettings.MatchString(s) && !strings.HasPrefix(trimmed, "#!"):
		u.form = formTOML
		u.readSettings(s)
	default:
		u.form = formCloud
		u.readParts(s)
	}
	u.settleKubelet()
	return u
}

func (u *userData) readParts(s string) {
	all, err := parts(s)
	if err != nil {
		u.broken = err.Error()
		return
	}
	for _, p := range all {
		switch p.kind() {
		case kindNodeConfig:
			p.content = u.readNodeConfig(p.content)
		case kindScript:
			p.content = u.readScript(p.content)
		}
		if boundaryLine.MatchString(p.content) {
			u.broken = "it has a line that begins with --" + boundary + ", which Karpenter takes for the end of a part"
		}
		if strings.TrimSpace(p.content) != "" {
			u.kept = append(u.kept, p)
		}
	}
}

// written is what is left, as spec.userData takes it; empty when nothing is.
func (u *userData) written() string {
	if u.form == formCloud {
		return archive(u.kept)
	}
	var out strings.Builder
	for _, p := range u.kept {
		out.WriteString(p.content)
	}
	return out.String()
}

// drop names a setting that Karpenter has no place for.
func (u *userData) drop(format string, args ...any) {
	u.rest = append(u.rest, fmt.Sprintf(format, args...))
}

func (u *userData) addLabels(pairs string) {
	for _, pair := range strings.Split(pairs, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			u.labels[k] = v
		} else if pair != "" {
			u.drop("label %s", pair)
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
		u.drop("taint %s=%s", key, valueEffect)
		return
	}
	if !slices.Contains(u.taints, t) {
		u.taints = append(u.taints, t)
	}
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
