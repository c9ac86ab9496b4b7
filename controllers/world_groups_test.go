package controllers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// testEnding is how long an instance takes to end; its node stays for as long.
	testEnding = 4 * time.Second
	// testService, testJoining and testBoot are how long after its launch an instance is InService, a node, and Ready.
	testService, testJoining, testBoot = 2 * time.Second, 3 * time.Second, 5 * time.Second
)

func (w *world) addGroup(name string, size int32, managed bool) {
	g := &inventory.NodeGroup{
		Name: name, AutoScalingGroup: name, Min: 1, Max: 10, Desired: size, Subnets: []string{"subnet-1"},
		Tags:           []inventory.Tag{{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"}},
		LaunchTemplate: inventory.LaunchTemplate{InstanceType: "m5.large", ImageID: "ami-" + name, Image: &inventory.Image{ID: "ami-" + name, Name: "amazon-eks-node-al2023-x86_64-standard-1.33-v20261101", Architecture: "x86_64"}, SecurityGroups: []string{"sg-1"}},
	}
	if managed {
		g.AutoScalingGroup = "eks-" + name
		g.Managed = &inventory.ManagedNodeGroup{Status: "ACTIVE", AMIType: "AL2023_x86_64_STANDARD", ReleaseVersion: "1.33.0-20261101", CapacityType: "ON_DEMAND", InstanceTypes: []string{"m5.large"}}
	}
	for i := range size {
		id := fmt.Sprintf("i-%s-%d", name, i)
		g.Instances = append(g.Instances, inventory.Instance{ID: id, Type: "m5.large", Zone: "a", Lifecycle: "InService", Healthy: true})
		w.addNode(id, id, map[string]string{"group": name}, true)
		w.pods[id] = podsOfNode
	}
	w.groups[name] = g
}

func copyGroup(g inventory.NodeGroup) inventory.NodeGroup {
	g.Instances = slices.Clone(g.Instances)
	g.ScalingPolicies = slices.Clone(g.ScalingPolicies)
	g.ScheduledActions = slices.Clone(g.ScheduledActions)
	g.SuspendedProcesses = slices.Clone(g.SuspendedProcesses)
	return g
}

// record keeps what AWS shows from now on, and drops what nobody sees any more.
func (w *world) record() {
	f := frame{at: w.now}
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		f.groups = append(f.groups, copyGroup(*w.groups[name]))
	}
	for len(w.history) > 1 && !w.history[1].at.After(w.now.Add(-w.lag)) {
		w.history = w.history[1:]
	}
	w.history = append(w.history, f)
}

// tickGroup is what Auto Scaling does by itself: instances end and come, until there are as many as desired.
func (w *world) tickGroup(g *inventory.NodeGroup) {
	g.Instances = slices.DeleteFunc(g.Instances, func(i inventory.Instance) bool {
		if i.Lifecycle != "Terminating" || w.now.Before(w.endings[i.ID]) {
			return false
		}
		w.removeNode(i.ID)
		delete(w.endings, i.ID)
		return true
	})
	for i := range g.Instances {
		w.boot(g, &g.Instances[i])
	}
	for w.alive(g) > int(g.Desired) { // AWS chooses a victim, and it is always the wrong one
		w.endInstance(g, w.victim(g), "AWS")
	}
	for w.alive(g) < int(g.Desired) && !g.Suspends("Launch") {
		w.ids++
		id := fmt.Sprintf("i-%s-n%d", g.Name, w.ids)
		w.born[id] = w.now
		g.Instances = append(g.Instances, inventory.Instance{ID: id, Type: "m5.large", Zone: "a", Lifecycle: "Pending", Healthy: true})
	}
}

// boot moves a launched instance on: InService, a node, a Ready one.
func (w *world) boot(g *inventory.NodeGroup, i *inventory.Instance) {
	at, booting := w.born[i.ID]
	if !booting || i.Lifecycle == "Terminating" {
		return
	}
	age := w.now.Sub(at)
	if age >= testService {
		i.Lifecycle = "InService"
	}
	if age >= testJoining && w.node(i.ID) == nil {
		w.addNode(i.ID, i.ID, map[string]string{"group": g.Name}, false)
	}
	if age >= testBoot {
		w.edit(i.ID, func(n *corev1.Node) { setReady(n, true) })
		delete(w.born, i.ID)
	}
}

func (w *world) edit(node string, change func(*corev1.Node)) {
	if n := w.node(node); n != nil {
		n = n.DeepCopy()
		change(n)
		w.c.put(n)
	}
}

func (w *world) alive(g *inventory.NodeGroup) int {
	n := 0
	for _, i := range g.Instances {
		if i.Lifecycle != "Terminating" {
			n++
		}
	}
	return n
}

func (w *world) victim(g *inventory.NodeGroup) int {
	worst := -1
	for i, it := range g.Instances {
		if it.Lifecycle != "Terminating" && (worst < 0 || w.pods[it.ID] > w.pods[g.Instances[worst].ID]) {
			worst = i
		}
	}
	return worst
}

func (w *world) endInstance(g *inventory.NodeGroup, i int, who string) {
	id := g.Instances[i].ID
	if w.pods[id] > 0 {
		w.breaks("%s ended %s with %d evictable pods", who, id, w.pods[id])
		w.homeless[g.Name] += w.pods[id]
		w.pods[id] = 0
	}
	delete(w.born, id)
	g.Instances[i].Lifecycle, w.endings[id] = "Terminating", w.now.Add(testEnding)
}

// ends says that the instance of a node is on its way out.
func (w *world) ends(node string) bool {
	_, ends := w.endings[node]
	return ends || slices.ContainsFunc(w.claims, func(c claim) bool { return c.node() == node && !c.gone.IsZero() }) // Karpenter taints it first
}

// ports are the node groups, Cluster Autoscaler and the snapshot.
type ports struct{ w *world }

func (p ports) Cluster(context.Context) (inventory.Cluster, error) {
	c := inventory.Cluster{Name: "test", Version: "1.33", CABundle: base64.StdEncoding.EncodeToString([]byte(testCA)), Region: "us-east-1"}
	return c, p.w.read("Cluster")
}

func (p ports) Surroundings(context.Context, inventory.Cluster, []inventory.NodeGroup) (inventory.Surroundings, error) {
	return inventory.Surroundings{}, p.w.read("Surroundings")
}

func (p ports) List(context.Context, ...string) ([]inventory.NodeGroup, error) {
	shown := p.w.history[0]
	for _, f := range p.w.history {
		if !f.at.After(p.w.now.Add(-p.w.lag)) {
			shown = f
		}
	}
	return shown.groups, p.w.read("List")
}

// Refresh shows no more and no less than List does.
func (p ports) Refresh(ctx context.Context, _ []inventory.NodeGroup) ([]inventory.NodeGroup, error) {
	return p.List(ctx)
}

// Families: EC2 knows of m6i and no other.
func (p ports) Families(_ context.Context, names []string) ([]inventory.InstanceFamily, error) {
	out := make([]inventory.InstanceFamily, len(names))
	for i, name := range names {
		out[i].Name = name
		if name == "m6i" {
			out[i].Types = []inventory.InstanceType{{Name: "m6i.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192}}
		}
	}
	return out, p.w.read("Families")
}

func (p ports) SecurityGroups(context.Context) ([]inventory.SecurityGroup, error) {
	return []inventory.SecurityGroup{{ID: "sg-1"}}, p.w.read("SecurityGroups")
}

// onGroup makes one change of a group that is there.
func (p ports) onGroup(name, asg string, change func(*inventory.NodeGroup) error) error {
	return p.w.change(name, func() error {
		for _, g := range p.w.groups {
			if g.AutoScalingGroup == asg {
				return change(g)
			}
		}
		return fmt.Errorf("ValidationError: no group %s", asg)
	})
}

func (p ports) DisablePolicies(_ context.Context, g inventory.NodeGroup, names []string) error {
	return p.switchPolicies("DisablePolicies", g, names, false)
}

func (p ports) EnablePolicies(_ context.Context, g inventory.NodeGroup, names []string) error {
	return p.switchPolicies("EnablePolicies", g, names, true)
}

func (p ports) switchPolicies(call string, of inventory.NodeGroup, names []string, on bool) error {
	return p.onGroup(call, of.AutoScalingGroup, func(g *inventory.NodeGroup) error {
		for i := range g.ScalingPolicies {
			if slices.Contains(names, g.ScalingPolicies[i].Name) {
				g.ScalingPolicies[i].Active, g.ScalingPolicies[i].Enabled = on, on
			}
		}
		return nil
	})
}

func (p ports) DeletePolicies(_ context.Context, asg string, names []string) error {
	return p.onGroup("DeletePolicies", asg, func(g *inventory.NodeGroup) error {
		g.ScalingPolicies = slices.DeleteFunc(g.ScalingPolicies, func(s inventory.ScalingPolicy) bool { return slices.Contains(names, s.Name) })
		return nil
	})
}

func (p ports) DeleteScheduledActions(_ context.Context, asg string, names []string) error {
	return p.onGroup("DeleteScheduledActions", asg, func(g *inventory.NodeGroup) error {
		g.ScheduledActions = slices.DeleteFunc(g.ScheduledActions, func(s inventory.ScheduledAction) bool { return slices.Contains(names, s.Name) })
		return nil
	})
}

func (p ports) PutScheduledActions(_ context.Context, asg string, actions []inventory.ScheduledAction) error {
	return p.onGroup("PutScheduledActions", asg, func(g *inventory.NodeGroup) error {
		for _, a := range actions {
			g.ScheduledActions = slices.DeleteFunc(g.ScheduledActions, func(s inventory.ScheduledAction) bool { return s.Name == a.Name })
			g.ScheduledActions = append(g.ScheduledActions, a)
		}
		return nil
	})
}

func (p ports) SuspendProcesses(_ context.Context, asg string, processes []string) error {
	return p.onGroup("SuspendProcesses", asg, func(g *inventory.NodeGroup) error {
		for _, s := range processes {
			if s == "Terminate" {
				p.w.breaks("Terminate suspended on %s", asg)
			}
			if !slices.Contains(g.SuspendedProcesses, s) {
				g.SuspendedProcesses = append(g.SuspendedProcesses, s)
			}
		}
		return nil
	})
}

func (p ports) ResumeProcesses(_ context.Context, asg string, processes []string) error {
	return p.onGroup("ResumeProcesses", asg, func(g *inventory.NodeGroup) error {
		g.SuspendedProcesses = slices.DeleteFunc(g.SuspendedProcesses, func(s string) bool { return slices.Contains(processes, s) })
		return nil
	})
}

// HideGroup marks the group first: the other way round a crash would leave a group that nobody scales and nobody knows of.
func (p ports) HideGroup(_ context.Context, asg string, keys []string) error {
	return p.onGroup("HideGroup", asg, func(g *inventory.NodeGroup) error {
		if p.w.snapshot == nil {
			p.w.breaks("%s hidden before the snapshot", asg)
		}
		g.Tags = slices.DeleteFunc(slices.Clone(g.Tags), func(t inventory.Tag) bool { return slices.Contains(keys, t.Key) || t.Key == v1alpha1.TagHandedOver })
		g.Tags = append(g.Tags, inventory.Tag{Key: v1alpha1.TagHandedOver, Value: v1alpha1.TagManagedByValue})
		return nil
	})
}

func (p ports) ShowGroup(_ context.Context, asg string, tags []inventory.Tag) error {
	return p.onGroup("ShowGroup", asg, func(g *inventory.NodeGroup) error {
		g.Tags = slices.DeleteFunc(slices.Clone(g.Tags), func(t inventory.Tag) bool {
			return t.Key == v1alpha1.TagHandedOver || slices.ContainsFunc(tags, func(o inventory.Tag) bool { return o.Key == t.Key })
		})
		g.Tags = append(slices.Clone(tags), g.Tags...)
		return nil
	})
}

func (p ports) SetCapacityRebalance(_ context.Context, asg string, on bool) error {
	return p.onGroup("SetCapacityRebalance", asg, func(g *inventory.NodeGroup) error { g.CapacityRebalance = on; return nil })
}

func (p ports) SetMaxInstanceLifetime(_ context.Context, asg string, seconds int32) error {
	return p.onGroup("SetMaxInstanceLifetime", asg, func(g *inventory.NodeGroup) error { g.MaxInstanceLifetime = seconds; return nil })
}

// discoveryTag is what Cluster Autoscaler finds groups by here.
const discoveryTag = "k8s.io/cluster-autoscaler/enabled"

func (p ports) SetSize(_ context.Context, of inventory.NodeGroup, minimum, maximum, desired int32) error {
	return p.onGroup("SetSize", of.AutoScalingGroup, func(g *inventory.NodeGroup) error {
		if desired < minimum || desired > maximum || (g.Managed != nil && maximum < 1) {
			p.w.breaks("sizes %d/%d/%d of %s", minimum, maximum, desired, g.Name)
		}
		g.Min, g.Max, g.Desired = minimum, maximum, desired
		if _, found := g.Tag(discoveryTag); g.Managed != nil && !found { // EKS owns it, and puts its tags back
			g.Tags = append(slices.Clone(g.Tags), inventory.Tag{Key: discoveryTag, Value: "true"})
		}
		return nil
	})
}

// EndInstances lowers desired by as many as it was asked for, whether or not they were still there: a repetition that AWS
// would take for a second wish costs an undrained node.
func (p ports) EndInstances(_ context.Context, asg string, ids []string) error {
	return p.onGroup("EndInstances", asg, func(g *inventory.NodeGroup) error {
		if g.Desired-int32(len(ids)) < g.Min {
			return errors.New("ValidationError: desired below min")
		}
		g.Desired -= int32(len(ids))
		for i := range g.Instances {
			if slices.Contains(ids, g.Instances[i].ID) && g.Instances[i].InService() {
				p.w.endInstance(g, i, "castoff")
			}
		}
		return nil
	})
}

// DeleteGroup is asked again by whoever does not see yet that the group is gone.
func (p ports) DeleteGroup(_ context.Context, of inventory.NodeGroup) error {
	return p.w.change("DeleteGroup", func() error {
		g, ok := p.w.groups[of.Name]
		if !ok {
			return nil
		}
		if len(g.Instances) > 0 {
			p.w.breaks("group %s deleted with %d instances", g.Name, len(g.Instances))
		}
		if !p.w.approved() {
			p.w.breaks("group %s deleted without approval", g.Name)
		}
		delete(p.w.groups, of.Name)
		return nil
	})
}
