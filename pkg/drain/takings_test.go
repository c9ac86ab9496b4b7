package drain

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTakings: what several passes take of a budget is counted until its status shows it.
func TestTakings(t *testing.T) {
	b := budget("web", 2)
	b.ResourceVersion = "1"
	taken, at := &takings{}, now
	take := func(reason, pod string, want bool) {
		t.Helper()
		if got := taken.take(b, pod, at); got != want {
			t.Errorf("%s: took room for %s: %v, want %v", reason, pod, got, want)
		}
	}
	take("the first of two", "a", true)
	take("the second of two", "b", true)
	take("no status shows those two yet", "c", false)
	b.ResourceVersion, b.Status.DisruptionsAllowed = "2", 1
	b.Status.DisruptedPods = map[string]metav1.Time{"a": {}}
	take("one is shown, the other takes what is left", "c", false)
	at = at.Add(settle)
	b.ResourceVersion, b.Status.DisruptedPods = "3", nil
	take("after a second a status that changed tells all", "c", true)
	taken.giveBack(b, "c", false)
	take("what was given back may be taken", "d", true)
	taken.giveBack(b, "d", true)
	take("a budget that refused is not asked in the same state", "e", false)
	if left := taken.left(b, at); left != 0 {
		t.Errorf("%d left of a budget that refused", left)
	}
	b.ResourceVersion = "4"
	take("but in another", "e", true)
	at = at.Add(forgotten - time.Second)
	take("what its status never shows counts", "f", false)
	at = at.Add(time.Second)
	take("for a while", "f", true)
}
