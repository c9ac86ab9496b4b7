package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// stage is where a Migration stands as far as the way on and the way back go: paused or not, it is what was done that counts.
type stage int

const (
	untouched   stage = iota // nothing was written, in the cluster or in AWS
	prepared                 // Cluster Autoscaler serves every pool still
	handingOver              // between the two
	handedOver               // Karpenter serves the pools
	turnedBack               // on the way back
	back                     // Cluster Autoscaler serves every pool again
)

// outlook is what a Migration's status tells of that: for people to read before they decide, never for castoff to act on.
type outlook struct {
	*v1alpha1.Migration
	stage stage
	// karpenter and autoscaler are the pools by who serves them.
	karpenter, autoscaler []string
	// ended is how many of the recorded nodes castoff ended, kept how many are still there, in all pools.
	ended, kept int32
	// fenced is how many of those kept are in Karpenter's pools, and draining how many of them are being drained.
	fenced, draining int32
}

func look(m *v1alpha1.Migration) outlook {
	o := outlook{Migration: m}
	for _, p := range m.Status.Pools {
		o.ended, o.kept = o.ended+max(p.Nodes-p.NodesLeft, 0), o.kept+p.NodesLeft
		if p.Phase == "" || p.Phase == v1alpha1.PoolPending {
			o.autoscaler = append(o.autoscaler, p.Name)
			continue
		}
		o.karpenter = append(o.karpenter, p.Name)
		o.fenced, o.draining = o.fenced+p.NodesLeft, o.draining+p.NodesDraining
	}
	o.stage = o.where()
	return o
}

func (o outlook) where() stage {
	phase := o.Status.Phase
	switch {
	case phase == v1alpha1.PhaseRolledBack:
		return back
	case phase == v1alpha1.PhaseRollingBack:
		return turnedBack
	case o.Status.Snapshot == nil:
		return untouched
	case phase == v1alpha1.PhaseHandingOver, len(o.karpenter) > 0 && len(o.autoscaler) > 0:
		return handingOver
	case len(o.karpenter) == 0:
		return prepared
	}
	return handedOver
}

// completed says that every pool is at its end: the phase says so only while it is not paused.
func (o outlook) completed() bool {
	return len(o.Status.Pools) > 0 && !slices.ContainsFunc(o.Status.Pools, func(p v1alpha1.PoolStatus) bool { return p.Phase != v1alpha1.PoolDone })
}

const (
	undone       = "Everything that castoff did is undone: scaling policies and scheduled actions as recorded, its marks off the nodes, Karpenter gone with what castoff made for it in AWS, but for what was there before. No pod is evicted."
	noEviction   = "Nothing more is evicted from the moment castoff sees it: within seconds."
	budgetsHold  = "Pods leave Karpenter's nodes through the Eviction API alone: no pod goes that its PodDisruptionBudget does not let go, and the way back waits for it."
	notRestored  = "Not restored: the instances themselves, their ids and what was stored on them; one-time schedules whose time has passed; scale-in protection of single instances (docs/runbooks/roll-back.md)."
	nothingTaken = "castoff has changed nothing yet, so there is nothing to take back. It changes nothing until it is resumed."
)

// pausing stops and settles, from a rollback too.
func pausing(m *v1alpha1.Migration, _ []string) (change, error) {
	return change{
		name: "pause", says: look(m).settles(), idle: fmt.Sprintf("Migration %s is paused already", m.Name),
		apply: func(s *v1alpha1.MigrationSpec) { s.Paused, s.OnPause = true, v1alpha1.OnPauseSettle },
	}, nil
}

func (o outlook) settles() []string {
	keeps := "Cluster Autoscaler keeps " + pools(o.autoscaler) + "."
	switch o.stage {
	case untouched:
		return []string{nothingTaken}
	case prepared:
		return []string{undone, keeps}
	case handingOver:
		return append([]string{
			noEviction,
			"The hand-over goes to the nearer side before it rests, so that no pool is left without a scaler: back if Cluster Autoscaler still runs, and then everything is undone; else Karpenter takes the pools.",
		}, o.released()...)
	case turnedBack:
		return []string{noEviction, "The way back stops. Every pool keeps the scaler that it has, and one that is between the two goes to the nearer side.", "Go on with the way back: kubectl castoff rollback " + o.Name + "."}
	case back:
		return []string{"Everything is back with Cluster Autoscaler, and stays there."}
	}
	says := append([]string{noEviction}, o.released()...)
	says = append(says, "With Karpenter stay "+pools(o.karpenter)+"; Cluster Autoscaler stays at 0.")
	if o.completed() && deletes(o.Migration) {
		says = append(says, "Nothing is deleted while it is paused, and its retention begins anew when it is resumed.")
	}
	return says
}

// released says which old nodes go back in service at a pause.
func (o outlook) released() []string {
	if o.fenced == 0 {
		return []string{"No old node of a pool that Karpenter serves is left to go back in service."}
	}
	s := inventory.Count(o.fenced, "old node goes", "old nodes go") + " back in service: uncordoned, and without castoff's taint."
	if o.draining > 0 {
		s += " " + inventory.Count(o.draining, "of them is being drained and keeps the pods that it has left;", "of them are being drained and keep the pods that they have left;") + " an instance that is ending already ends."
	}
	return []string{s}
}

// rollingBack goes back. It is refused when the way back is closed: castoff would block, with the nodes on the wrong side.
func rollingBack(m *v1alpha1.Migration, _ []string) (change, error) {
	ch := change{
		name: "rollback", idle: fmt.Sprintf("Migration %s goes back to Cluster Autoscaler already", m.Name),
		apply: func(s *v1alpha1.MigrationSpec) { s.Paused, s.OnPause = true, v1alpha1.OnPauseRollBack },
	}
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionRollbackAvailable)
	switch {
	case c != nil && c.Status == metav1.ConditionFalse:
		return ch, fmt.Errorf("the way back of Migration %s is closed: RollbackAvailable is False since %s, reason %s: %s", m.Name, clock(c.LastTransitionTime.Time), c.Reason, c.Message)
	case c != nil && c.Status == metav1.ConditionUnknown:
		ch.says = append(ch.says, "castoff does not know whether the way back is open: "+c.Message)
	}
	ch.says = append(ch.says, look(m).goesBack()...)
	return ch, nil
}

func (o outlook) goesBack() []string {
	switch o.stage {
	case untouched:
		return []string{nothingTaken}
	case prepared:
		return []string{undone, "Cluster Autoscaler keeps " + pools(o.autoscaler) + "."}
	case back:
		return []string{"Everything is back with Cluster Autoscaler, and stays there."}
	}
	says := []string{
		"1. The node groups get their recorded sizes, but for a min or max that somebody else set since. " + o.comesBack() + " Karpenter serves until all are Ready.",
		"2. Cluster Autoscaler is started with the recorded replicas and takes " + pools(names(o.Status.Pools)) + "; schedules, policies and processes are as recorded.",
		"3. Karpenter's nodes are drained. " + budgetsHold,
		"4. Karpenter goes with what castoff made for it in AWS, but for what was there before.",
		notRestored,
	}
	if o.completed() {
		says = append(says, open(o.Migration))
	}
	return says
}

// comesBack says where the nodes of the way back come from.
func (o outlook) comesBack() string {
	var from []string
	if o.ended > 0 {
		from = append(from, inventory.Count(o.ended, "node is", "nodes are")+" launched in place of those that castoff ended.")
	}
	if o.kept > 0 {
		from = append(from, inventory.Count(o.kept, "old node goes", "old nodes go")+" back in service.")
	}
	return strings.Join(from, " ")
}

// resuming goes on from where the world is. onPause stays what it is: it says how the next pause is meant.
func resuming(m *v1alpha1.Migration, _ []string) (change, error) {
	says := look(m).goesOn()
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionPreflightPassed); c != nil && c.Status == metav1.ConditionFalse {
		says = append(says, "The preflight blocks it until that is mended or accepted: "+c.Reason+", "+c.Message)
	}
	if m.Spec.OnPause == v1alpha1.OnPauseRollBack {
		says = append(says, "spec.onPause stays RollBack: spec.paused set by hand would go back again. kubectl castoff pause settles instead.")
	}
	return change{
		name: "resume", says: says, idle: fmt.Sprintf("Migration %s is not paused", m.Name),
		apply: func(s *v1alpha1.MigrationSpec) { s.Paused = false },
	}, nil
}

func (o outlook) goesOn() []string {
	switch o.stage {
	case untouched:
		return []string{"It goes on with the preflight; castoff has changed nothing yet.", o.asks()}
	case prepared:
		return []string{"castoff does again what the pause undid, and then hands " + pools(o.autoscaler) + " over to Karpenter.", o.asks()}
	case handingOver:
		return []string{"The hand-over goes on: Karpenter takes " + pools(o.autoscaler) + ", and then the old nodes are drained under your PodDisruptionBudgets."}
	case turnedBack:
		return []string{"castoff turns round: pools that Cluster Autoscaler has taken back change hands again, and then the old nodes are drained under your PodDisruptionBudgets, those that came back too.", o.asks()}
	case back:
		return []string{"The migration begins again, from the preflight on: Karpenter is installed, " + pools(names(o.Status.Pools)) + " change hands, and every old node is drained again.", o.asks()}
	}
	if o.fenced == 0 {
		return []string{"Karpenter serves " + pools(o.karpenter) + ", and no old node is left to drain.", open(o.Migration)}
	}
	return []string{fmt.Sprintf("%s cordoned again and drained, pool by pool, under your PodDisruptionBudgets; Karpenter serves %s.", inventory.Count(o.fenced, "old node is", "old nodes are"), pools(o.karpenter))}
}

// asks says what castoff still waits for a human's word for on the way on. An approval outlives a pause and a rollback.
func (o outlook) asks() string {
	if o.Spec.Approval != v1alpha1.ApprovalManual {
		return "spec.approval is Automatic: it does not ask before the hand-over."
	}
	missing := missingSteps(o.Migration)
	if len(missing) == 0 {
		return "Start and HandOver are approved: it does not ask for them again. Take them out of spec.approvedSteps first to be asked."
	}
	return fmt.Sprintf("It still waits for approval of %v.", missing)
}
