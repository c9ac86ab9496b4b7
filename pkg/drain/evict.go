package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// defaultRetryAfter is how long to leave the API server alone when it does not say; client-go's own first step.
const defaultRetryAfter = time.Second

// pass is one bounded walk over a node's pods.
type pass struct {
	*Drainer
	view
	node     *corev1.Node
	allow    inventory.DrainAllowance
	deadline time.Time
	budgets  *budgets
	// rooms are the placeholders of the node's pods, gone the pods that were evicted.
	rooms []inventory.Placeholder
	gone  map[types.UID]bool
	// leaving are the pods that have to leave the node, rollouts their Deployments by ReplicaSet.
	leaving  []corev1.Pod
	rollouts map[types.UID]*rollout
	// noted is what there is to say of pods that do go.
	noted []inventory.BlockedPod
}

func (d *Drainer) newPass(node *corev1.Node, allow inventory.DrainAllowance) *pass {
	return &pass{
		Drainer:  d,
		view:     d.view(node),
		node:     node,
		allow:    allow,
		deadline: d.clock().Add(PassLimit),
		budgets:  d.newBudgets(),
		gone:     map[types.UID]bool{},
		rollouts: map[types.UID]*rollout{},
	}
}

// step evicts one pod, if that may be now. It says whether the pod is gone for good, or why it stays; neither when it is on its
// way or when the pass has no time left.
func (p *pass) step(ctx context.Context, pod *corev1.Pod) (gone bool, reason *inventory.BlockedPod, err error) {
	p.now = p.clock()
	if reason := p.waits(pod, p.allow); reason != nil {
		return false, reason, nil
	}
	if p.pendingRoom(pod) {
		return false, nil, nil // the planner says so of the node
	}
	if until := p.busyUntil(); p.now.Before(until) {
		return false, throttled(pod, until), nil
	}
	if !p.now.Before(p.deadline) {
		return false, nil, nil
	}
	// The clock bounds the pass, this bounds the calls for one pod: client-go repeats a throttled one by itself, ten times.
	call, cancel := context.WithTimeout(ctx, p.deadline.Sub(p.now))
	defer cancel()
	if reason, err = p.surge(call, pod); reason == nil && err == nil {
		gone, reason, err = p.evict(call, pod)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return false, p.slowDown(pod, defaultRetryAfter), nil
	}
	return gone, reason, err
}

// evict asks the Eviction API, unless what it would say is known. Where the user said so a pod goes past its budgets.
func (p *pass) evict(ctx context.Context, pod *corev1.Pod) (gone bool, reason *inventory.BlockedPod, err error) {
	matching, err := p.budgets.of(ctx, pod)
	if err != nil {
		return false, nil, err
	}
	if behind(pod, matching) {
		return false, noRoom(pod, matching), nil
	}
	if reason, err := p.leftBehind(ctx, pod); reason != nil || err != nil {
		return false, reason, err
	}
	if !p.mayAsk(pod, matching) {
		return false, noRoom(pod, matching), nil
	}
	err = p.client.SubResource("eviction").Create(ctx, pod, eviction(pod))
	if err == nil {
		p.gone[pod.UID] = true
		return false, nil, nil
	}
	gone, reason, err = p.answer(pod, matching, err)
	p.giveBack(pod, matching, reason)
	if reason != nil && p.allow.Overrides(*reason) {
		return p.override(ctx, pod, reason)
	}
	return gone, reason, err
}

// override deletes this very pod, with its grace period: what an eviction does, but for the budgets' word.
func (p *pass) override(ctx context.Context, pod *corev1.Pod, refused *inventory.BlockedPod) (gone bool, _ *inventory.BlockedPod, _ error) {
	asked := eviction(pod).DeleteOptions
	err := p.client.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: asked.GracePeriodSeconds, Preconditions: asked.Preconditions})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil, nil
	case apierrors.IsConflict(err):
		return false, nil, nil
	case err != nil:
		return false, refused, kubeapi.Wrap(err, "delete", "pods", client.ObjectKeyFromObject(pod).String(), " (chart value drain.overrideBudgets)")
	}
	b := blocked(pod, inventory.BlockedOverridden, "deleted after the time for this node was over, as spec.acceptedRisks says: it "+refused.Message)
	b.PDBs = refused.PDBs
	return false, b, nil
}

// eviction asks for this very pod, never for its namesake, with the pod's own grace period. Grace 0 would take a pod out of the
// API while it may still run, so a pod that asks for it gets one second.
func eviction(pod *corev1.Pod) *policyv1.Eviction {
	options := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil && *grace < 1 {
		options.GracePeriodSeconds = ptr.To[int64](1)
	}
	return &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: options,
	}
}

// behind spares a call whose answer is known: a budget whose status is behind its spec makes the API server say "later", and
// client-go would sleep on that. A pod that does not run is let go in any case.
func behind(pod *corev1.Pod, matching []policyv1.PodDisruptionBudget) bool {
	return len(matching) == 1 && pod.Status.Phase == corev1.PodRunning &&
		matching[0].Status.ObservedGeneration < matching[0].Generation
}

// mayAsk says that the pod's budget has room for it, as far as is known, and that the room is now the pod's; or that the answer matters
// in any case, because the user allows the pod to go past its budget once the API server has refused.
func (p *pass) mayAsk(pod *corev1.Pod, matching []policyv1.PodDisruptionBudget) bool {
	if len(matching) != 1 || unasked(pod, matching) || p.taken.take(&matching[0], pod.Name, p.now) {
		return true
	}
	return p.allow.Overrides(*noRoom(pod, matching))
}

// giveBack leaves the room of a pod that was not evicted to others.
func (p *pass) giveBack(pod *corev1.Pod, matching []policyv1.PodDisruptionBudget, why *inventory.BlockedPod) {
	if len(matching) == 1 {
		p.taken.giveBack(&matching[0], pod.Name, why != nil && why.Reason == inventory.BlockedByPDB && !unasked(pod, matching))
	}
}

// answer reads the Eviction API's answer by its codes and causes, never by its words.
func (p *pass) answer(pod *corev1.Pod, matching []policyv1.PodDisruptionBudget, err error) (gone bool, _ *inventory.BlockedPod, _ error) {
	switch {
	case err == nil, apierrors.IsConflict(err): // a conflict is another pod of that name, or one that changed: look again next time
		return false, nil, nil
	case apierrors.IsNotFound(err):
		return true, nil, nil
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), aboutBudget(err):
		return false, noRoom(pod, matching), nil
	case apierrors.IsTooManyRequests(err):
		seconds, _ := apierrors.SuggestsClientDelay(err)
		return false, p.slowDown(pod, max(time.Duration(seconds)*time.Second, defaultRetryAfter)), nil
	case len(matching) > 1 && apierrors.IsInternalError(err): // it has a code and no reason
		return false, twoBudgets(pod, matching), nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false, blocked(pod, inventory.BlockedTerminating, "its namespace is being deleted and takes it along"), nil
	case deniedByRole(err), !answered(err): // nobody has rights, or nobody answers: the next pod would fare no better
		return false, nil, kubeapi.Wrap(err, "create", "pods/eviction", pod.Namespace+"/"+pod.Name)
	default:
		return false, blocked(pod, inventory.BlockedError, fmt.Sprintf("the API server refused the eviction: %v", err)), nil
	}
}

func noRoom(pod *corev1.Pod, matching []policyv1.PodDisruptionBudget) *inventory.BlockedPod {
	b := blocked(pod, inventory.BlockedByPDB, "waits for room in "+describe(matching))
	b.PDBs = names(matching)
	return b
}

func twoBudgets(pod *corev1.Pod, matching []policyv1.PodDisruptionBudget) *inventory.BlockedPod {
	b := blocked(pod, inventory.BlockedByTwoPDBs,
		fmt.Sprintf("%s select it, and the Eviction API refuses such a pod for ever: change one selector or delete one budget", describe(matching)))
	b.PDBs = names(matching)
	return b
}

func throttled(pod *corev1.Pod, until time.Time) *inventory.BlockedPod {
	return blocked(pod, inventory.BlockedByThrottling,
		fmt.Sprintf("the API server is busy; castoff asks again after %s", until.UTC().Format(time.RFC3339)))
}

// slowDown ends this pass's evictions, and those of every other node, until the API server wants to be asked again.
func (p *pass) slowDown(pod *corev1.Pod, after time.Duration) *inventory.BlockedPod {
	until := p.clock().Add(after)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.notBefore) {
		p.notBefore = until
	}
	return throttled(pod, p.notBefore)
}

func (d *Drainer) busyUntil() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notBefore
}

// aboutBudget says whether a 403 is about the budget's own state (the disruption controller is behind), not about rights.
func aboutBudget(err error) bool {
	kind := deniedKind(err)
	return kind == "poddisruptionbudget" || kind == "poddisruptionbudgets"
}

// deniedByRole says whether a 403 is the authorizer's: it alone names the resource that was asked for. Webhooks deny, too.
func deniedByRole(err error) bool { return deniedKind(err) == "pods" }

func deniedKind(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsForbidden(err) || status.ErrStatus.Details == nil {
		return ""
	}
	return status.ErrStatus.Details.Kind
}

// answered says whether the API server said anything at all.
func answered(err error) bool {
	_, ok := errors.AsType[*apierrors.StatusError](err)
	return ok
}
