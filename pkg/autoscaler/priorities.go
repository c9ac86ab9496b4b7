package autoscaler

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// What the priority expander reads, in Cluster Autoscaler's own namespace (Cluster Autoscaler, "Priority based expander").
const (
	expanderPriority    = "priority"
	prioritiesConfigMap = "cluster-autoscaler-priority-expander"
	prioritiesKey       = "priorities"
)

// readPriorities reads the priorities of groups where the priority expander is in use. Weights of NodePools are made of them and no
// more, so what cannot be read is a note, and no reason to stop.
func (c *Client) readPriorities(ctx context.Context, f flags, a *inventory.Autoscaler) error {
	if !slices.Contains(strings.Split(f.expander, ","), expanderPriority) {
		return nil
	}
	name := types.NamespacedName{Namespace: f.namespace, Name: prioritiesConfigMap}
	configMap := new(corev1.ConfigMap)
	err := c.live.Get(ctx, name, configMap)
	note := func(why string) {
		a.Notes = append(a.Notes, "the priorities of ConfigMap "+name.String()+" are not carried over: "+why)
	}
	switch {
	case apierrors.IsNotFound(err):
		note("there is none, and Cluster Autoscaler chooses without it")
	case apierrors.IsForbidden(err):
		note("castoff may not get it")
	case err != nil:
		return wrap(err, "get", "configmaps", name.String())
	default:
		if a.Priorities, err = priorities(configMap.Data[prioritiesKey]); err != nil {
			note(err.Error())
		}
	}
	return nil
}

// priorities reads a map of priorities to expressions for names of groups. As Cluster Autoscaler has it, one expression that is
// none spoils them all.
func priorities(text string) (map[int32][]string, error) {
	var all map[int32][]string
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("key %s is no map of numbers to lists of expressions: %w", prioritiesKey, err)
	}
	for priority, expressions := range all {
		for _, e := range expressions {
			if _, err := regexp.Compile(e); err != nil {
				return nil, fmt.Errorf("priority %d: %w", priority, err)
			}
		}
	}
	return all, nil
}
