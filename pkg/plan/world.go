package plan

import (
	"slices"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// World is what was seen at one look. It may lag behind what castoff itself did a moment ago; the ledger covers that.
type World struct {
	Cluster      inventory.Cluster
	Groups       []inventory.NodeGroup
	Nodes        []inventory.Node
	Autoscalers  []inventory.Autoscaler
	Engine       inventory.Engine
	Interruption inventory.Interruption
	Identity     inventory.Identity

	// Snapshot is nil until it is taken; SnapshotSHA256 is the digest of what was read, SnapshotProblem why it cannot be used.
	Snapshot        *inventory.Snapshot
	SnapshotSHA256  string
	SnapshotProblem string

	// PodNetwork is how pods get their addresses, Families what EC2 has of the instance families that the spec names.
	PodNetwork inventory.PodNetwork
	Families   []inventory.InstanceFamily

	// Home and Pools are what the spec and the groups come to (see Pools); from the snapshot on, what it recorded.
	Home  string
	Pools []inventory.Pool
	// Handovers is the plan of the changes of hands, before the snapshot; Waves are its pools by name, and from the snapshot on what
	// that recorded. None: all pools change hands at once.
	Handovers Handovers
	Waves     [][]string
	// Straddling are the workloads that could be served by two scalers after the next change of hands, or can be now; only looked for
	// when Needs asks.
	Straddling []Join
	// Targets are what the pools become, by pool name.
	Targets map[string]inventory.Target
	// Findings of the preflight; only looked for when Needs asks.
	Findings []inventory.Finding

	// NodePolicies are the managed policies of the old nodes' roles, by ARN: Karpenter's nodes get them too.
	NodePolicies []string

	// TerminationHandlers are only looked for when Needs asks.
	TerminationHandlers []inventory.TerminationHandler

	// Drains holds what is left on the nodes that Needs asked about, by node name.
	Drains map[string]inventory.DrainState
	// Candidates is the same of nodes whose drain may begin now: those that the function Candidates names.
	Candidates map[string]inventory.DrainState
	// Placeholders are castoff's own pods that keep room for those that will move.
	Placeholders []inventory.Placeholder
	// LaunchFailures are the nodes that Karpenter could not launch lately; only looked for when Needs asks.
	LaunchFailures []inventory.LaunchFailure
	// Launched are the instances of Karpenter's that nobody ended; only looked for when Needs asks.
	Launched []string
	// Unwell are the pods that are not Ready, and Gates what Prometheus answered, by the gate's name; only looked for when Needs asks.
	Unwell []inventory.UnwellPod
	Gates  map[string]inventory.GateAnswer
	// Rivals are NodePools that take the pools' pods before castoff's; only looked for when Needs asks.
	Rivals []inventory.Rival
	// PendingPods is how many pods no node has room for.
	PendingPods int
	// Stranded are those of them whose volume is on a node's own disk; only looked for where the user accepts that one is lost.
	Stranded []inventory.StrandedPod
	// OtherMigration is the name of an older unfinished Migration, which acts instead of this one.
	OtherMigration string
}

// Needs says what has to be looked at beyond the cheap part of a look.
type Needs struct {
	// Preflight: workloads are listed and the checks run.
	Preflight bool
	// Drains are the nodes whose pods are listed.
	Drains []string
	// TerminationHandlers: they are looked for.
	TerminationHandlers bool
	// Straddling: workloads that pools of two waves can take are looked for.
	Straddling bool
	// Health: pods that are not Ready are looked for.
	Health bool
	// Gates: Prometheus is asked what strategy.gates says.
	Gates bool
	// LaunchFailures: Karpenter's events are read.
	LaunchFailures bool
	// Rivals: what NodePools of somebody else's take is worked out.
	Rivals bool
	// Launched: instances that Karpenter launched are looked for.
	Launched bool
}

// NeedsOf says what else Next will want to know, given the cheap part of the world.
func NeedsOf(m *v1alpha1.Migration, w World) Needs {
	l := newLook(m, w, time.Time{})
	var n Needs
	n.Preflight = !halted(m) && (!handingOverReached(l) || betweenPools(l))
	n.Straddling = !halted(m) && betweenWaves(l)
	n.Health, n.Gates = needsHealth(l), needsGates(l)
	n.TerminationHandlers = m.Spec.Decommission.ClusterAutoscaler == v1alpha1.DecommissionDelete && !halted(m) &&
		m.Status.CompletionTime != nil && slices.Contains(m.Spec.ApprovedSteps, v1alpha1.ApproveDelete)
	n.LaunchFailures = !halted(m) && handingOverReached(l) && l.roomIsMissing()
	n.Rivals = !halted(m) && w.Snapshot != nil && len(HeavierNodePools(w)) > 0
	n.Launched = halted(m) && uninstalls(l) && len(w.Engine.NodeClaims) == 0
	n.Drains = drained(l)
	return n
}

// drained are the nodes that are being drained, Karpenter's on the way back.
func drained(l look) []string {
	var out []string
	for _, p := range l.pools {
		nodes := p.nodes
		if halted(l.m) {
			nodes = karpenterNodes(l, p)
		}
		for _, node := range nodes {
			if begun(node) {
				out = append(out, node.Name)
			}
		}
	}
	return out
}

// look is one look at the world with what every phase asks of it worked out once.
type look struct {
	// passed is what accepted risks let pass; it is noted where they are asked for.
	passed map[Passed]bool

	World
	m     *v1alpha1.Migration
	now   time.Time
	pools []pool
	// rooms are the placeholders by the legacy node whose pods they are for.
	rooms map[string][]inventory.Placeholder
	// waves are the pools that change hands together.
	waves []wave
	// wave is the name of the one that this look is at; empty: all of them.
	wave string
}

// pool is a pool as it is now.
type pool struct {
	inventory.Pool
	// groups that exist now, in the order of the pool's names.
	groups []inventory.NodeGroup
	// nodes are the legacy nodes that still exist.
	nodes []inventory.Node
	// recorded is how many nodes the snapshot has.
	recorded int
	target   *inventory.Target
}

func newLook(m *v1alpha1.Migration, w World, now time.Time) look {
	l := look{World: w, m: m, now: now, rooms: map[string][]inventory.Placeholder{}}
	for _, p := range w.Placeholders {
		l.rooms[p.Node] = append(l.rooms[p.Node], p)
	}
	for _, p := range w.Pools {
		l.pools = append(l.pools, newPool(p, w))
	}
	l.passed = map[Passed]bool{}
	l.waves = wavesOf(l)
	return l
}

func newPool(p inventory.Pool, w World) pool {
	out := pool{Pool: p}
	for _, name := range p.NodeGroups {
		if g, ok := group(w.Groups, name); ok {
			out.groups = append(out.groups, g)
		}
		if recorded, ok := w.Snapshot.Group(name); ok {
			out.recorded += len(recorded.Nodes)
		}
	}
	for _, n := range w.Nodes {
		if slices.Contains(p.NodeGroups, n.Group) || n.Annotations[v1alpha1.AnnotationLegacy] == p.Name {
			out.nodes = append(out.nodes, n)
		}
	}
	if w.Snapshot == nil {
		out.recorded = len(out.nodes)
	}
	if t, ok := w.Targets[p.Name]; ok {
		out.target = &t
	}
	return out
}

func group(groups []inventory.NodeGroup, name string) (inventory.NodeGroup, bool) {
	i := slices.IndexFunc(groups, func(g inventory.NodeGroup) bool { return g.Name == name })
	if i < 0 {
		return inventory.NodeGroup{}, false
	}
	return groups[i], true
}

// begun says that castoff began to drain the node.
func begun(n inventory.Node) bool { return n.Annotations[v1alpha1.AnnotationDraining] != "" }

// gone says that no instance and no node of the pool is left.
func (p pool) gone() bool {
	return len(p.nodes) == 0 && !slices.ContainsFunc(p.groups, func(g inventory.NodeGroup) bool { return !g.Empty() })
}

// status returns what the Migration's status remembers of a pool: start times only.
func (l look) status(name string) v1alpha1.PoolStatus {
	for _, s := range l.m.Status.Pools {
		if s.Name == name {
			return s
		}
	}
	return v1alpha1.PoolStatus{Name: name}
}
