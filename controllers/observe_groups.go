package controllers

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

const (
	// groupsFresh is for how long a list of node groups serves while nothing is awaited of AWS: the watches of Kubernetes wake the
	// reconciler far more often, and what somebody else changes is to be seen within ten seconds.
	groupsFresh = 10 * time.Second
	// groupsAwaited is the same while an effect is awaited, or an instance on its way: what AWS shows lags by seconds.
	groupsAwaited = 2 * time.Second
)

// groupList is the last list of node groups, and what it is held against.
type groupList struct {
	mu     sync.Mutex
	groups []inventory.NodeGroup
	// listed is when everything was read, looked when sizes and instances were.
	listed, looked time.Time
	// known is the ledger as this process read or wrote it last.
	known []v1alpha1.Operation
}

// forget makes the next look list everything.
func (l *groupList) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = time.Time{}
}

// wrote tells what this process wrote into the ledger: its own entries make no list old.
func (l *groupList) wrote(ops []v1alpha1.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = ops
}

// listGroups lists the node groups, or gives what is known of them. What another leader did, or saw done, since the list was read makes
// the list old: an end that it shows to be due may be made.
func (o *Observer) listGroups(ctx context.Context, m *v1alpha1.Migration) ([]inventory.NodeGroup, error) {
	l, now := &o.groups, o.Clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := m.Status.Operations
	others := !equality.Semantic.DeepEqual(l.known, ops)
	awaited, ends := pending(ops), leaving(l.groups)
	old := now.Sub(l.looked) >= groupsAwaited
	switch {
	case l.listed.IsZero(), others, now.Sub(l.listed) >= groupsFresh, old && slices.ContainsFunc(awaited, func(op v1alpha1.Operation) bool { return !endsInstances(op) }):
		groups, err := o.Ports.NodeGroups.List(ctx, namedGroups(m)...)
		if err != nil {
			return nil, err
		}
		l.groups, l.listed, l.looked, l.known = groups, now, now, slices.Clone(ops)
	case old && (len(awaited) > 0 || ends):
		if err := o.lookAgain(ctx, now); err != nil {
			return nil, err
		}
	}
	return l.groups, nil
}

// lookAgain reads sizes and instances of the groups that are known.
func (o *Observer) lookAgain(ctx context.Context, now time.Time) error {
	groups, err := o.Ports.NodeGroups.Refresh(ctx, o.groups.groups)
	if err != nil {
		return err
	}
	o.groups.groups, o.groups.looked = groups, now
	return nil
}

// inService are those of the group's instances that were in service a moment ago.
func (o *Observer) inService(ctx context.Context, asg string, ids []string) ([]string, error) {
	l, now := &o.groups, o.Clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.looked) >= groupsAwaited {
		if err := o.lookAgain(ctx, now); err != nil {
			return nil, err
		}
	}
	i := slices.IndexFunc(l.groups, func(g inventory.NodeGroup) bool { return g.AutoScalingGroup == asg })
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return i < 0 || !slices.ContainsFunc(l.groups[i].Instances, func(n inventory.Instance) bool { return n.ID == id && n.InService() })
	}), nil
}

// namedGroups are those that the user names.
func namedGroups(m *v1alpha1.Migration) []string {
	var names []string
	for _, p := range m.Spec.Pools {
		names = append(names, p.NodeGroups...)
	}
	if m.Spec.Home != nil {
		names = append(names, m.Spec.Home.NodeGroup)
	}
	return names
}

// pending are the effects that are not seen yet.
func pending(ops []v1alpha1.Operation) []v1alpha1.Operation {
	return slices.DeleteFunc(slices.Clone(ops), func(op v1alpha1.Operation) bool { return op.DoneTime != nil })
}

func endsInstances(op v1alpha1.Operation) bool {
	kind, _, _ := plan.EndInstances{}.Entry()
	return strings.HasPrefix(op.ID, kind+"/")
}

// leaving says that an instance is on its way out.
func leaving(groups []inventory.NodeGroup) bool {
	return slices.ContainsFunc(groups, func(g inventory.NodeGroup) bool {
		return slices.ContainsFunc(g.Instances, func(i inventory.Instance) bool { return strings.HasPrefix(i.Lifecycle, "Terminating") })
	})
}
