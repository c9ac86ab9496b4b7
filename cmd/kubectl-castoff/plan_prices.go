package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	awspricing "github.com/aws/aws-sdk-go-v2/service/pricing"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/cost"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/pricing"
)

// priceList tells what instance types are and what they cost in the cluster's region.
type priceList func(ctx context.Context, c inventory.Cluster, types []string) (map[string]inventory.InstanceType, error)

// listPrices asks AWS, with the SDK's own chain of credentials.
func listPrices(ctx context.Context, c inventory.Cluster, types []string) (map[string]inventory.InstanceType, error) {
	endpoint := pricing.Endpoint(c.Partition)
	if endpoint == "" {
		return nil, fmt.Errorf("AWS serves no price list in the partition %s", c.Partition)
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(c.Region))
	if err != nil {
		return nil, fmt.Errorf("finding AWS credentials: %w", err)
	}
	list := awspricing.NewFromConfig(cfg, func(o *awspricing.Options) { o.Region = endpoint })
	compute := ec2.NewFromConfig(cfg)
	port := pricing.Client{
		Products: list.GetProducts, SpotPrices: compute.DescribeSpotPriceHistory, InstanceTypes: compute.DescribeInstanceTypes, Clock: time.Now,
	}
	return port.Fetch(ctx, c.Region, types)
}

// pageSize bounds what one list answers: at 25 KiB a pod, 500 are 12 MiB.
const pageSize = 500

// runningPods reads what is requested of every node, page by page.
func runningPods(ctx context.Context, c client.Client) ([]cost.Pod, error) {
	var out []cost.Pod
	var page corev1.PodList
	for {
		page.Items = nil
		if err := c.List(ctx, &page, client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		for i := range page.Items {
			if p := &page.Items[i]; p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				out = append(out, podOf(p))
			}
		}
		if page.Continue == "" {
			return out, nil
		}
	}
}

func podOf(p *corev1.Pod) cost.Pod {
	out := cost.Pod{Node: p.Spec.NodeName, Requests: cost.Requested(resource.PodRequests(p, resource.PodResourcesOptions{}))}
	if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "DaemonSet" {
		out.DaemonSet = p.Namespace + "/" + owner.Name
	}
	if _, static := p.Annotations[corev1.MirrorPodAnnotationKey]; static { // of the image: each new node brings its own
		out.DaemonSet = p.Namespace + "/" + strings.TrimSuffix(p.Name, "-"+p.Spec.NodeName)
	}
	return out
}
