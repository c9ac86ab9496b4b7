package awssim

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

const (
	// rebalanceAfter is for how long zones stay uneven before AZRebalance acts. AWS says "within minutes".
	rebalanceAfter = time.Minute
	// launchRetry is the first pause after a launch that failed; it doubles up to launchRetryMax.
	launchRetry    = 15 * time.Second
	launchRetryMax = 5 * time.Minute
)

var errHeldBack = errors.New("launches are held back after a failure")

// reconcile brings a group nearer to what it wants. It runs after every change and again while something is left to do.
func (a *autoscalingService) reconcile(g *scalingGroup) {
	a.expireWaits(g)
	a.checkHealth(g)
	a.replaceUnhealthy(g)
	a.scaleOut(g)
	a.scaleIn(g)
	if g.capacity() == g.sizes.desired {
		g.asked = ""
	}
	a.replaceAtRisk(g)
	a.replaceAged(g)
	a.rebalance(g)
	a.advanceRefresh(g)
	if g.deleting && len(g.members) == 0 {
		a.drop(g)
		return
	}
	a.publish(g)
	if a.reconciled != nil {
		a.reconciled(g)
	}
}

// checkHealth marks instances unhealthy that EC2 has ended behind the group's back.
func (a *autoscalingService) checkHealth(g *scalingGroup) {
	for _, m := range g.members {
		if m.counted() && g.runs(processHealthCheck) && a.ended(m.id) {
			m.unhealthy = true
		}
	}
}

// replaceUnhealthy ends what is unhealthy; the launch of its replacement is scale-out. It does not act while Terminate
// is suspended, and does while Launch is: the group then stays short until Launch is resumed.
func (a *autoscalingService) replaceUnhealthy(g *scalingGroup) {
	if !g.runs(processReplaceUnhealthy) || !g.runs(processTerminate) {
		return
	}
	for _, m := range g.members {
		if m.counted() && m.unhealthy {
			a.terminate(g, m, "an instance was taken out of service in response to an EC2 health check indicating it has been terminated or stopped")
		}
	}
}

// scaleOut launches what is missing.
func (a *autoscalingService) scaleOut(g *scalingGroup) {
	if !g.runs(processLaunch) || g.deleting {
		return
	}
	if wait := g.retryAt.Sub(a.now()); wait > 0 && g.capacity() < g.sizes.desired {
		a.wake(g, wait)
		return
	}
	cause := g.because(a.now(), fmt.Sprintf("an instance was started in response to a difference between desired and actual capacity, increasing the capacity from %d to %d", g.capacity(), g.sizes.desired))
	for g.capacity() < g.sizes.desired {
		if _, err := a.launchNext(g, g.placements(a.menu()), cause); err != nil {
			a.backOff(g)
			return
		}
	}
}

// backOff holds launches back after a failure.
func (a *autoscalingService) backOff(g *scalingGroup) {
	pause := min(launchRetry<<min(g.failures, 10), launchRetryMax)
	g.failures++
	g.retryAt = a.now().Add(pause)
	a.wake(g, pause)
}

// launchNext tries the placements in order. Only a lack of capacity leads on to the next; anything else, such as a
// quota, would fail everywhere.
func (a *autoscalingService) launchNext(g *scalingGroup, ways []placement, cause string) (*member, error) {
	var err error = errorf("ValidationError", "There is no instance type and Availability Zone to launch into.")
	for _, p := range ways {
		var m *member
		if m, err = a.launch(g, p); err == nil {
			g.failures, g.retryAt = 0, time.Time{}
			m.activity = a.begin(g, "Launching a new EC2 instance: "+m.id, cause)
			g.members = append(g.members, m)
			return m, nil
		}
		if code := asAPIError(err).Code; code != "InsufficientInstanceCapacity" && code != "InsufficientFreeAddressesInSubnet" {
			break
		}
	}
	message := asAPIError(err).Code + " - " + asAPIError(err).Message + " Launching EC2 instance failed."
	a.finish(a.begin(g, "Launching a new EC2 instance.  Status Reason: "+message, cause), types.ScalingActivityStatusCodeFailed, message)
	return nil, err
}

// scaleIn ends what is too much, one after another, and says so when only protected instances are left.
func (a *autoscalingService) scaleIn(g *scalingGroup) {
	if !g.runs(processTerminate) {
		return
	}
	cause := g.because(a.now(), fmt.Sprintf("an instance was taken out of service in response to a difference between desired and actual capacity, shrinking the capacity from %d to %d", g.capacity(), g.sizes.desired))
	for g.capacity() > g.sizes.desired {
		m, protected := g.victim()
		if m == nil {
			if protected {
				a.failed(g, "Could not scale to desired capacity.", "a difference between desired and actual capacity was found",
					"Could not scale to desired capacity because all remaining instances are protected from scale in.")
			}
			return
		}
		a.terminate(g, m, cause)
	}
}

// replaceAtRisk launches the replacement of each instance that EC2 recommends to rebalance; the old one goes by
// scale-in once the new one serves.
func (a *autoscalingService) replaceAtRisk(g *scalingGroup) {
	if !or(g.spec.CapacityRebalance, false) || !g.runs(processLaunch) || g.deleting {
		return
	}
	var replacing int
	for _, m := range g.members {
		if m.extra && m.pending() {
			replacing++
		}
	}
	for _, m := range g.members {
		if !m.counted() || !m.atRisk {
			continue
		}
		if replacing--; replacing >= 0 || g.capacity() > g.sizes.desired {
			continue
		}
		if a.launchExtra(g, g.placements(a.menu()), "an instance was launched in response to an EC2 instance rebalance recommendation") != nil {
			return
		}
	}
}

// launchExtra launches above desired, for an instance that serves until the new one does.
func (a *autoscalingService) launchExtra(g *scalingGroup, ways []placement, cause string) error {
	if wait := g.retryAt.Sub(a.now()); wait > 0 {
		a.wake(g, wait)
		return errHeldBack
	}
	m, err := a.launchNext(g, ways, cause)
	if err != nil {
		a.backOff(g)
		return err
	}
	m.extra = true
	return nil
}

// replaceAged ends one instance older than MaxInstanceLifetime at a time, while the group is otherwise settled.
func (a *autoscalingService) replaceAged(g *scalingGroup) {
	life := time.Duration(or(g.spec.MaxInstanceLifetime, 0)) * time.Second
	if life == 0 || !g.runs(processTerminate) || !g.runs(processLaunch) || !g.settled() {
		return
	}
	for _, m := range g.members {
		left := m.launched.Add(life).Sub(a.now())
		if left > 0 {
			a.wake(g, left)
			continue
		}
		a.terminate(g, m, "an instance was taken out of service in response to its age being greater than the maximum instance lifetime")
		a.wake(g, 0)
		return
	}
}

// rebalance evens out the zones once they have been uneven for a while: it launches into the emptiest first, and
// scale-in then ends one in the fullest, drained or not.
func (a *autoscalingService) rebalance(g *scalingGroup) {
	into, uneven := g.uneven()
	if !uneven || !g.runs(processAZRebalance) || !g.runs(processLaunch) || !g.settled() || g.deleting {
		g.unevenSince = time.Time{}
		return
	}
	if g.unevenSince.IsZero() {
		g.unevenSince = a.now()
	}
	if wait := g.unevenSince.Add(rebalanceAfter).Sub(a.now()); wait > 0 {
		a.wake(g, wait)
		return
	}
	var ways []placement
	for _, p := range g.placements(a.menu()) {
		if p.zone == into {
			ways = append(ways, p)
		}
	}
	_ = a.launchExtra(g, ways, "an instance was launched to rebalance the group across Availability Zones") // its failure is an activity
}
