package identity

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

const (
	nodeRoleOfHarbor       = "KarpenterNodeRole-harbor"
	controllerRoleOfHarbor = "KarpenterControllerRole-harbor"
)

// profile makes an instance profile, with the role in it if one is given.
func (l *lab) profile(t *testing.T, path, name, role string) {
	t.Helper()
	_, err := l.iam.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(name), Path: aws.String(path)})
	simtest.Check(t, err)
	if role == "" {
		return
	}
	_, err = l.iam.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String(name), RoleName: aws.String(role)})
	simtest.Check(t, err)
}

// left is what IAM and EKS hold of what castoff makes.
func (l *lab) left(t *testing.T) (out []string) {
	t.Helper()
	roles, err := l.iam.ListRoles(t.Context(), &iam.ListRolesInput{})
	simtest.Check(t, err)
	for _, r := range roles.Roles {
		if strings.HasPrefix(aws.ToString(r.RoleName), "Karpenter") {
			out = append(out, aws.ToString(r.RoleName))
		}
	}
	profiles, err := l.iam.ListInstanceProfiles(t.Context(), &iam.ListInstanceProfilesInput{})
	simtest.Check(t, err)
	for _, p := range profiles.InstanceProfiles {
		out = append(out, aws.ToString(p.InstanceProfileName))
	}
	entries, err := l.eks.ListAccessEntries(t.Context(), &eks.ListAccessEntriesInput{ClusterName: aws.String("harbor")})
	simtest.Check(t, err)
	associations, err := l.eks.ListPodIdentityAssociations(t.Context(), &eks.ListPodIdentityAssociationsInput{ClusterName: aws.String("harbor")})
	simtest.Check(t, err)
	for _, a := range associations.Associations {
		out = append(out, "association of "+aws.ToString(a.ServiceAccount))
	}
	return append(out, entries.AccessEntries...)
}

// used is a cluster in which Karpenter worked and left instance profiles behind, one of them half deleted.
func (l *lab) used(t *testing.T) {
	t.Helper()
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, []string{"CloudWatchAgentServerPolicy"}))
	l.attach(t, nodeRoleOfHarbor, "ReadOnlyAccess") // by its user, later
	l.profile(t, "/karpenter/us-east-1/harbor/uid-1/", "harbor_1", nodeRoleOfHarbor)
	l.profile(t, "/karpenter/us-east-1/harbor/uid-2/", "harbor_2", "")
}

func TestRemoveTakesAllThatEnsureMade(t *testing.T) {
	l := newLab(t)
	l.used(t)
	_, seq := l.Writes(t, 0)
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	if got := l.left(t); len(got) != 0 {
		t.Errorf("left are %v", got)
	}
	if got := l.observe(t); len(got.Made) != 0 || len(got.Missing) != 14 || got.Conflict != "" {
		t.Errorf("after Remove: %+v", got)
	}
	done, seq := l.Writes(t, seq)
	// Access and association first: what is left in a crash must not let anybody in.
	if want := []string{"DeleteAccessEntry", "DeletePodIdentityAssociation"}; !cmp.Equal(want, done[:2]) || done[len(done)-1] != "DeleteRole" {
		t.Errorf("writes are %v", done)
	}
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	if again, _ := l.Writes(t, seq); len(again) != 0 {
		t.Errorf("a second Remove wrote %v", again)
	}
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	if got := l.observe(t); !got.Ready {
		t.Errorf("made once more: %+v", got)
	}
}

// Whichever request is the last before a crash, made or not, the next call takes away what it left.
func TestRemoveGoesOnFromEveryCrash(t *testing.T) {
	n := simtest.EveryCrash(t, func(t *testing.T, network *http.Client) (func(*testing.T), error) {
		l := newLab(t)
		l.used(t)
		err := l.portOver(network).Remove(t.Context(), harbor)
		return func(t *testing.T) {
			wantRetry(t, err)
			simtest.Check(t, l.port.Remove(t.Context(), harbor))
			if got := l.left(t); len(got) != 0 {
				t.Errorf("the next call leaves %v", got)
			}
		}, err
	})
	if n < 30 {
		t.Errorf("Remove made %d requests; too few to prove anything", n)
	}
}

// What EKS deleted still shows for a while: a repeated delete finds nothing, and is no failure.
func TestRemoveWhileReadsLag(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	simtest.Check(t, l.Door.SetSettings(t.Context(), simapi.Settings{Lag: 5 * time.Second}))
	l.Sim.Advance(10 * time.Second)
	for range 3 {
		simtest.Check(t, l.port.Remove(t.Context(), harbor))
	}
	if len(l.observe(t).Made) == 0 {
		t.Fatal("everything is gone at once; the test proves nothing without lag")
	}
	l.Sim.Advance(10 * time.Second)
	if got := l.observe(t); len(got.Made) != 0 {
		t.Errorf("after the lag: %+v", got)
	}
}

// ensuredBySomebody is all that Ensure makes, with other tags or none.
func (l *lab) ensuredBySomebody(t *testing.T, tags map[string]string) {
	t.Helper()
	var list []iamtypes.Tag
	for k, v := range tags {
		list = append(list, iamtypes.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	l.role(t, nodeRoleOfHarbor, NodeTrust(harbor), list...)
	l.attach(t, nodeRoleOfHarbor, nodePolicies...)
	l.role(t, controllerRoleOfHarbor, ControllerTrust(harbor), list...)
	for name, document := range ControllerPolicies(harbor) {
		_, err := l.iam.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: aws.String(controllerRoleOfHarbor), PolicyName: aws.String(name), PolicyDocument: aws.String(document)})
		simtest.Check(t, err)
	}
	_, err := l.eks.CreatePodIdentityAssociation(t.Context(), &eks.CreatePodIdentityAssociationInput{
		ClusterName: aws.String("harbor"), Namespace: aws.String("kube-system"), ServiceAccount: aws.String("karpenter"),
		RoleArn: aws.String("arn:aws:iam::123456789012:role/" + controllerRoleOfHarbor), Tags: tags,
	})
	simtest.Check(t, err)
	_, err = l.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{
		ClusterName: aws.String("harbor"), PrincipalArn: aws.String("arn:aws:iam::123456789012:role/" + nodeRoleOfHarbor), Type: aws.String("EC2_LINUX"), Tags: tags,
	})
	simtest.Check(t, err)
}

func TestRemoveLeavesWhatIsNotCastoffs(t *testing.T) {
	elsewhere := harbor
	elsewhere.ARN = strings.Replace(harbor.ARN, "us-east-1", "eu-west-1", 1)
	cases := map[string]struct {
		reason string
		tags   map[string]string
		gone   bool
	}{
		"Castoffs":       {"all of castoff's tags, for this cluster", awsapi.OurTags(harbor), true},
		"Untagged":       {"whoever made it wants it", nil, false},
		"AnotherCluster": {"IAM is global: a cluster of the same name in another region", awsapi.OurTags(elsewhere), false},
		"AnotherManager": {"the keys alone say nothing", map[string]string{"castoff.sh/managed-by": "terraform", "castoff.sh/cluster": harbor.ARN}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.ensuredBySomebody(t, tc.tags)
			if got := l.observe(t); !got.Ready || (len(got.Made) == 4) != tc.gone || !tc.gone && len(got.Made) != 0 {
				t.Errorf("%s: %+v", tc.reason, got)
			}
			before := l.left(t)
			_, seq := l.Writes(t, 0)
			simtest.Check(t, l.port.Remove(t.Context(), harbor))
			if done, _ := l.Writes(t, seq); (len(done) > 0) != tc.gone {
				t.Errorf("%s: wrote %v", tc.reason, done)
			}
			if after := l.left(t); !tc.gone && !cmp.Equal(before, after) || tc.gone && len(after) != 0 {
				t.Errorf("%s: before %v, after %v", tc.reason, before, after)
			}
		})
	}
}

// A role that somebody uses elsewhere cannot go, and is not left half empty.
func TestRemoveLeavesARoleThatOthersUse(t *testing.T) {
	l := newLab(t)
	l.used(t)
	l.profile(t, "/", "theirs", nodeRoleOfHarbor)
	before, err := l.port.AttachedPolicies(t.Context(), nodeRoleOfHarbor)
	simtest.Check(t, err)
	err = l.port.Remove(t.Context(), harbor)
	if inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), nodeRoleOfHarbor) || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("error is %v, want a terminal one naming the role and the profile", err)
	}
	after, err := l.port.AttachedPolicies(t.Context(), nodeRoleOfHarbor)
	simtest.Check(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("policies: -before +after\n%s", diff)
	}
	if got := l.left(t); !slices.Contains(got, "harbor_1") || !slices.Contains(got, "theirs") {
		t.Errorf("left are %v, want every profile", got)
	}
}

// Karpenter's profile of another role is another Karpenter's.
func TestRemoveLeavesProfilesOfOtherRoles(t *testing.T) {
	l := newLab(t)
	l.used(t)
	l.role(t, "theirs", NodeTrust(harbor))
	l.profile(t, "/karpenter/us-east-1/harbor/uid-3/", "harbor_3", "theirs")
	l.profile(t, "/karpenter/us-east-1/harbor-two/uid-4/", "harbor-two_4", "")
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	if diff := cmp.Diff([]string{"harbor_3", "harbor-two_4"}, l.left(t)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// An association whose role its user replaced is theirs now.
func TestRemoveLeavesAnAssociationThatWasChanged(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	l.role(t, "theirs", ControllerTrust(harbor))
	list, err := l.eks.ListPodIdentityAssociations(t.Context(), &eks.ListPodIdentityAssociationsInput{ClusterName: aws.String("harbor")})
	simtest.Check(t, err)
	_, err = l.eks.UpdatePodIdentityAssociation(t.Context(), &eks.UpdatePodIdentityAssociationInput{
		ClusterName: aws.String("harbor"), AssociationId: list.Associations[0].AssociationId, RoleArn: aws.String("arn:aws:iam::123456789012:role/theirs"),
	})
	simtest.Check(t, err)
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	if diff := cmp.Diff([]string{"association of karpenter"}, l.left(t)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestRemoveErrorClasses(t *testing.T) {
	cases := map[string]struct {
		service, operation, code string
		status                   int
		want                     inventory.Class
	}{
		"association denied":     {"eks", "DeletePodIdentityAssociation", "AccessDeniedException", 403, inventory.ClassTerminal},
		"access entry throttled": {"eks", "DeleteAccessEntry", "ThrottlingException", 429, inventory.ClassThrottled},
		"access entry, 5xx":      {"eks", "DeleteAccessEntry", "ServerException", 500, inventory.ClassRetry},
		"detaching denied":       {"iam", "DetachRolePolicy", "AccessDenied", 403, inventory.ClassTerminal},
		"inline list throttled":  {"iam", "ListRolePolicies", "Throttling", 400, inventory.ClassThrottled},
		"inline denied":          {"iam", "DeleteRolePolicy", "AccessDenied", 403, inventory.ClassTerminal},
		"profiles denied":        {"iam", "ListInstanceProfiles", "AccessDenied", 403, inventory.ClassTerminal},
		"profiles of role, 5xx":  {"iam", "ListInstanceProfilesForRole", "ServiceFailure", 500, inventory.ClassRetry},
		"profile role denied":    {"iam", "RemoveRoleFromInstanceProfile", "AccessDenied", 403, inventory.ClassTerminal},
		"profile changing":       {"iam", "DeleteInstanceProfile", "ConcurrentModification", 409, inventory.ClassRetry},
		"role in use meanwhile":  {"iam", "DeleteRole", "DeleteConflict", 409, inventory.ClassRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.used(t)
			l.fault(t, simapi.Fault{Service: tc.service, Operation: tc.operation, Code: tc.code, Status: tc.status})
			err := l.port.Remove(t.Context(), harbor)
			if err == nil || inventory.ClassOf(err) != tc.want || !strings.Contains(err.Error(), tc.service+":"+tc.operation) {
				t.Errorf("error is %v (%s), want %s naming %s:%s", err, inventory.ClassOf(err), tc.want, tc.service, tc.operation)
			}
		})
	}
}
