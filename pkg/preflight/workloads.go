package preflight

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The kinds of controllers that the checks tell apart.
const (
	kindDaemonSet  = "DaemonSet"
	kindDeployment = "Deployment"
)

// workload is what makes pods that are alike: a controller, also one that has no pods now, or a pod that nothing makes. The checks
// look at workloads rather than at pods: there are thirty times fewer, and it is them that somebody can mend.
type workload struct {
	kind, namespace, name string
	controller            *inventory.Controller // nil where nobody reads its kind: a custom resource, a bare pod
	shape                 *inventory.Shape      // of one of its pods, else of its template; never nil
	made                  *inventory.Shape      // of one of its pods, nil without
	pods                  []moving              // those that have to leave their nodes
	pools                 []string              // whose legacy nodes it has pods on, in order
	staying               int                   // its pods on nodes that stay
}

func (w *workload) object() string {
	return strings.ToLower(w.kind) + "/" + w.namespace + "/" + w.name
}

// owned is the object with whoever would put it back: what is kept in Git has to be changed there.
func (w *workload) owned() string {
	if w.controller == nil || w.controller.Owner == "" {
		return w.object()
	}
	return w.object() + " (" + w.controller.Owner + ")"
}

func (w *workload) annotations() map[string]string {
	out := map[string]string{}
	if len(w.pods) > 0 {
		maps.Copy(out, w.pods[0].Annotations)
	}
	if w.controller != nil {
		maps.Copy(out, w.controller.PodAnnotations)
	}
	return out
}

// about completes a finding that is about this workload alone.
func (w *workload) about(f inventory.Finding) inventory.Finding {
	f.Workload = w.object()
	if len(w.pools) > 0 {
		f.Pool = w.pools[0]
	}
	return f
}

type owner struct{ kind, namespace, name string }

// workloadsOf gathers all workloads but castoff's own, in order of their names.
func workloadsOf(in Input) []*workload {
	found := map[owner]*workload{}
	for i := range in.Workloads.Controllers {
		c := &in.Workloads.Controllers[i]
		found[owner{c.Kind, c.Namespace, c.Name}] = &workload{kind: c.Kind, namespace: c.Namespace, name: c.Name, controller: c}
	}
	pools, budgets := poolOfNode(in), indexBudgets(in.Workloads.Budgets)
	for i := range in.Workloads.Pods {
		if p := &in.Workloads.Pods[i]; counts(p) {
			key := ownerOf(p, found)
			if found[key] == nil {
				found[key] = &workload{kind: key.kind, namespace: key.namespace, name: key.name}
			}
			found[key].add(p, pools, budgets)
		}
	}
	out := slices.Collect(maps.Values(found))
	for _, w := range out {
		w.settle()
	}
	slices.SortFunc(out, func(a, b *workload) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	return out
}

// counts leaves out pods that are over, that no API can move, and that castoff made itself.
func counts(p *inventory.Pod) bool {
	return !p.Mirror && p.Phase != corev1.PodSucceeded && p.Phase != corev1.PodFailed &&
		p.Labels[v1alpha1.LabelPlaceholder] == "" && p.Labels[v1alpha1.LabelCanary] == ""
}

// ownerOf is the workload of a pod: the Deployment of its ReplicaSet and the CronJob of its Job, known by the names that their
// controllers give.
func ownerOf(p *inventory.Pod, known map[owner]*workload) owner {
	if p.Owner == nil {
		return owner{"Pod", p.Namespace, p.Name}
	}
	key := owner{p.Owner.Kind, p.Namespace, p.Owner.Name}
	switch hash := p.Labels["pod-template-hash"]; {
	case key.kind == "ReplicaSet" && hash != "":
		if name, ok := strings.CutSuffix(key.name, "-"+hash); ok {
			return owner{kindDeployment, key.namespace, name}
		}
	case key.kind == "Job":
		if i := strings.LastIndexByte(key.name, '-'); i > 0 {
			if cron := (owner{"CronJob", key.namespace, key.name[:i]}); known[cron] != nil {
				return cron
			}
		}
	}
	return key
}

func (w *workload) add(p *inventory.Pod, pools map[string]string, budgets budgetIndex) {
	pool, legacy := pools[p.Node]
	switch {
	case !legacy && p.Node != "":
		w.staying++
	case legacy && !slices.Contains(w.pools, pool):
		w.pools = append(w.pools, pool)
	}
	if legacy && !ofDaemonSet(p) {
		w.pods = append(w.pods, moving{Pod: p, pool: pool, budgets: budgets.of(p)})
	}
	if w.made == nil {
		w.made = p.Shape
	}
}

// settle fills in what a workload without pods has from its template. A pod of a DaemonSet is bound to its node by an affinity that
// replaces the template's (Kubernetes, "DaemonSet"), so there the template counts.
func (w *workload) settle() {
	slices.Sort(w.pools)
	w.shape = w.made
	if w.controller != nil && w.controller.Shape != nil && (w.shape == nil || w.kind == kindDaemonSet) {
		w.shape = w.controller.Shape
	}
	if w.shape == nil {
		w.shape = &inventory.Shape{}
	}
}

// place is where pods of one shape could run.
type place struct {
	targets []string // pools whose NodePool serves them, in order
	stay    bool     // a node that stays takes them
	legacy  string   // the pool, if any, one of whose nodes takes them today
}

// places remembers them: by the shape, and by what of it decides, since many workloads ask for the same.
type places struct {
	shapes map[*inventory.Shape]place
	alike  map[string]place
}

func newPlaces() places {
	return places{shapes: map[*inventory.Shape]place{}, alike: map[string]place{}}
}

func (x places) of(in Input, s *inventory.Shape) place {
	p, known := x.shapes[s]
	if known {
		return p
	}
	key := signature(s)
	if p, known = x.alike[key]; !known {
		p = judge(in, s)
		x.alike[key] = p
	}
	x.shapes[s] = p
	return p
}

// judge goes by Karpenter's word, and by the scheduler's for nodes that are there. Nodes are asked only where no NodePool serves:
// there are many of them.
func judge(in Input, s *inventory.Shape) place {
	var p place
	for _, pool := range slices.Sorted(maps.Keys(in.Targets)) {
		if in.Targets[pool].Refuses(s) == nil {
			p.targets = append(p.targets, pool)
		}
	}
	if len(p.targets) == 0 {
		p.stay, p.legacy = nodesFor(in, s)
	}
	return p
}

// signature tells shapes apart by what they ask of a node.
func signature(s *inventory.Shape) string {
	var node *corev1.NodeAffinity
	if s.Affinity != nil {
		node = s.Affinity.NodeAffinity
	}
	key, _ := json.Marshal([]any{s.NodeSelector, node, s.Tolerations}) // of plain values: it cannot fail
	return string(key)
}

func nodesFor(in Input, s *inventory.Shape) (stay bool, legacy string) {
	pools := poolOfNode(in)
	for _, n := range in.Nodes {
		if pool, old := pools[n.Name]; (old && legacy == "" || !old && !stay) && takes(n, s) {
			if old {
				legacy = pool
			} else {
				stay = true
			}
		}
	}
	for _, p := range in.Pools {
		for _, g := range in.Groups {
			if legacy == "" && slices.Contains(p.NodeGroups, g.Name) && takes(nodeTo(g), s) {
				legacy = p.Name
			}
		}
	}
	return stay, legacy
}

// nodeTo is a node that the group would launch, as far as EKS says how: a group at size zero has none to look at.
func nodeTo(g inventory.NodeGroup) inventory.Node {
	n := inventory.Node{Labels: maps.Clone(g.NodeLabels)}
	if g.Managed != nil && n.Labels == nil {
		n.Labels = map[string]string{"eks.amazonaws.com/nodegroup": g.Name, "eks.amazonaws.com/capacityType": g.Managed.CapacityType}
		maps.Copy(n.Labels, g.Managed.Labels)
		n.Taints = g.Managed.Taints
	}
	return n
}

// takes is the scheduler's own rule, with castoff's fence and what passes by itself left out.
func takes(n inventory.Node, s *inventory.Shape) bool {
	lasting := slices.DeleteFunc(slices.Clone(n.Taints), func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule || t.Key == v1alpha1.TaintLegacy || strings.HasPrefix(t.Key, "node.kubernetes.io/")
	})
	if scheduling.Taints(lasting).Tolerates(s.Tolerations) != nil {
		return false
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: s.NodeSelector, Affinity: s.Affinity}}
	node := &corev1.Node{}
	node.Name, node.Labels = n.Name, n.Labels
	fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && fits
}

// named is what of a pool a message names.
type named struct {
	pool  string // empty where no pool has pods of it
	names []string
}

func (n named) list() string { return three(n.names) }

// object is what a finding about several workloads of a pool is about.
func (n named) object(in Input) string {
	if n.pool == "" {
		return "cluster/" + in.Cluster.Name
	}
	return "pool/" + n.pool
}

func (n named) about(f inventory.Finding) inventory.Finding {
	f.Pool = n.pool
	return f
}

// byPool gathers the names that name gives to workloads, by pool: one finding each instead of hundreds. An empty name leaves the
// workload out.
func byPool(ws []*workload, name func(*workload) string) []named {
	found := map[string][]string{}
	for _, w := range ws {
		if n := name(w); n != "" {
			pools := w.pools
			if len(pools) == 0 {
				pools = []string{""}
			}
			for _, pool := range pools {
				found[pool] = append(found[pool], n)
			}
		}
	}
	var out []named
	for _, pool := range slices.Sorted(maps.Keys(found)) {
		out = append(out, named{pool, found[pool]})
	}
	return out
}

// moves names a workload that has pods to move and is as asked.
func moves(is func(*workload) bool) func(*workload) string {
	return func(w *workload) string {
		if len(w.pods) > 0 && is(w) {
			return w.object()
		}
		return ""
	}
}

// claimIndex finds claims by the names that pods have for them.
type claimIndex map[types.NamespacedName]*inventory.Claim

func indexClaims(claims []inventory.Claim) claimIndex {
	out := claimIndex{}
	for i := range claims {
		out[claims[i].NamespacedName] = &claims[i]
	}
	return out
}

// of are the bound claims of a pod.
func (x claimIndex) of(p *inventory.Pod) []*inventory.Claim {
	if p.Shape == nil {
		return nil
	}
	var out []*inventory.Claim
	for _, name := range p.Shape.Claims {
		if c := x[types.NamespacedName{Namespace: p.Namespace, Name: name}]; c != nil {
			out = append(out, c)
		}
	}
	return out
}
