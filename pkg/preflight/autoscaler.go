package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of Cluster Autoscaler and of who keeps it.
const (
	CheckAutoscalerOwned         = "AutoscalerOwned"
	CheckAutoscalerScaled        = "AutoscalerScaled"
	CheckAutoscalerNoElection    = "AutoscalerWithoutElection"
	CheckAutoscalersOverlap      = "AutoscalersOverlap"
	CheckAutoscalerGroupsUnknown = "AutoscalerGroupsUnknown"
	CheckAutoscalerNotDeployment = "AutoscalerNotDeployment"
	CheckAutoscalerNotRead       = "AutoscalerNotRead"
	CheckGroupsLeftUnscaled      = "GroupsLeftUnscaled"
)

// managing are the Cluster Autoscalers that scale a group of a pool: those that have to let go.
func managing(in Input) []inventory.Autoscaler {
	return slices.DeleteFunc(slices.Clone(in.Autoscalers), func(a inventory.Autoscaler) bool { return !managesPool(in, a) })
}

func managesPool(in Input, a inventory.Autoscaler) bool {
	return slices.ContainsFunc(in.Groups, func(g inventory.NodeGroup) bool { return a.Manages(g) && poolOfGroup(in, g.Name) != "" })
}

// autoscalerNotDeployment: castoff scales Deployments to 0 and no more, so one that runs as something else would serve the pools
// beside Karpenter.
func autoscalerNotDeployment(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, a := range managing(in) {
		if !a.Scalable() && !a.Stopped() {
			out = append(out, block(CheckAutoscalerNotDeployment, a.Object(), "Cluster Autoscaler runs here as a "+a.Kind+
				", and castoff stops Deployments only. Run it as a Deployment; or accept this risk, and stop it when the hand-over asks for it: "+a.StopByHand()+"."))
		}
	}
	return out
}

// autoscalerGroupsUnknown: of a Cluster Autoscaler whose groups are in a variable, or nowhere, nobody can say whether it scales a
// pool, and it would go on scaling one beside Karpenter.
func autoscalerGroupsUnknown(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, a := range in.Autoscalers {
		why := a.GroupsUnknown()
		if a.Stopped() || why == "" {
			continue
		}
		out = append(out, block(CheckAutoscalerGroupsUnknown, a.Object(), "castoff cannot tell which groups this Cluster Autoscaler scales: "+why+
			". Write them out in its arguments; or stop it, if it scales none of this cluster's: "+a.StopByHand()+"."))
	}
	return out
}

// autoscalersOverlap: two that scale one group, or share a Lease so that only one of them works, cannot be told apart: which of
// them serves a pool, and which is to serve it again on the way back, would be a guess.
func autoscalersOverlap(in Input) []inventory.Finding {
	var out []inventory.Finding
	for i, a := range in.Autoscalers {
		for _, b := range in.Autoscalers[:i] {
			if a.Stopped() || b.Stopped() || (!managesPool(in, a) && !managesPool(in, b)) {
				continue
			}
			why := overlap(in, a, b)
			if why == "" {
				continue
			}
			out = append(out, block(CheckAutoscalersOverlap, a.Object(), "This Cluster Autoscaler and "+b.Object()+" "+why+
				". Keep one of them, for example: "+a.StopByHand()+"."))
		}
	}
	return out
}

// overlap says how two Cluster Autoscalers are in each other's way, or nothing.
func overlap(in Input, a, b inventory.Autoscaler) string {
	var both []string
	for _, g := range in.Groups {
		if a.Manages(g) && b.Manages(g) {
			both = append(both, g.Name)
		}
	}
	switch {
	case len(both) > 0:
		return "both scale " + three(both)
	case a.LeaderElect && b.LeaderElect && a.Lease == b.Lease:
		return "share the Lease " + a.Lease.String() + ", so that only one of them works at a time, and castoff cannot tell the groups of which (--leader-elect-resource-name keeps them apart)"
	}
	return ""
}

// autoscalerOwned: what Git, a release or an operator has as running is started again in the middle of the drain. castoff's Lease
// and its one more stop keep that from doing harm, but the migration may wait for a human then.
func autoscalerOwned(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, a := range managing(in) {
		if a.Owner != "" {
			out = append(out, warn(CheckAutoscalerOwned, a.Object(), "Cluster Autoscaler belongs to "+a.Owner+
				", which may start it again after castoff stopped it. "+suspend(a.Owner)+" Let it go on after the migration with 0 replicas, or without Cluster Autoscaler."))
		}
	}
	return out
}

// suspend says how the owner is told to leave the replicas alone.
func suspend(owner string) string {
	is := func(tool string) (namespace, name string, ok bool) {
		full, ok := strings.CutPrefix(owner, tool+" ")
		if namespace, name, found := strings.Cut(full, "/"); found {
			return " -n " + namespace, name, ok
		}
		return "", full, ok
	}
	if _, name, ok := is(inventory.OwnerArgoCD); ok {
		return "Before the start give the application ignoreDifferences on /spec/replicas of this Deployment and the sync option RespectIgnoreDifferences=true, or end its automated sync: argocd app set " +
			name + " --sync-policy none."
	}
	if namespace, name, ok := is(inventory.OwnerKustomization); ok {
		return "Suspend it before the start: flux suspend kustomization " + name + namespace + "."
	}
	if namespace, name, ok := is(inventory.OwnerHelmRelease); ok {
		return "Suspend it before the start: flux suspend helmrelease " + name + namespace + "."
	}
	if _, _, ok := is(inventory.OwnerFleet); ok {
		return "Before the start set spec.paused: true on the GitRepo that the bundle comes from, in Rancher's management cluster."
	}
	if namespace, name, ok := is(inventory.OwnerHelm); ok {
		return "Helm does so with the next upgrade of the release: make none (helm upgrade " + name + namespace + "), or have replicaCount: 0 in its values."
	}
	if _, _, ok := is(inventory.OwnerKapp); ok {
		return "kapp does so with its next deploy: make none, or have 0 replicas in what it deploys."
	}
	return "Have it suspended before the start, or set 0 replicas where it is defined."
}

// autoscalerScaled: a HorizontalPodAutoscaler rests while there are no replicas (Kubernetes, "Horizontal Pod Autoscaling"), but
// one that may go to 0 itself does not, and KEDA scales up from 0 by design.
func autoscalerScaled(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, a := range managing(in) {
		h := a.HPA
		if h == nil {
			continue
		}
		message := "It rests while castoff has Cluster Autoscaler at 0, and scales it again on the way back."
		switch {
		case h.ScaledObject != "":
			message = fmt.Sprintf("KEDA scales up from 0, too. Pause it before the start: kubectl annotate scaledobject %s -n %s autoscaling.keda.sh/paused=true.", h.ScaledObject, a.Deployment.Namespace)
		case h.Min == 0:
			message = "With minReplicas 0 it does not rest at 0 and may start Cluster Autoscaler again: set minReplicas to 1, or delete it before the start."
		}
		out = append(out, warn(CheckAutoscalerScaled, a.Object(), fmt.Sprintf("HorizontalPodAutoscaler %s sets the replicas of Cluster Autoscaler (%d to %d). %s", h.Name, h.Min, h.Max, message)))
	}
	return out
}

// autoscalerNoElection: without leader election the Lease that castoff holds fences nobody: one that comes back scales at once.
func autoscalerNoElection(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, a := range managing(in) {
		if !a.LeaderElect {
			out = append(out, warn(CheckAutoscalerNoElection, a.Object(), "Cluster Autoscaler runs with --leader-elect=false, so castoff cannot keep it a standby with its Lease. "+
				"If somebody starts it again, castoff stops it once more and then waits for a human. Set --leader-elect=true."))
		}
	}
	return out
}

// autoscalerNotRead: what could not be read of it is not carried over, and nothing is dropped in silence.
func autoscalerNotRead(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, a := range managing(in) {
		if len(a.Notes) > 0 {
			out = append(out, warn(CheckAutoscalerNotRead, a.Object(), "Of this Cluster Autoscaler castoff did not read everything: "+strings.Join(a.Notes, "; ")+"."))
		}
	}
	return out
}

// groupsLeftUnscaled: Cluster Autoscaler ends as a whole, so the groups that it scales and that no pool migrates keep the size that
// they have then, and pods that only fit there wait for ever. Arguments that name a group hold it whatever its tags are.
func groupsLeftUnscaled(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, a := range managing(in) {
		left := leftBy(in, a)
		if len(left) == 0 {
			continue
		}
		out = append(out, warn(CheckGroupsLeftUnscaled, a.Object(), "castoff stops this Cluster Autoscaler as a whole, and nobody scales "+three(left)+
			" after the hand-over: they stay at the size that they have. Add them to spec.pools, size them by hand, or give them a Cluster Autoscaler of their own."))
	}
	return out
}

// leftBy are the groups that only this Cluster Autoscaler scales and that are in no pool.
func leftBy(in Input, a inventory.Autoscaler) []string {
	var left, known []string
	for _, g := range in.Groups {
		known = append(known, g.AutoScalingGroup)
		stays := func(b inventory.Autoscaler) bool { return !b.Stopped() && !managesPool(in, b) && b.Manages(g) }
		switch {
		case !a.Manages(g) || poolOfGroup(in, g.Name) != "" || slices.ContainsFunc(in.Autoscalers, stays):
		case g.Name == in.Home:
			left = append(left, g.Name+" (the home)")
		default:
			left = append(left, g.Name)
		}
	}
	for _, name := range a.Static {
		if !slices.Contains(known, name) {
			left = append(left, name) // a group without the cluster's tags
		}
	}
	return left
}
