package castandin

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

const fast = discover + " --scan-interval=20ms --leader-elect-lease-duration=1s --leader-elect-renew-deadline=500ms --leader-elect-retry-period=50ms"

func lease(holder string, seconds int32) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-autoscaler", Namespace: "kube-system"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now},
	}
}

// begin runs the stand-in until the test ends or stop is called.
func begin(t *testing.T, s *stage) (stop context.CancelFunc, ended <-chan error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, "ca-0") }()
	t.Cleanup(cancel)
	return cancel, done
}

func (s *stage) hasStatus() bool {
	_, err := s.kube.CoreV1().ConfigMaps("kube-system").Get(context.Background(), "cluster-autoscaler-status", metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

func TestRun(t *testing.T) {
	cases := map[string]struct {
		reason     string
		flags      string
		objects    []runtime.Object
		wantStatus bool
	}{
		"Leads":         {reason: "Without a holder it leads.", flags: fast, wantStatus: true},
		"NoElection":    {reason: "Without leader election a held Lease means nothing.", flags: fast + " --leader-elect=false", objects: []runtime.Object{lease("castoff", 3600)}, wantStatus: true},
		"GivenToNobody": {reason: "An empty holder hands the Lease over at once.", flags: fast, objects: []runtime.Object{lease("", 3600)}, wantStatus: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newStage(t, tc.flags, oneGroup(1, "i-a"), append(tc.objects, node("a"))...)
			s.now = time.Now
			stop, ended := begin(t, s)
			g.Eventually(s.hasStatus, "5s", "10ms").Should(BeTrue(), tc.reason)
			stop()
			g.Eventually(ended, "5s").Should(Receive(BeNil()))
			g.Expect(s.hasStatus()).To(BeFalse(), "SIGTERM takes the status away")
		})
	}
}

func TestStandbyDoesNothing(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, fast, oneGroup(1, "i-a"), node("a"), lease("castoff", 3600))
	stop, ended := begin(t, s)
	g.Consistently(s.hasStatus, "1500ms", "50ms").Should(BeFalse(), "the record's duration counts, not the flag's")
	stop()
	g.Eventually(ended, "5s").Should(Receive(BeNil()))
	g.Expect(s.cloud.calls).To(BeEmpty())
}

// TestStandbyServesSoonAfterItGetsTheLease is with Cluster Autoscaler's own intervals: it scans when it begins to lead, and not
// a scan interval later.
func TestStandbyServesSoonAfterItGetsTheLease(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, discover, oneGroup(1, "i-a"), node("a"), lease("castoff", 3600))
	s.now = time.Now
	stop, ended := begin(t, s)
	g.Consistently(s.hasStatus, "500ms", "50ms").Should(BeFalse())
	_, err := s.kube.CoordinationV1().Leases("kube-system").Update(t.Context(), lease("", 1), metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.hasStatus, "4s", "20ms").Should(BeTrue(), "the retry period of 2 s, a fifth more of jitter, and a scan")
	stop()
	g.Eventually(ended, "5s").Should(Receive(BeNil()))
}

func TestLeaderEndsLateWhenItsLeaseIsTaken(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, fast, oneGroup(1, "i-a"), node("a"))
	s.now = time.Now
	// The double has no optimistic locking of its own: once the Lease is taken, whoever holds an older one is refused.
	var lost atomic.Bool
	s.kube.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		if lost.Load() && *object.Spec.HolderIdentity != "castoff" {
			return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), object.Name, errors.New("changed"))
		}
		return false, nil, nil
	})
	_, ended := begin(t, s)
	g.Eventually(s.hasStatus, "5s", "10ms").Should(BeTrue())
	lost.Store(true)
	_, err := s.kube.CoordinationV1().Leases("kube-system").Update(t.Context(), lease("castoff", 3600), metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	taken := time.Now()
	g.Eventually(ended, "5s").Should(Receive(MatchError(func(err error) bool { return errors.Is(err, ErrLostLease) }, "ErrLostLease")))
	g.Expect(time.Since(taken)).To(BeNumerically(">=", 250*time.Millisecond), "it acts on until its renew deadline, half a second from its last renewal")
	g.Expect(s.hasStatus()).To(BeTrue(), "only SIGTERM takes the status away")
}
