package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// mapped is harbor in a time before access entries.
var mapped = func() inventory.Cluster {
	c := harbor
	c.AuthenticationMode = "CONFIG_MAP"
	return c
}()

// store is an API server with one ConfigMap, or none. It takes a write only with the version that it gave out last.
type store struct {
	configMap *corev1.ConfigMap
	version   int
	writes    int
	getErr    error
	updateErr error
	// meddle runs between a read and whatever follows it.
	meddle func()
	// replyLost makes writes that come through and say that they did not.
	replyLost bool
}

var configMapsResource = schema.GroupResource{Resource: "configmaps"}

func newStore(mapRoles string) *store {
	return &store{version: 7, configMap: &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth", Labels: map[string]string{"team": "a"}},
		Data:       map[string]string{"mapRoles": mapRoles, "mapUsers": "- userarn: arn:aws:iam::123456789012:user/a\n  username: a\n"},
	}}
}

func (s *store) resourceVersion() string { return strings.Repeat("v", s.version) }

func (s *store) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	switch {
	case s.getErr != nil:
		return nil, s.getErr
	case s.configMap == nil || s.configMap.Name != name:
		return nil, apierrors.NewNotFound(configMapsResource, name)
	}
	out := s.configMap.DeepCopy()
	out.ResourceVersion = s.resourceVersion()
	if s.meddle != nil {
		s.meddle()
	}
	return out, nil
}

func (s *store) Update(_ context.Context, configMap *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	switch {
	case s.updateErr != nil:
		return nil, s.updateErr
	case configMap.ResourceVersion != s.resourceVersion():
		return nil, apierrors.NewConflict(configMapsResource, configMap.Name, errors.New("the object has been modified"))
	}
	s.put(configMap)
	if s.replyLost {
		return nil, errors.New("the connection was cut")
	}
	return configMap, nil
}

func (s *store) put(configMap *corev1.ConfigMap) {
	s.configMap = configMap.DeepCopy()
	s.configMap.ResourceVersion = ""
	s.version++
	s.writes++
}

func (s *store) roles() string { return s.configMap.Data["mapRoles"] }

const rowOfHarbor = "row of " + ourRole + " in ConfigMap kube-system/aws-auth"

func TestRowLifecycle(t *testing.T) {
	l, s := newLab(t), newStore(rowsByHand)
	port := portAs(l.Config, s)
	before := s.configMap.DeepCopy()
	got, err := port.Observe(t.Context(), mapped, nil)
	simtest.Check(t, err)
	if got.Conflict != "" || len(got.Missing) != 14 || got.Missing[13] != rowOfHarbor || s.writes != 0 {
		t.Errorf("before: %+v, %d writes", got, s.writes)
	}
	simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
	want := before.DeepCopy()
	want.Data["mapRoles"] = rowsByHand + indented(ourRow)
	if diff := cmp.Diff(want, s.configMap); diff != "" {
		t.Errorf("aws-auth: -want +got\n%s", diff)
	}
	got, err = port.Observe(t.Context(), mapped, nil)
	simtest.Check(t, err)
	if !got.Ready || len(got.Made) != 4 || got.Made[3] != rowOfHarbor {
		t.Errorf("after Ensure: %+v", got)
	}
	simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
	if s.writes != 1 {
		t.Errorf("a second Ensure wrote: %d writes", s.writes)
	}
	for range 2 {
		simtest.Check(t, port.Remove(t.Context(), mapped))
	}
	if diff := cmp.Diff(before, s.configMap); diff != "" || s.writes != 2 {
		t.Errorf("after Remove, %d writes: -want +got\n%s", s.writes, diff)
	}
	if got := l.left(t); len(got) != 0 {
		t.Errorf("left are %v", got)
	}
}

// EKS takes the role of its last node group out, and rewrites the list; a user edits it too. Castoff's row comes back alone.
func TestRowThatWasLostComesBack(t *testing.T) {
	l, s := newLab(t), newStore(rowsOfEKS)
	port := portAs(l.Config, s)
	simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
	s.configMap.Data["mapRoles"] = rowsOfTerraform
	s.version++
	got, err := port.Observe(t.Context(), mapped, nil)
	simtest.Check(t, err)
	if diff := cmp.Diff([]string{rowOfHarbor}, got.Missing); diff != "" || got.Ready {
		t.Errorf("missing: -want +got\n%s", diff)
	}
	simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
	if diff := cmp.Diff(rowsOfTerraform+ourRow, s.roles()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestRowConflicts(t *testing.T) {
	forbidden := apierrors.NewForbidden(configMapsResource, "aws-auth", errors.New("no"))
	cases := map[string]struct {
		reason string
		store  *store // nil: castoff has no such right at all
		says   []string
	}{
		"NoRight":   {"castoff was not wired to it", nil, []string{"awsAuth.write", "API_AND_CONFIG_MAP", ourRole}},
		"Forbidden": {"the chart does not give the right", &store{getErr: forbidden}, []string{"awsAuth.write", "API_AND_CONFIG_MAP", ourRole}},
		"Missing":   {"castoff may not make it", &store{}, []string{"kube-system/aws-auth does not exist", "create it"}},
		"Malformed": {"it is never written over", newStore("rolearn: x"), []string{"mapRoles cannot be read", "mend it"}},
		"Unknown":   {"neither is what cannot be edited", newStore(rowsOfEKS + "...\n"), []string{"add the row yourself", ourRole}},
		"Unfit":     {"a row of the role with which no node joins", newStore("- rolearn: " + ourRole + "\n  username: x\n  groups: [system:masters]\n"), []string{`username "x"`, "system:masters", "make it"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			port := l.port
			if tc.store != nil {
				port = portAs(l.Config, tc.store)
			}
			_, seq := l.Writes(t, 0)
			got, err := port.Observe(t.Context(), mapped, nil)
			simtest.Check(t, err)
			err = port.Ensure(t.Context(), mapped, nil)
			for _, words := range tc.says {
				if got.Ready || !strings.Contains(got.Conflict, words) || inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), words) {
					t.Errorf("%s: conflict %q, error %v; want both to say %q", tc.reason, got.Conflict, err, words)
				}
			}
			if made, _ := l.Writes(t, seq); len(made) != 0 || tc.store != nil && tc.store.writes != 0 {
				t.Errorf("%s: wrote %v, or the ConfigMap", tc.reason, made)
			}
		})
	}
}

func TestRowThatIsThere(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		made   bool // by castoff
	}{
		"AsWritten":   {"castoff's role, castoff's row", rowsOfEKS + ourRow, true},
		"OtherCase":   {"the authenticator does not tell", strings.ReplaceAll(ourRow, "KarpenterNodeRole", "karpenternoderole"), true},
		"GivenMore":   {"its user's now", strings.ReplaceAll(ourRow, "  - system:nodes\n", "  - system:nodes\n  - dashboards\n"), false},
		"SecondWins":  {"of two rows the last one counts", "- rolearn: " + ourRole + "\n  username: x\n" + ourRow, true},
		"InBrackets":  {"a tool that writes JSON", "[" + ourRowInJSON + "]", true},
		"AfterOthers": {"order does not matter", ourRow + rowsByHandAtColumnZero(), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l, s := newLab(t), newStore(tc.text)
			port := portAs(l.Config, s)
			simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
			got, err := port.Observe(t.Context(), mapped, nil)
			simtest.Check(t, err)
			if !got.Ready || (len(got.Made) == 4) != tc.made || s.writes != 0 {
				t.Errorf("%s: %+v, %d writes", tc.reason, got, s.writes)
			}
		})
	}
}

func rowsByHandAtColumnZero() string { return strings.ReplaceAll(rowsByHand, "\n  ", "\n") }

// A role of somebody else's keeps its row; one with a path is known without it.
func TestRowOfAnotherRole(t *testing.T) {
	l, s := newLab(t), newStore("")
	_, err := l.iam.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: aws.String(nodeRoleOfHarbor), Path: aws.String("/platform/nodes/"), AssumeRolePolicyDocument: aws.String(NodeTrust(harbor))})
	simtest.Check(t, err)
	l.attach(t, nodeRoleOfHarbor, nodePolicies...)
	port := portAs(l.Config, s)
	simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
	if diff := cmp.Diff(ourRow, s.roles()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	simtest.Check(t, port.Remove(t.Context(), mapped))
	if s.roles() != ourRow || s.writes != 1 {
		t.Errorf("the row of a role that is not castoff's was taken out: %q", s.roles())
	}
}

// Whoever writes between castoff's read and its write wins, and castoff looks again.
func TestRowIsNotWrittenOverAnothersChange(t *testing.T) {
	l, s := newLab(t), newStore(rowsOfEKS)
	s.meddle = func() {
		s.meddle = nil
		theirs := s.configMap.DeepCopy()
		theirs.Data["mapRoles"] = rowsOfEKS + "- rolearn: " + adminRole + "\n"
		s.put(theirs)
	}
	port := portAs(l.Config, s)
	if err := port.Ensure(t.Context(), mapped, nil); !apierrors.IsConflict(err) || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("error is %v, want a conflict to retry", err)
	}
	simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
	if diff := cmp.Diff(rowsOfEKS+"- rolearn: "+adminRole+"\n"+ourRow, s.roles()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestRowErrors(t *testing.T) {
	cases := map[string]struct {
		reason string
		store  *store
		want   inventory.Class
		says   string
	}{
		"NoAnswer":       {"the API server restarts", &store{getErr: errors.New("connection refused")}, inventory.ClassRetry, "get configmaps kube-system/aws-auth"},
		"Busy":           {"it asks to slow down", &store{getErr: apierrors.NewTooManyRequests("later", 1)}, inventory.ClassThrottled, "busy"},
		"UpdateRefused":  {"a right that was taken away", refusing(apierrors.NewForbidden(configMapsResource, "aws-auth", errors.New("no"))), inventory.ClassTerminal, "awsAuth.write"},
		"UpdateNoAnswer": {"it may have been written", refusing(errors.New("connection reset")), inventory.ClassRetry, "update configmaps kube-system/aws-auth"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			err := portAs(l.Config, tc.store).Ensure(t.Context(), mapped, nil)
			if err == nil || inventory.ClassOf(err) != tc.want || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: error is %v (%s), want %s with %q", tc.reason, err, inventory.ClassOf(err), tc.want, tc.says)
			}
		})
	}
}

func refusing(err error) *store {
	s := newStore(rowsOfEKS)
	s.updateErr = err
	return s
}

// A write whose reply was lost is not made twice, neither in nor out.
func TestRowAfterALostReply(t *testing.T) {
	l, s := newLab(t), newStore(rowsOfEKS)
	port := portAs(l.Config, s)
	for _, step := range []struct {
		do   func(context.Context) error
		want string
	}{
		{func(ctx context.Context) error { return port.Ensure(ctx, mapped, nil) }, rowsOfEKS + ourRow},
		{func(ctx context.Context) error { return port.Remove(ctx, mapped) }, rowsOfEKS},
	} {
		s.replyLost = true
		if err := step.do(t.Context()); err == nil || inventory.ClassOf(err) != inventory.ClassRetry {
			t.Fatalf("error is %v, want one to retry", err)
		}
		s.replyLost = false
		simtest.Check(t, step.do(t.Context()))
		if diff := cmp.Diff(step.want, s.roles()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	if s.writes != 2 {
		t.Errorf("%d writes, want one in and one out", s.writes)
	}
}

// A crash at any AWS call leaves the row to the next Remove: while the role is there, the row is known as castoff's.
func TestRowIsRemovedAfterEveryCrash(t *testing.T) {
	simtest.EveryCrash(t, func(t *testing.T, network *http.Client) (func(*testing.T), error) {
		l, s := newLab(t), newStore(rowsOfEKS)
		simtest.Check(t, portAs(l.Config, s).Ensure(t.Context(), mapped, nil))
		cut := l.Config
		cut.HTTPClient = network
		err := portAs(cut, s).Remove(t.Context(), mapped)
		return func(t *testing.T) {
			wantRetry(t, err)
			simtest.Check(t, portAs(l.Config, s).Remove(t.Context(), mapped))
			if s.roles() != rowsOfEKS || len(l.left(t)) != 0 {
				t.Errorf("left are %v and %q", l.left(t), s.roles())
			}
		}, err
	})
}

// The user let the cluster know access entries in the middle of it all: castoff's row is still castoff's to take out.
func TestRowFromBeforeAccessEntries(t *testing.T) {
	l, s := newLab(t), newStore(rowsOfEKS)
	port := portAs(l.Config, s)
	simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
	simtest.Check(t, port.Ensure(t.Context(), harbor, nil))
	got, err := port.Observe(t.Context(), harbor, nil)
	simtest.Check(t, err)
	if !got.Ready || len(got.Made) != 4 || s.writes != 1 {
		t.Errorf("%+v, %d writes", got, s.writes)
	}
	simtest.Check(t, port.Remove(t.Context(), harbor))
	if s.roles() != rowsOfEKS || len(l.left(t)) != 0 {
		t.Errorf("left are %v and %q", l.left(t), s.roles())
	}
	cases := map[string]struct {
		reason string
		store  *store
		want   inventory.Class
	}{
		"Forbidden": {"the chart gives no right to look", &store{getErr: apierrors.NewForbidden(configMapsResource, "aws-auth", errors.New("no"))}, ""},
		"Missing":   {"there is none", &store{}, ""},
		"Malformed": {"nobody could be let in by it", newStore("x"), ""},
		"Theirs":    {"its user changed it", newStore("- rolearn: " + ourRole + "\n"), ""},
		"NoAnswer":  {"what is left is not known", &store{getErr: errors.New("connection refused")}, inventory.ClassRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			simtest.Check(t, port.Ensure(t.Context(), harbor, nil))
			if got, err := portAs(l.Config, tc.store).Observe(t.Context(), harbor, nil); err != nil || !got.Ready {
				t.Errorf("%s: %+v, error %v; aws-auth does not matter where access entries do", tc.reason, got, err)
			}
			err := portAs(l.Config, tc.store).Remove(t.Context(), harbor)
			if (err == nil) != (tc.want == "") || err != nil && inventory.ClassOf(err) != tc.want || tc.store.writes != 0 {
				t.Errorf("%s: error %v, %d writes", tc.reason, err, tc.store.writes)
			}
		})
	}
}

func TestRowARN(t *testing.T) {
	for in, want := range map[string]string{
		ourRole: ourRole,
		"arn:aws-us-gov:iam::1:role/team/developers/nodes": "arn:aws-us-gov:iam::1:role/nodes",
		"arn:aws:iam::1:user/a/b":                          "arn:aws:iam::1:user/a/b",
		"":                                                 "",
	} {
		if got := rowARN(in); got != want {
			t.Errorf("the row of %q is %q, want %q", in, got, want)
		}
	}
}
