package bench

import "time"

// Load is what of one workload moves: so many pods, of which a budget lets so many lack at once; without a budget all of them.
type Load struct {
	Pods   int
	AtOnce int
}

// rounds is how often the load's budget must have its room back before the last pod may go, counting the first.
func (l Load) rounds() int {
	at := l.AtOnce
	if at <= 0 || at > l.Pods {
		at = l.Pods
	}
	if at == 0 {
		return 0
	}
	return (l.Pods + at - 1) / at
}

// lowerBound is how long a shift lasts at least where pods are evicted: until an instance takes pods, and then the workload with
// the most rounds, each as long as a pod takes to be Ready.
func lowerBound(boot, start time.Duration, loads []Load) time.Duration {
	most := 0
	for _, l := range loads {
		most = max(most, l.rounds())
	}
	if most == 0 {
		return 0
	}
	return boot + time.Duration(most)*start
}

// unavailableFloor is how long pods lack at least, all together: each for its start.
func unavailableFloor(start time.Duration, loads []Load) time.Duration {
	pods := 0
	for _, l := range loads {
		pods += l.Pods
	}
	return time.Duration(pods) * start
}
