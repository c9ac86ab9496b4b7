package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// environment of a process.
type environment map[string]string

func (e environment) list() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		list = append(list, name+"="+e[name])
	}
	return list
}

// add sets NAME=value lines.
func (e environment) add(lines ...string) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		e[name] = value
	}
}

// environment is what the lab gives every process, then what the pod says, then what must be the runner's.
func (c *container) environment(ctx context.Context, ports portPair) (environment, error) {
	w, config := c.worker, c.worker.runner.config
	env := environment{
		"PATH":   os.Getenv("PATH"),
		"HOME":   w.dir,
		"TMPDIR": filepath.Join(w.dir, "tmp"),
		// As in a container. The system's own host name is the machine's here, the same for all pods.
		"HOSTNAME": w.pod.Name,
	}
	own := environment{}
	if err := c.addFrom(ctx, own); err != nil {
		return nil, err
	}
	if err := c.addOwn(ctx, own); err != nil {
		return nil, err
	}
	if config.AWSEndpoint != "" {
		addAWS(env, own, config, w.path(podIdentityToken))
	}
	rewrite := c.mountRewriter()
	for name, value := range own {
		env[name] = rewrite(value)
	}
	env.add(config.Env...)
	env.add("KUBECONFIG="+w.path(kubeconfigFile), "METRICS_PORT="+strconv.Itoa(ports.metrics), "HEALTH_PROBE_PORT="+strconv.Itoa(ports.health))
	return env, nil
}

// addAWS leads the SDK to the simulator, with the credentials of the ServiceAccount's pod identity association as the
// EKS webhook does. Whether there is one is seen when the credentials are asked for. A pod with keys of its own keeps them.
func addAWS(env, own environment, config Config, tokenFile string) {
	env.add("AWS_REGION="+config.Region, "AWS_DEFAULT_REGION="+config.Region, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ENDPOINT_URL="+config.AWSEndpoint, "AWS_ENDPOINT_URL_STS="+config.AWSEndpoint)
	if own["AWS_ACCESS_KEY_ID"] == "" {
		env.add("AWS_CONTAINER_CREDENTIALS_FULL_URI="+config.AWSEndpoint+simapi.PathIdentity, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="+tokenFile)
	}
}

// addFrom adds whole ConfigMaps and Secrets (envFrom).
func (c *container) addFrom(ctx context.Context, env environment) error {
	for _, source := range c.spec.EnvFrom {
		var values map[string]string
		var err error
		switch {
		case source.ConfigMapRef != nil:
			values, err = c.worker.configMap(ctx, source.ConfigMapRef.Name, source.ConfigMapRef.Optional)
		case source.SecretRef != nil:
			values, err = c.worker.secret(ctx, source.SecretRef.Name, source.SecretRef.Optional)
		}
		if err != nil {
			return err
		}
		for name, value := range values {
			env[source.Prefix+name] = value
		}
	}
	return nil
}

// addOwn adds the container's env in its order: later values may use earlier ones.
func (c *container) addOwn(ctx context.Context, env environment) error {
	for _, variable := range c.spec.Env {
		if variable.ValueFrom == nil {
			env[variable.Name] = expand(variable.Value, env)
			continue
		}
		value, found, err := c.valueFrom(ctx, variable.ValueFrom)
		if err != nil {
			return fmt.Errorf("env %s: %w", variable.Name, err)
		}
		if found {
			env[variable.Name] = value
		}
	}
	return nil
}

// valueFrom resolves a reference; found is false when an optional one leads nowhere.
func (c *container) valueFrom(ctx context.Context, source *corev1.EnvVarSource) (value string, found bool, err error) {
	w := c.worker
	switch {
	case source.FieldRef != nil:
		value, err = w.field(source.FieldRef.FieldPath)
		return value, err == nil, err
	case source.ResourceFieldRef != nil:
		value, err = resourceField(c.spec, source.ResourceFieldRef)
		return value, err == nil, err
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		values, err := w.configMap(ctx, ref.Name, ref.Optional)
		return key(values, "ConfigMap "+ref.Name, ref.Key, ref.Optional, err)
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		values, err := w.secret(ctx, ref.Name, ref.Optional)
		return key(values, "Secret "+ref.Name, ref.Key, ref.Optional, err)
	}
	return "", false, errors.New("a kind of valueFrom that the runner does not know")
}

func key(values map[string]string, owner, name string, optional *bool, err error) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	value, found := values[name]
	if !found && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("%s has no key %s", owner, name)
	}
	return value, found, nil
}

// field resolves a fieldRef of the downward API.
func (w *worker) field(path string) (string, error) {
	pod := w.pod
	if name, ok := subscript(path, "metadata.labels"); ok {
		return pod.Labels[name], nil
	}
	if name, ok := subscript(path, "metadata.annotations"); ok {
		return pod.Annotations[name], nil
	}
	fields := map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
		"spec.nodeName": pod.Spec.NodeName, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.podIP": w.podIP, "status.podIPs": w.podIP, "status.hostIP": w.hostIP, "status.hostIPs": w.hostIP,
	}
	value, known := fields[path]
	if !known {
		return "", fmt.Errorf("fieldRef %q: the runner does not know that field", path)
	}
	return value, nil
}

// subscript takes name out of parent['name'].
func subscript(path, parent string) (string, bool) {
	rest, found := strings.CutPrefix(path, parent+"['")
	if !found {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// resourceField resolves a resourceFieldRef: the quantity in units of its divisor, rounded up; 0 where none is set.
func resourceField(spec *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	kind, name, found := strings.Cut(ref.Resource, ".")
	lists := map[string]corev1.ResourceList{"limits": spec.Resources.Limits, "requests": spec.Resources.Requests}
	list, known := lists[kind]
	if !found || !known {
		return "", fmt.Errorf("resourceFieldRef %q: want limits.NAME or requests.NAME", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	quantity := list[corev1.ResourceName(name)]
	if name == string(corev1.ResourceCPU) {
		return strconv.FormatInt(divideUp(quantity.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(divideUp(quantity.Value(), divisor.Value()), 10), nil
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }

func (w *worker) configMap(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	object, err := w.runner.config.Client.CoreV1().ConfigMaps(w.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, optionalError("ConfigMap "+name, optional, err)
	}
	return object.Data, nil
}

func (w *worker) secret(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	object, err := w.runner.config.Client.CoreV1().Secrets(w.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, optionalError("Secret "+name, optional, err)
	}
	values := map[string]string{}
	for key, value := range object.Data {
		values[key] = string(value)
	}
	return values, nil
}

func optionalError(what string, optional *bool, err error) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return fmt.Errorf("read %s: %w", what, err)
}

// arguments are the container's, after the image's entry point: a command of the pod replaces that by its own first word.
func (c *container) arguments(env environment) []string {
	words := c.spec.Args
	if len(c.spec.Command) > 0 {
		words = slices.Concat(c.spec.Command[1:], c.spec.Args)
	}
	rewrite := c.mountRewriter()
	arguments := make([]string, len(words))
	for i, word := range words {
		arguments[i] = rewrite(expand(word, env))
	}
	return arguments
}

var reference = regexp.MustCompile(`\$?\$\([^()]*\)`)

// expand replaces $(NAME) by the variable's value. Unknown names stay, and $$(NAME) is $(NAME) itself.
func expand(text string, env environment) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		if escaped, ok := strings.CutPrefix(match, "$$"); ok {
			return "$" + escaped
		}
		if value, known := env[match[2:len(match)-1]]; known {
			return value
		}
		return match
	})
}
