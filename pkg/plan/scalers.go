package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// statusFresh is how old cluster-autoscaler-status may be to prove that Cluster Autoscaler serves: it writes one every scan,
// that is every 10 s by default (Cluster Autoscaler FAQ, --scan-interval).
const statusFresh = time.Minute

// side is who scales the pools, or who is nearer to it.
type side int

const (
	// sideAutoscaler: nothing was handed over, or all of it is back.
	sideAutoscaler side = iota
	// sideKarpenter: Cluster Autoscaler was told to let go, or has.
	sideKarpenter
	// sideReturning: the NodePools are stopped, and Cluster Autoscaler was told to run again.
	sideReturning
)

// nearer says which side is to serve the pools when the migration comes to rest now. It goes by the world, not by the way
// that led there: one change of hands is enough from anywhere.
func nearer(led *ledger, l look) side {
	active := slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return scalesNow(a, l) && active(a) })
	pools, serving := 0, 0
	for _, p := range l.pools {
		if np, ok := nodePool(l, p.Name); ok {
			pools++
			if !stopped(np) {
				serving++
			}
		}
	}
	switch {
	case serving > 0:
		return sideKarpenter
	case active && pools > 0:
		return sideReturning
	case !active && (pools > 0 || takenOver(led, l)):
		return sideKarpenter
	}
	return sideAutoscaler
}

// nearest is the side of the wave that went furthest: what was taken over is served to its end, and the others are left as they are.
func nearest(led *ledger, l look) side {
	at := sideAutoscaler
	for _, w := range l.waves {
		switch one := nearer(led, l.only(w)); one {
		case sideKarpenter:
			return one
		case sideReturning:
			at = one
		case sideAutoscaler:
		}
	}
	return at
}

// takenOver says that castoff took the pools from Cluster Autoscaler, whether or not a NodePool serves them yet.
func takenOver(led *ledger, l look) bool { return handingOverReached(l) || stoppedByUs(led, l) }

// handingOverReached: a NodePool is there for a pool, or a group was hidden from Cluster Autoscaler, or the Lease of the one that had the
// pools is castoff's.
func handingOverReached(l look) bool {
	if l.Snapshot == nil {
		return false
	}
	for _, p := range l.pools {
		if _, ok := nodePool(l, p.Name); ok || slices.ContainsFunc(p.groups, hidden) {
			return true
		}
	}
	return slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool {
		return a.LeaseHolder == v1alpha1.LeaseIdentity && (l.wave == "" || manages(a, l))
	})
}

// stoppedByUs says that castoff scaled a Cluster Autoscaler to 0 that served when the migration began, and that it does not serve
// again. From then on the way forward is the shorter one: to wait for a finding or an approval here would leave the pools without
// any scaler.
func stoppedByUs(led *ledger, l look) bool {
	if l.Snapshot == nil {
		return false
	}
	return slices.ContainsFunc(l.Snapshot.Autoscalers, func(recorded inventory.Autoscaler) bool {
		a, ok := autoscaler(l, recorded)
		if !ok || recorded.Replicas == 0 || a.Replicas > 0 || !manages(a, l) {
			return false
		}
		start, asked := led.entry(kindStartAutoscaler, a.Deployment.String())
		return led.attempts(kindStopAutoscaler, a.Deployment.String()) > 0 || (asked && start.DoneTime == nil)
	})
}

// starting says that a Cluster Autoscaler was asked to run a moment ago: it may, though it cannot be seen yet.
func starting(led *ledger, a inventory.Autoscaler, now time.Time) bool {
	start, asked := led.entry(kindStartAutoscaler, a.Deployment.String())
	return asked && start.DoneTime == nil && start.StartTime != nil && now.Sub(start.StartTime.Time) < soon
}

// scalesNow says whether a Cluster Autoscaler that runs as it is now scales any group of any pool.
func scalesNow(a inventory.Autoscaler, l look) bool {
	return slices.ContainsFunc(l.pools, func(p pool) bool { return slices.ContainsFunc(p.groups, a.Manages) })
}

// manages says the same, and of groups that castoff hid from it, too: they would be its own again with their tags.
func manages(a inventory.Autoscaler, l look) bool {
	return scalesNow(a, l) || slices.ContainsFunc(l.pools, func(p pool) bool {
		return slices.ContainsFunc(p.groups, func(g inventory.NodeGroup) bool {
			recorded, ok := l.Snapshot.Group(g.Name)
			return ok && hidden(g) && a.Manages(recorded.Group)
		})
	})
}

// active says that a Cluster Autoscaler is asked to run and nothing keeps it from acting.
func active(a inventory.Autoscaler) bool { return a.Replicas > 0 && !standby(a) }

// standby says that a Cluster Autoscaler that runs is idle, because castoff holds its Lease.
func standby(a inventory.Autoscaler) bool {
	return a.LeaderElect && a.LeaseHolder == v1alpha1.LeaseIdentity
}

// leads says that a Cluster Autoscaler serves the pools' groups that it manages: it runs, it holds its Lease, and its status
// lists them. One that writes no status is taken at its Lease's word by the caller, after a while.
func leads(a inventory.Autoscaler, l look) bool {
	if !elected(a) || l.now.Sub(a.StatusTime) > statusFresh {
		return false
	}
	for _, p := range l.pools {
		for _, g := range p.groups {
			if a.Manages(g) && !slices.Contains(a.Groups, g.AutoScalingGroup) {
				return false
			}
		}
	}
	return true
}

// elected says that a pod of it runs and, where there is an election, that somebody other than castoff won it.
func elected(a inventory.Autoscaler) bool {
	return a.Replicas > 0 && a.Pods > 0 && (!a.LeaderElect || (a.LeaseHolder != "" && !standby(a)))
}

// nodePool of a pool; castoff's own, and not the canary's.
func nodePool(l look, pool string) (karpv1.NodePool, bool) {
	i := slices.IndexFunc(l.Engine.NodePools, func(n karpv1.NodePool) bool {
		return n.Labels[v1alpha1.LabelPool] == pool && n.Labels[v1alpha1.LabelCanary] == ""
	})
	if i < 0 {
		return karpv1.NodePool{}, false
	}
	return l.Engine.NodePools[i], true
}

// stopped says that a NodePool may launch nothing: its nodes stay, and it serves no new pod.
func stopped(np karpv1.NodePool) bool {
	cpu, limited := np.Spec.Limits[corev1.ResourceCPU]
	return limited && cpu.IsZero()
}

// scalers tells which pools Karpenter serves, and which of them a Cluster Autoscaler serves too.
func scalers(l look) (karpenter, both []string) {
	for _, p := range l.pools {
		if np, ok := nodePool(l, p.Name); !ok || stopped(np) || np.DeletionTimestamp != nil {
			continue
		}
		karpenter = append(karpenter, p.Name)
		for _, a := range l.Autoscalers {
			if !a.Stopped() && !standby(a) && slices.ContainsFunc(p.groups, func(g inventory.NodeGroup) bool { return a.Manages(g) || a.Lists(g) }) {
				both = append(both, p.Name+" (Karpenter and "+a.Deployment.String()+startedBy(a)+")")
			}
		}
	}
	return karpenter, both
}

// startedBy says who started a Cluster Autoscaler, in brackets behind its name; empty if nothing tells.
func startedBy(a inventory.Autoscaler) string {
	if who := by(a); who != "" {
		return ", started" + who
	}
	return ""
}
