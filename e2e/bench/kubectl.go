package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/watcher"
)

// drainer is who drains by hand: a user of the cluster, and of AWS.
const drainer = "bench-drainer"

// byHand drains with kubectl, node after node or all at once.
type byHand struct {
	kubectl    string
	kubeconfig string
	asg        *autoscaling.Client
}

// kubectlDrain shifts the scene by hand.
func (b *Bench) kubectlDrain(ctx context.Context, s size, atOnce bool) (watcher.Measures, error) {
	scene, err := harbor.Start(ctx, b.options(s.stage(drainer)))
	if err != nil {
		return watcher.Measures{}, err
	}
	defer scene.Stop()
	if err := scene.InstallCastoff(ctx); err != nil { // for the engine's ClusterRoles, and so that all ways have the same home
		return watcher.Measures{}, err
	}
	hand, c, err := b.hand(ctx, scene)
	if err != nil {
		return watcher.Measures{}, err
	}
	if err := scene.Watcher.Begin(ctx); err != nil {
		return watcher.Measures{}, err
	}
	if err := serve(ctx, scene, c); err != nil {
		return watcher.Measures{}, err
	}
	nodes, err := legacyNodes(ctx, c)
	if err != nil {
		return watcher.Measures{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := hand.shift(ctx, nodes, atOnce); err != nil {
			cancel(err)
		}
	}()
	m, err := b.follow(ctx, scene, func() bool { return true })
	if err != nil {
		return m, err
	}
	return m, b.keep(scene.Lab)
}

// hand is somebody with rights, and their client.
func (b *Bench) hand(ctx context.Context, scene *harbor.Scene) (*byHand, client.Client, error) {
	rights, err := scene.Lab.UserConfig(drainer, "system:masters")
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(rights, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, nil, fmt.Errorf("building the drainer's client: %w", err)
	}
	kubeconfig := filepath.Join(scene.Lab.Dir, "drainer.kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfigOf(rights), kubeconfig); err != nil {
		return nil, nil, fmt.Errorf("writing the drainer's kubeconfig: %w", err)
	}
	cfg, err := awsConfig(ctx, scene.Lab.Simulator, drainer)
	if err != nil {
		return nil, nil, err
	}
	return &byHand{kubectl: filepath.Join(b.BinDir, "kubectl"), kubeconfig: kubeconfig, asg: autoscaling.NewFromConfig(cfg)}, c, nil
}

func kubeconfigOf(config *rest.Config) clientcmdapi.Config {
	out := clientcmdapi.NewConfig()
	out.Clusters["lab"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	out.AuthInfos[drainer] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	out.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: drainer}
	out.CurrentContext = "lab"
	return *out
}

// shift drains the nodes and then, as the guides have it, shrinks the group to none: before the last node is empty Auto Scaling
// might choose one that is not.
func (h *byHand) shift(ctx context.Context, nodes []corev1.Node, atOnce bool) error {
	if err := h.drain(ctx, nodes, atOnce); err != nil {
		return err
	}
	_, err := h.asg.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(harbor.General), MinSize: aws.Int32(0), MaxSize: aws.Int32(0), DesiredCapacity: aws.Int32(0),
	})
	if err != nil {
		return fmt.Errorf("shrinking the group: %w", err)
	}
	return nil
}

// drain empties the nodes.
func (h *byHand) drain(ctx context.Context, nodes []corev1.Node, atOnce bool) error {
	if !atOnce {
		for _, node := range nodes {
			if err := h.drainOne(ctx, node.Name); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() { errs[i] = h.drainOne(ctx, node.Name) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (h *byHand) drainOne(ctx context.Context, node string) error {
	command := exec.CommandContext(ctx, h.kubectl, "--kubeconfig", h.kubeconfig, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl drain %s: %w: %s", node, err, lastLines(string(output)))
	}
	return nil
}

// lastLines is the end of what a command said.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
