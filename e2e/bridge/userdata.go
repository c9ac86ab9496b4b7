package bridge

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// registration is what an instance's user data makes its kubelet say when it joins.
type registration struct {
	cluster string // whom it joins; empty: nothing in the user data joins
	labels  map[string]string
	taints  []corev1.Taint
	maxPods int64 // 0: as the instance type has it
}

// parseUserData reads what EKS images understand: a shell script that calls /etc/eks/bootstrap.sh (AL2), a NodeConfig
// (nodeadm, AL2023), or a MIME archive of both, which is also what Karpenter writes.
func parseUserData(text string) (registration, error) {
	r := registration{labels: map[string]string{}}
	trimmed := strings.TrimSpace(text)
	var err error
	switch {
	case trimmed == "":
	case strings.HasPrefix(trimmed, "MIME-Version:"), strings.HasPrefix(trimmed, "Content-Type:"):
		err = r.addArchive(trimmed)
	case strings.HasPrefix(trimmed, "#!"):
		err = r.addScript(trimmed)
	default:
		err = r.addNodeConfig(trimmed)
	}
	return r, err
}

func (r *registration) addArchive(text string) error {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("read the MIME header: %w", err)
	}
	mediaType, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("read the MIME content type: %w", err)
	}
	if !strings.HasPrefix(mediaType, "multipart/") {
		return fmt.Errorf("MIME content type %s is not multipart", mediaType)
	}
	parts := multipart.NewReader(message.Body, parameters["boundary"])
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a MIME part: %w", err)
		}
		if err := r.addPart(part); err != nil {
			return err
		}
	}
}

func (r *registration) addPart(part *multipart.Part) error {
	var body io.Reader = part
	if strings.EqualFold(part.Header.Get("Content-Transfer-Encoding"), "base64") {
		body = base64.NewDecoder(base64.StdEncoding, part)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("read a MIME part: %w", err)
	}
	mediaType, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("read a MIME part's content type: %w", err)
	}
	switch mediaType {
	case "application/node.eks.aws":
		return r.addNodeConfig(string(content))
	case "text/x-shellscript":
		return r.addScript(string(content))
	}
	return nil // cloud-init has more kinds; none of them joins a cluster
}

// nodeConfig is the part of nodeadm's NodeConfig (node.eks.aws/v1alpha1) that shows in the Node.
type nodeConfig struct {
	Kind string `json:"kind"`
	Spec struct {
		Cluster struct {
			Name                 string `json:"name"`
			APIServerEndpoint    string `json:"apiServerEndpoint"`
			CertificateAuthority string `json:"certificateAuthority"`
			CIDR                 string `json:"cidr"`
		} `json:"cluster"`
		Kubelet struct {
			Config struct {
				RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
				MaxPods            int64          `json:"maxPods"`
			} `json:"config"`
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// addNodeConfig reads the documents of a NodeConfig; later ones win, as nodeadm merges them.
func (r *registration) addNodeConfig(text string) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read NodeConfig: %w", err)
		}
		var config nodeConfig
		if err := yaml.Unmarshal(document, &config); err != nil {
			return fmt.Errorf("read NodeConfig: %w", err)
		}
		if config.Kind != "NodeConfig" {
			return fmt.Errorf("user data is neither a script nor a NodeConfig: kind is %q", config.Kind)
		}
		if err := r.mergeNodeConfig(config); err != nil {
			return err
		}
	}
}

func (r *registration) mergeNodeConfig(config nodeConfig) error {
	if cluster := config.Spec.Cluster; cluster.Name != "" {
		for field, value := range map[string]string{
			"apiServerEndpoint": cluster.APIServerEndpoint, "certificateAuthority": cluster.CertificateAuthority, "cidr": cluster.CIDR,
		} {
			if value == "" {
				return fmt.Errorf("NodeConfig: spec.cluster.%s is missing, nodeadm refuses that", field)
			}
		}
		r.cluster = cluster.Name
	}
	kubelet := config.Spec.Kubelet
	if len(kubelet.Config.RegisterWithTaints) > 0 {
		r.taints = kubelet.Config.RegisterWithTaints
	}
	if kubelet.Config.MaxPods > 0 {
		r.maxPods = kubelet.Config.MaxPods
	}
	var arguments []string
	for _, flag := range kubelet.Flags {
		words, err := shellWords(flag)
		if err != nil {
			return fmt.Errorf("NodeConfig: kubelet flag %q: %w", flag, err)
		}
		arguments = append(arguments, words...)
	}
	return r.addKubeletFlags(arguments)
}

// bootstrapScript is what joins an AL2 node. It takes the cluster's name and options that each have a value.
const bootstrapScript = "/etc/eks/bootstrap.sh"

// addScript finds the call of bootstrap.sh. Plain assignments before it are followed; other shell logic is not.
func (r *registration) addScript(text string) error {
	variables := map[string]string{}
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		words, err := shellWords(line)
		if err != nil {
			if strings.Contains(line, bootstrapScript) {
				return fmt.Errorf("script: %q: %w", line, err)
			}
			continue // the rest of the script may use more of the shell than is read here
		}
		for i, word := range words {
			words[i] = os.Expand(word, func(name string) string { return variables[name] })
		}
		if i := slices.Index(words, bootstrapScript); i >= 0 {
			return r.addBootstrap(words[i+1:])
		}
		if len(words) > 1 && words[0] == "export" {
			words = words[1:]
		}
		if len(words) == 1 {
			if name, value, found := strings.Cut(words[0], "="); found {
				variables[name] = value
			}
		}
	}
	return nil
}

func (r *registration) addBootstrap(arguments []string) error {
	cluster := ""
	for i := 0; i < len(arguments); i++ {
		argument := arguments[i]
		if strings.HasPrefix(argument, ">") || argument == "||" || argument == "&&" || argument == "|" || argument == ";" {
			break
		}
		if !strings.HasPrefix(argument, "--") {
			cluster = argument
			continue
		}
		name, value, found := strings.Cut(argument, "=")
		if !found && i+1 < len(arguments) {
			i++
			value = arguments[i]
		}
		if name != "--kubelet-extra-args" {
			continue
		}
		flags, err := shellWords(value)
		if err != nil {
			return fmt.Errorf("script: --kubelet-extra-args %q: %w", value, err)
		}
		if err := r.addKubeletFlags(flags); err != nil {
			return err
		}
	}
	if cluster == "" {
		return errors.New("script: bootstrap.sh is called without a cluster name")
	}
	r.cluster = cluster
	return nil
}

// addKubeletFlags reads the kubelet's flags that show in the Node. Labels add up, as in the kubelet; a taint flag
// replaces the taints of its configuration file.
func (r *registration) addKubeletFlags(arguments []string) error {
	for i := 0; i < len(arguments); i++ {
		name, value, found := strings.Cut(arguments[i], "=")
		if !found && i+1 < len(arguments) && !strings.HasPrefix(arguments[i+1], "--") {
			i++
			value = arguments[i]
		}
		var err error
		switch name {
		case "--node-labels":
			err = r.addLabels(value)
		case "--register-with-taints":
			r.taints, err = parseTaints(value)
		case "--max-pods":
			r.maxPods, err = strconv.ParseInt(value, 10, 64)
		}
		if err != nil {
			return fmt.Errorf("kubelet flag %s: %w", name, err)
		}
	}
	return nil
}

func (r *registration) addLabels(text string) error {
	added := map[string]string{}
	for _, pair := range splitList(text) {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("%q is not key=value", pair)
		}
		added[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	maps.Copy(r.labels, added)
	return nil
}

// parseTaints reads key=value:Effect,key:Effect.
func parseTaints(text string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for _, entry := range splitList(text) {
		rest, effect, found := strings.Cut(entry, ":")
		taint := corev1.Taint{Effect: corev1.TaintEffect(effect)}
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			found = false
		}
		if !found {
			return nil, fmt.Errorf("%q is not key=value:Effect", entry)
		}
		taint.Key, taint.Value, _ = strings.Cut(rest, "=")
		taints = append(taints, taint)
	}
	return taints, nil
}

func splitList(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// checkLabels refuses what the kubelet refuses to start with: labels of Kubernetes' own domains that are not a node's to set.
func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		domain, _, found := strings.Cut(key, "/")
		if !found || !inDomain(domain, "kubernetes.io") && !inDomain(domain, "k8s.io") {
			continue
		}
		if inDomain(domain, "node.kubernetes.io") || inDomain(domain, "kubelet.kubernetes.io") || slices.Contains(kubeletLabels, key) {
			continue
		}
		return fmt.Errorf("kubelet flag --node-labels: unknown 'kubernetes.io' or 'k8s.io' label %s: the kubelet does not start", key)
	}
	return nil
}

// kubeletLabels are those of Kubernetes' own that a kubelet may set besides node.kubernetes.io/ and kubelet.kubernetes.io/.
var kubeletLabels = []string{
	corev1.LabelHostname, corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelInstanceTypeStable, corev1.LabelInstanceType,
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

func inDomain(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
