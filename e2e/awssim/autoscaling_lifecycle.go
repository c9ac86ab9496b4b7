package awssim

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

const (
	transitionLaunch = "autoscaling:EC2_INSTANCE_LAUNCHING"
	transitionEnd    = "autoscaling:EC2_INSTANCE_TERMINATING"

	resultContinue = "CONTINUE"
	resultAbandon  = "ABANDON"
)

// instanceRuns takes an instance on from Pending, into a hook's wait or into service.
func (a *autoscalingService) instanceRuns(g *scalingGroup, m *member) {
	if m.state != types.LifecycleStatePending {
		return
	}
	if a.hold(g, m, transitionLaunch) {
		m.state = types.LifecycleStatePendingWait
		a.tellHeld(g, m)
		a.wake(g, 0)
		return
	}
	a.serve(g, m)
}

// serve puts an instance in service.
func (a *autoscalingService) serve(g *scalingGroup, m *member) {
	m.state, m.inService = types.LifecycleStateInService, a.now()
	m.protected = or(g.spec.NewInstancesProtectedFromScaleIn, false)
	a.finish(m.activity, types.ScalingActivityStatusCodeSuccessful, "")
	m.activity = nil
	a.wake(g, 0)
}

// terminate begins an instance's end: its hooks first, then EC2. It leaves the desired capacity alone.
func (a *autoscalingService) terminate(g *scalingGroup, m *member, cause string) {
	a.finish(m.activity, types.ScalingActivityStatusCodeCancelled, "")
	m.activity = a.begin(g, "Terminating EC2 instance: "+m.id, cause)
	m.state, m.waiting = types.LifecycleStateTerminating, nil
	if !g.deleting && a.hold(g, m, transitionEnd) {
		m.state = types.LifecycleStateTerminatingWait
		m.activity.StatusCode = types.ScalingActivityStatusCodeMidLifecycleAction
		a.tellHeld(g, m)
		return
	}
	a.end(g, m)
}

// instanceEnded takes an ended instance out of its group when the group ended it; otherwise the health check finds it.
func (a *autoscalingService) instanceEnded(g *scalingGroup, m *member) {
	if m.ending() && len(m.waiting) == 0 && m.state != types.LifecycleStateTerminatingRetained {
		a.finish(m.activity, types.ScalingActivityStatusCodeSuccessful, "")
		g.remove(m.id)
	}
	a.wake(g, 0)
}

// hold makes an instance wait for the hooks of a transition, and says whether there are any.
func (a *autoscalingService) hold(g *scalingGroup, m *member, transition string) bool {
	m.waiting = map[string]*wait{}
	now := a.now()
	for _, h := range g.hooks {
		if aws.ToString(h.LifecycleTransition) != transition {
			continue
		}
		beat := time.Duration(or(h.HeartbeatTimeout, 3600)) * time.Second
		m.waiting[aws.ToString(h.LifecycleHookName)] = &wait{token: a.uuid(), deadline: now.Add(beat), limit: now.Add(min(48*time.Hour, 100*beat))}
		a.wake(g, beat)
	}
	return len(m.waiting) > 0
}

// expireWaits gives hooks whose heartbeat has stopped their default result.
func (a *autoscalingService) expireWaits(g *scalingGroup) {
	now := a.now()
	for _, m := range g.members {
		for name, w := range m.waiting {
			until := w.deadline
			if w.limit.Before(until) {
				until = w.limit
			}
			if until.After(now) {
				a.wake(g, until.Sub(now))
				continue
			}
			a.complete(g, m, name, g.defaultResult(name))
		}
	}
}

func (g *scalingGroup) hook(name string) *types.LifecycleHook {
	for i := range g.hooks {
		if aws.ToString(g.hooks[i].LifecycleHookName) == name {
			return &g.hooks[i]
		}
	}
	return nil
}

func (g *scalingGroup) defaultResult(hook string) string {
	if h := g.hook(hook); h != nil && aws.ToString(h.DefaultResult) == resultContinue {
		return resultContinue
	}
	return resultAbandon
}

// complete ends one hook's wait. When the last is over, or one is abandoned, the instance goes on.
func (a *autoscalingService) complete(g *scalingGroup, m *member, hook, result string) {
	if m.waiting[hook] == nil {
		return
	}
	delete(m.waiting, hook)
	if result == resultAbandon {
		m.waiting = nil
	}
	if len(m.waiting) > 0 {
		return
	}
	switch {
	case m.pending() && result == resultAbandon:
		a.terminate(g, m, "an instance was taken out of service in response to a launch lifecycle action being abandoned")
	case m.pending():
		a.serve(g, m)
	case result == resultAbandon && g.retains():
		m.state = types.LifecycleStateTerminatingRetained
		a.finish(m.activity, types.ScalingActivityStatusCodeSuccessful, "")
	default:
		m.state = types.LifecycleStateTerminatingProceed
		a.end(g, m)
	}
	a.wake(g, 0)
}

// retains says whether an abandoned termination keeps its instance.
func (g *scalingGroup) retains() bool {
	p := g.spec.InstanceLifecyclePolicy
	return p != nil && p.RetentionTriggers != nil && p.RetentionTriggers.TerminateHookAbandon == types.RetentionActionRetain
}

// end has EC2 end an instance, or drops one that EC2 has ended already.
func (a *autoscalingService) end(g *scalingGroup, m *member) {
	if a.gone(m.id) {
		a.instanceEnded(g, m)
		return
	}
	a.endInstance(m)
}
