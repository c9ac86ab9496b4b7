package watcher

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

const (
	statusConfigMap = "cluster-autoscaler-status"
	// lateLeader is for how long a leader acts on after another took its Lease: its renew deadline (measured 10.0 s).
	lateLeader = 10 * time.Second
)

// scalers knows who scales which pool.
type scalers struct {
	config Config
	groups map[string]simapi.Group // by Auto Scaling group

	lease       *coordinationv1.Lease
	lostAt      time.Time       // when Cluster Autoscaler last lost a Lease it held
	listed      map[string]bool // Auto Scaling groups in the status; nil without a status
	known       map[string]bool // names of Cluster Autoscaler's pods, gone ones too: identities on the Lease
	alive       map[types.UID]*corev1.Pod
	deployments map[types.NamespacedName]int32

	nodePools map[string]string // Ready NodePools that may launch, and the pool each serves
	tallies   map[string]*tally // by pool
}

// tally of a pool begins once something serves it.
type tally struct {
	begun            bool
	unserved, double time.Duration
}

func newScalers(config Config) scalers {
	s := scalers{
		config: config, groups: map[string]simapi.Group{}, known: map[string]bool{}, alive: map[types.UID]*corev1.Pod{},
		deployments: map[types.NamespacedName]int32{}, nodePools: map[string]string{}, tallies: map[string]*tally{},
	}
	for _, pool := range config.Pools {
		s.tallies[pool] = &tally{}
	}
	return s
}

func (s *scalers) setGroups(list []simapi.Group) {
	s.groups = map[string]simapi.Group{}
	for _, group := range list {
		s.groups[group.Name] = group
	}
}

func (s *scalers) observePod(pod *corev1.Pod, deleted bool) {
	s.known[pod.Name] = true
	setOrDelete(s.alive, pod.UID, pod, deleted || finished(pod))
}

// holds says whether Cluster Autoscaler has an unexpired Lease.
func (s *scalers) holds(at time.Time) bool {
	return s.byAutoscaler() && at.Before(s.expiry())
}

// leads is narrower: the pod that holds the Lease is there. One that was killed leaves the Lease and its status behind.
func (s *scalers) leads(at time.Time) bool {
	return s.holds(at) && slices.ContainsFunc(slices.Collect(maps.Values(s.alive)), func(pod *corev1.Pod) bool { return pod.Name == holderOf(s.lease) })
}

func (s *scalers) byAutoscaler() bool {
	return s.lease != nil && s.lease.Spec.HolderIdentity != nil && s.known[*s.lease.Spec.HolderIdentity]
}

func (s *scalers) expiry() time.Time {
	if s.lease == nil || s.lease.Spec.RenewTime == nil || s.lease.Spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return s.lease.Spec.RenewTime.Add(time.Duration(*s.lease.Spec.LeaseDurationSeconds) * time.Second)
}

// mayAct is wider than holding the Lease: a leader that lost it goes on for a while, and one without election needs none.
func (s *scalers) mayAct(at time.Time) bool {
	if len(s.alive) == 0 {
		return false
	}
	late := !s.lostAt.IsZero() && at.Before(s.lostAt.Add(lateLeader))
	return s.holds(at) || late || slices.ContainsFunc(slices.Collect(maps.Values(s.alive)), withoutElection)
}

func withoutElection(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Args, "--leader-elect=false") || slices.Contains(c.Command, "--leader-elect=false")
	})
}

// lists says whether the status names a group of the pool.
func (s *scalers) lists(pool string) bool {
	for name := range s.listed {
		group := s.groups[name]
		if s.config.Pools[groupOf(group.NodeGroup, name)] == pool {
			return true
		}
	}
	return false
}

func (s *scalers) hasNodePool(pool string) bool {
	return slices.Contains(slices.Collect(maps.Values(s.nodePools)), pool)
}

// advance adds the time between two observations to the tallies. In between only deadlines change anything.
func (s *scalers) advance(from, to time.Time) {
	cuts := []time.Time{from}
	for _, deadline := range []time.Time{s.expiry(), s.lostAt.Add(lateLeader)} {
		if deadline.After(from) && deadline.Before(to) {
			cuts = append(cuts, deadline)
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	for i, begin := range cuts {
		end := to
		if i+1 < len(cuts) {
			end = cuts[i+1]
		}
		s.add(begin, end.Sub(begin))
	}
}

func (s *scalers) add(at time.Time, span time.Duration) {
	for pool, tally := range s.tallies {
		listed, byKarpenter := s.lists(pool), s.hasNodePool(pool)
		served := byKarpenter || listed && s.leads(at)
		tally.begun = tally.begun || served
		if tally.begun && !served {
			tally.unserved += span
		}
		if byKarpenter && listed && s.mayAct(at) {
			tally.double += span
		}
	}
}

// judge returns the longest times without and with two scalers, in seconds, and the pools without one now.
func (s *scalers) judge(at time.Time) (unserved, double float64, atRest []string) {
	for _, pool := range slices.Sorted(maps.Keys(s.tallies)) {
		tally := s.tallies[pool]
		unserved, double = max(unserved, tally.unserved.Seconds()), max(double, tally.double.Seconds())
		if !s.hasNodePool(pool) && !(s.lists(pool) && s.leads(at)) {
			atRest = append(atRest, fmt.Sprintf("pool %s is left without a scaler", pool))
		}
	}
	return unserved, double, atRest
}

func (s *scalers) sizes() (sizes map[string]GroupSize, managed map[string]bool) {
	sizes, managed = map[string]GroupSize{}, map[string]bool{}
	for _, group := range s.groups {
		name := groupOf(group.NodeGroup, group.Name)
		if name == s.config.Home {
			continue
		}
		sizes[name] = GroupSize{Min: group.Min, Max: group.Max, Desired: group.Desired}
		managed[name] = group.NodeGroup != ""
	}
	return sizes, managed
}

func (s *scalers) replicas() (total int32) {
	for _, replicas := range s.deployments {
		total += replicas
	}
	return total
}

func (j *Judge) observeLease(at time.Time, lease *coordinationv1.Lease, deleted bool) {
	if lease.Namespace != j.config.AutoscalerNamespace || lease.Name != j.config.AutoscalerLease {
		return
	}
	s := &j.scalers
	before, held := s.lease, s.byAutoscaler()
	s.lease = lease
	if deleted {
		s.lease = nil
	}
	if held && !s.byAutoscaler() {
		s.lostAt = at
	}
	if holder := holderOf(s.lease); holder != holderOf(before) {
		j.note(at, "Cluster Autoscaler's Lease is held by %s", word(holder, "nobody"))
	}
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (j *Judge) observeStatus(at time.Time, config *corev1.ConfigMap, deleted bool) {
	if config.Namespace != j.config.AutoscalerNamespace || config.Name != statusConfigMap {
		return
	}
	before := j.scalers.listed
	j.scalers.listed = nil
	if !deleted {
		j.scalers.listed = listedGroups(config.Data["status"])
	}
	if !maps.Equal(before, j.scalers.listed) {
		var names []string
		for asg := range j.scalers.listed {
			names = append(names, groupOf(j.scalers.groups[asg].NodeGroup, asg))
		}
		slices.Sort(names)
		j.note(at, "Cluster Autoscaler manages %v", names)
	}
}

// listedGroups reads the names from the status. One that cannot be read lists nothing.
func listedGroups(text string) map[string]bool {
	var document struct {
		NodeGroups []struct {
			Name string `json:"name"`
		} `json:"nodeGroups"`
	}
	listed := map[string]bool{}
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return listed
	}
	for _, group := range document.NodeGroups {
		listed[group.Name] = true
	}
	return listed
}

func (j *Judge) observeDeployment(at time.Time, d *appsv1.Deployment, deleted bool) {
	j.setWorkload("Deployment", d, d.Spec.Replicas, d.Spec.Selector, deleted)
	if !isAutoscaler(d.Spec.Template.Spec.Containers) {
		return
	}
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	key := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	if before, known := j.scalers.deployments[key]; !deleted && (!known || before != replicas) {
		j.note(at, "Deployment %s is scaled to %d", key, replicas)
	}
	setOrDelete(j.scalers.deployments, key, replicas, deleted)
}

func (j *Judge) observeNodePool(at time.Time, pool *karpv1.NodePool, deleted bool) {
	serves := pool.Labels[v1alpha1.LabelPool]
	works := !deleted && serves != "" && pool.DeletionTimestamp == nil && mayLaunch(pool)
	_, worked := j.scalers.nodePools[pool.Name]
	if works != worked {
		j.note(at, "NodePool %s %s pool %s", pool.Name, map[bool]string{true: "serves", false: "no longer serves"}[works], serves)
	}
	setOrDelete(j.scalers.nodePools, pool.Name, serves, !works)
}

// mayLaunch says whether the NodePool is Ready and has no limit of zero.
func mayLaunch(pool *karpv1.NodePool) bool {
	for _, limit := range pool.Spec.Limits {
		if limit.IsZero() {
			return false
		}
	}
	for _, c := range pool.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}
