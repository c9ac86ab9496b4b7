package inventory

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// SnapshotFormat is the version of the snapshot's layout. It changes only when an older castoff could not read it.
const SnapshotFormat = 1

// Snapshot is what is needed to go back: only what castoff touches. It is taken before the first write and never changed;
// what castoff does to a node that joins later is marked on that node.
type Snapshot struct {
	Format    int       `json:"format"`
	Cluster   string    `json:"cluster"`
	Taken     time.Time `json:"taken"`
	Migration string    `json:"migration"` // UID
	Home      string    `json:"home"`
	Pools     []Pool    `json:"pools"`
	// Waves are the pools that change hands together, by name, in their order; none: all of them do.
	Waves       [][]string   `json:"waves,omitempty"`
	Autoscalers []Autoscaler `json:"autoscalers,omitempty"`
	// PendingPods is how many pods no node had room for before castoff did anything.
	PendingPods int `json:"pendingPods"`
	// Unwell is how many pods of a workload failed already, by kind/namespace/name.
	Unwell map[string]int `json:"unwell,omitempty"`
	// Before says what of Karpenter was there already: it stays on the way back.
	Before Before `json:"before"`
	// Groups are kept one Secret each; Digests name them in the index.
	Groups  []GroupSnapshot   `json:"-"`
	Digests map[string]string `json:"digests"`
}

// Before is what of Karpenter was there when the snapshot was taken.
type Before struct {
	Release      bool `json:"release,omitempty"`
	CRDs         bool `json:"crds,omitempty"`
	Interruption bool `json:"interruption,omitempty"`
	Identity     bool `json:"identity,omitempty"`
}

// Pool is one or more node groups that become one NodePool.
type Pool struct {
	Name       string   `json:"name"`
	NodeGroups []string `json:"nodeGroups"`
	// Scaling is how Cluster Autoscaler was told to scale the groups; nil where none was found.
	Scaling *Scaling `json:"scaling,omitempty"`
	// Families are those of spec.pools[].instanceFamilies, as they are now: they are not frozen, and in no snapshot.
	Families []InstanceFamily `json:"-"`
}

// Scaling is what of Cluster Autoscaler's settings concerns a pool.
type Scaling struct {
	// Flags are its arguments by name, without dashes, as they are written.
	Flags map[string]string `json:"flags,omitempty"`
	// Weight is the pool's rank by the priority expander, 1 to 100, higher first; 0 where the expander has none for it.
	Weight int32 `json:"weight,omitempty"`
}

// GroupSnapshot is one node group and its nodes.
type GroupSnapshot struct {
	Group NodeGroup      `json:"group"`
	Nodes []NodeSnapshot `json:"nodes,omitempty"`
}

// NodeSnapshot is what castoff may change on a node, as it was before.
type NodeSnapshot struct {
	Name          string            `json:"name"`
	InstanceID    string            `json:"instanceID"`
	Zone          string            `json:"zone,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Taints        []corev1.Taint    `json:"taints,omitempty"`
	Unschedulable bool              `json:"unschedulable,omitempty"`
}

// Group returns the recorded group of that name.
func (s *Snapshot) Group(name string) (GroupSnapshot, bool) {
	if s == nil {
		return GroupSnapshot{}, false
	}
	for _, g := range s.Groups {
		if g.Group.Name == name {
			return g, true
		}
	}
	return GroupSnapshot{}, false
}
