package preflight

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// scaler is a Cluster Autoscaler that runs and scales the groups that have its tag.
func scaler(name string, change ...func(*inventory.Autoscaler)) inventory.Autoscaler {
	key := types.NamespacedName{Namespace: "kube-system", Name: name}
	a := inventory.Autoscaler{Deployment: key, Lease: key, Replicas: 1, StatusReplicas: 1, Pods: 1, LeaderElect: true, Discovery: []string{"ca"}}
	for _, c := range change {
		c(&a)
	}
	return a
}

func naming(groups ...string) func(*inventory.Autoscaler) {
	return func(a *inventory.Autoscaler) { a.Discovery, a.Static = nil, groups }
}

func discovering(tags ...string) func(*inventory.Autoscaler) {
	return func(a *inventory.Autoscaler) { a.Discovery = tags }
}

func ownedBy(owner string) func(*inventory.Autoscaler) {
	return func(a *inventory.Autoscaler) { a.Owner = owner }
}

func ofKind(kind string) func(*inventory.Autoscaler) {
	return func(a *inventory.Autoscaler) { a.Kind = kind }
}

func down(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 0, 0, 0 }

func scaledBy(h inventory.HorizontalAutoscaler) func(*inventory.Autoscaler) {
	return func(a *inventory.Autoscaler) { a.HPA = &h }
}

// scaledWorld has a group that migrates, one that no pool has, and the home, which Cluster Autoscaler leaves alone.
func scaledWorld(scalers ...inventory.Autoscaler) Input {
	tagged := []inventory.Tag{{Key: "ca", Value: "true"}}
	return sound(func(in *Input) {
		in.Autoscalers = scalers
		in.Groups = []inventory.NodeGroup{
			{Name: "general-a", AutoScalingGroup: "asg-general-a", Tags: tagged},
			{Name: "system", AutoScalingGroup: "asg-system"},
			{Name: "left", AutoScalingGroup: "asg-left"},
		}
	})
}

// told is what the checks of Cluster Autoscaler say: each finding's severity, check and object.
func told(findings []inventory.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, string(f.Severity)+" "+f.Check+" "+f.Object)
	}
	return out
}

type autoscalerCase struct {
	reason string
	have   []inventory.Autoscaler
	change func(*Input)
	want   []string
	says   []string
}

func runAutoscalerCases(t *testing.T, cases map[string]autoscalerCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := scaledWorld(tc.have...)
			if tc.change != nil {
				tc.change(&in)
			}
			got := Run(in, nil)
			if diff := cmp.Diff(tc.want, told(got)); diff != "" {
				t.Fatalf("%s: -want +got\n%s", tc.reason, diff)
			}
			for _, says := range tc.says {
				if !strings.Contains(got[0].Message, says) {
					t.Errorf("%s: %q is missing in %q", tc.reason, says, got[0].Message)
				}
			}
			for _, f := range got {
				if !strings.HasSuffix(f.Message, ".") || strings.Contains(f.Message, "..") || strings.Contains(f.Message, "  ") {
					t.Errorf("a message in whole sentences, got %q", f.Message)
				}
			}
		})
	}
}

func TestAutoscalerKind(t *testing.T) {
	const object = "Block AutoscalerNotDeployment statefulset/kube-system/ca"
	runAutoscalerCases(t, map[string]autoscalerCase{
		"Deployment":  {reason: "castoff stops it", have: []inventory.Autoscaler{scaler("ca")}},
		"StatefulSet": {reason: "nobody would stop it", have: []inventory.Autoscaler{scaler("ca", ofKind("StatefulSet"))}, want: []string{object}, says: []string{"as a StatefulSet", "kubectl scale statefulset/ca -n kube-system --replicas=0"}},
		"Pod":         {reason: "it has no replicas", have: []inventory.Autoscaler{scaler("ca", ofKind("Pod"))}, want: []string{"Block AutoscalerNotDeployment pod/kube-system/ca"}, says: []string{"kubectl delete pod/ca -n kube-system"}},
		"Stopped":     {reason: "it scales nothing", have: []inventory.Autoscaler{scaler("ca", ofKind("StatefulSet"), down)}},
		"Others":      {reason: "it scales no pool", have: []inventory.Autoscaler{scaler("ca", ofKind("DaemonSet"), discovering("other"))}},
	})
}

func TestAutoscalerGroupsUnknown(t *testing.T) {
	const object = "Block AutoscalerGroupsUnknown deployment/kube-system/ca"
	runAutoscalerCases(t, map[string]autoscalerCase{
		"Nothing":  {reason: "its arguments are elsewhere", have: []inventory.Autoscaler{scaler("ca", naming())}, want: []string{object}, says: []string{"neither --nodes nor", "kubectl scale deployment/ca -n kube-system --replicas=0"}},
		"Variable": {reason: "of a Secret", have: []inventory.Autoscaler{scaler("ca", naming("$(GROUP)"))}, want: []string{object}, says: []string{"($(GROUP))"}},
		"InATag":   {reason: "the same", have: []inventory.Autoscaler{scaler("ca", discovering("k8s.io/cluster-autoscaler/$(CLUSTER)"))}, want: []string{object}, says: []string{"$(CLUSTER)"}},
		"BesideOne": {reason: "what is known of it does not make the rest known", have: []inventory.Autoscaler{scaler("ca", naming("asg-general-a", "$(GROUP)"))},
			want: []string{object, "Warn GroupsLeftUnscaled deployment/kube-system/ca"}},
		"Stopped": {reason: "it scales nothing", have: []inventory.Autoscaler{scaler("ca", naming(), down)}},
	})
}

func TestAutoscalersOverlap(t *testing.T) {
	const object = "Block AutoscalersOverlap deployment/kube-system/spot"
	sameLease := func(a *inventory.Autoscaler) {
		a.Lease = types.NamespacedName{Namespace: "kube-system", Name: "ca"}
	}
	withoutElection := func(a *inventory.Autoscaler) { sameLease(a); a.LeaderElect = false }
	runAutoscalerCases(t, map[string]autoscalerCase{
		"SameGroup":   {reason: "both would serve it", have: []inventory.Autoscaler{scaler("ca"), scaler("spot")}, want: []string{object}, says: []string{"and deployment/kube-system/ca both scale general-a", "--replicas=0"}},
		"ByName":      {reason: "however they came to it", have: []inventory.Autoscaler{scaler("ca"), scaler("spot", naming("asg-general-a"))}, want: []string{object}},
		"SameLease":   {reason: "only one of them works", have: []inventory.Autoscaler{scaler("ca"), scaler("spot", naming("asg-other"), sameLease)}, want: []string{object}, says: []string{"share the Lease kube-system/ca"}},
		"NoElection":  {reason: "a Lease that one of them ignores is not shared", have: []inventory.Autoscaler{scaler("ca", discovering("ca")), scaler("spot", naming("asg-other"), withoutElection)}},
		"Apart":       {reason: "each has its own groups", have: []inventory.Autoscaler{scaler("ca"), scaler("spot", naming("asg-left"))}},
		"OneStopped":  {reason: "one is enough to stop", have: []inventory.Autoscaler{scaler("ca"), scaler("spot", down)}},
		"OthersOnly":  {reason: "groups that nobody migrates are not castoff's business", have: []inventory.Autoscaler{scaler("ca", naming("asg-left")), scaler("spot", naming("asg-left"))}},
		"ThreeOfThem": {reason: "each pair is named", have: []inventory.Autoscaler{scaler("ca"), scaler("spot"), scaler("third")}, want: []string{object, "Block AutoscalersOverlap deployment/kube-system/third", "Block AutoscalersOverlap deployment/kube-system/third"}},
	})
}

// TestCase_C005_TheOwnerIsNamedAndToBeSuspended: what to do is the tool's own way, word by word.
func TestCase_C005_TheOwnerIsNamedAndToBeSuspended(t *testing.T) {
	owned := []string{"Warn AutoscalerOwned deployment/kube-system/ca"}
	by := func(owner string) []inventory.Autoscaler { return []inventory.Autoscaler{scaler("ca", ownedBy(owner))} }
	runAutoscalerCases(t, map[string]autoscalerCase{
		"ArgoCD":      {reason: "self-heal restores the replicas", have: by("Argo CD application platform"), want: owned, says: []string{"belongs to Argo CD application platform", "ignoreDifferences on /spec/replicas", "argocd app set platform --sync-policy none"}},
		"Kustomize":   {reason: "Flux reconciles every few minutes", have: by("Flux Kustomization flux-system/infra"), want: owned, says: []string{"flux suspend kustomization infra -n flux-system."}},
		"HelmRelease": {reason: "with drift detection it does, too", have: by("Flux HelmRelease flux-system/ca"), want: owned, says: []string{"flux suspend helmrelease ca -n flux-system."}},
		"NoNamespace": {reason: "a mark without one", have: by("Flux HelmRelease ca"), want: owned, says: []string{"flux suspend helmrelease ca."}},
		"Fleet":       {reason: "bundles are corrected", have: by("Rancher Fleet bundle default-infra"), want: owned, says: []string{"spec.paused: true on the GitRepo"}},
		"Helm":        {reason: "Helm does nothing by itself", have: by("Helm release kube-system/ca"), want: owned, says: []string{"helm upgrade ca -n kube-system", "replicaCount: 0"}},
		"HelmByLabel": {reason: "no release is known", have: by("Helm (label app.kubernetes.io/managed-by)"), want: owned, says: []string{"set 0 replicas where it is defined"}},
		"Kapp":        {reason: "nor does kapp", have: by("kapp application 17"), want: owned, says: []string{"next deploy"}},
		"Operator":    {reason: "whatever else", have: by("ClusterAutoscaler default"), want: owned, says: []string{"Have it suspended before the start"}},
		"Nobody":      {reason: "applied by hand", have: by("")},
		"OfNoPool":    {reason: "castoff does not stop it", have: []inventory.Autoscaler{scaler("ca", ownedBy("Helm release a/b"), discovering("other"))}},
		"Stopped":     {reason: "it would be started again all the same", have: []inventory.Autoscaler{scaler("ca", ownedBy("Helm release a/b"), down)}, want: owned},
	})
}

func TestAutoscalerScaled(t *testing.T) {
	want := []string{"Warn AutoscalerScaled deployment/kube-system/ca"}
	with := func(h inventory.HorizontalAutoscaler) []inventory.Autoscaler {
		return []inventory.Autoscaler{scaler("ca", scaledBy(h))}
	}
	runAutoscalerCases(t, map[string]autoscalerCase{
		"HPA":    {reason: "it rests at 0", have: with(inventory.HorizontalAutoscaler{Name: "ca", Min: 1, Max: 3}), want: want, says: []string{"HorizontalPodAutoscaler ca", "(1 to 3)", "It rests"}},
		"ToZero": {reason: "it does not", have: with(inventory.HorizontalAutoscaler{Name: "ca", Max: 3}), want: want, says: []string{"set minReplicas to 1"}},
		"KEDA": {reason: "nor does that", have: with(inventory.HorizontalAutoscaler{Name: "keda-hpa-ca (of ScaledObject ca)", Min: 1, Max: 3, ScaledObject: "ca"}), want: want,
			says: []string{"kubectl annotate scaledobject ca -n kube-system autoscaling.keda.sh/paused=true"}},
	})
}

func TestAutoscalerElectionAndNotes(t *testing.T) {
	runAutoscalerCases(t, map[string]autoscalerCase{
		"NoElection": {reason: "the Lease is no fence", have: []inventory.Autoscaler{scaler("ca", func(a *inventory.Autoscaler) { a.LeaderElect = false })},
			want: []string{"Warn AutoscalerWithoutElection deployment/kube-system/ca"}, says: []string{"--leader-elect=true"}},
		"Notes": {reason: "nothing is dropped in silence", have: []inventory.Autoscaler{scaler("ca", func(a *inventory.Autoscaler) { a.Notes = []string{"the one", "the other"} })},
			want: []string{"Warn AutoscalerNotRead deployment/kube-system/ca"}, says: []string{"the one; the other"}},
	})
}

// TestCase_C003_GroupsThatNobodyScalesAreNamed: a Cluster Autoscaler that names its groups ends as a whole, and the plan says what
// it leaves alone then.
func TestCase_C003_GroupsThatNobodyScalesAreNamed(t *testing.T) {
	want := []string{"Warn GroupsLeftUnscaled deployment/kube-system/ca"}
	runAutoscalerCases(t, map[string]autoscalerCase{
		"All":      {reason: "every group migrates", have: []inventory.Autoscaler{scaler("ca", naming("asg-general-a"))}},
		"LeftOut":  {reason: "a group that no pool has", have: []inventory.Autoscaler{scaler("ca", naming("asg-general-a", "asg-left"))}, want: want, says: []string{"nobody scales left after the hand-over"}},
		"Home":     {reason: "the home keeps its size", have: []inventory.Autoscaler{scaler("ca", naming("asg-general-a", "asg-system"))}, want: want, says: []string{"nobody scales system (the home) after"}},
		"NotFound": {reason: "one without the cluster's tags is a group all the same", have: []inventory.Autoscaler{scaler("ca", naming("asg-general-a", "ng-b"))}, want: want, says: []string{"nobody scales ng-b after"}},
		"Many":     {reason: "at most three are named", have: []inventory.Autoscaler{scaler("ca", naming("asg-general-a", "a", "b", "c", "d"))}, want: want, says: []string{"a, b, c and 1 more"}},
		"ByTag": {reason: "discovery leaves them as well", have: []inventory.Autoscaler{scaler("ca")}, change: func(in *Input) { in.Groups[2].Tags = in.Groups[0].Tags },
			want: want, says: []string{"nobody scales left after"}},
		"AnotherScales": {reason: "a Cluster Autoscaler that stays has it", have: []inventory.Autoscaler{scaler("ca", discovering("ca")), scaler("spot", naming("asg-left"))}},
	})
}

// TestAutoscalerRisksCanBeAccepted: whoever stops it by hand gets past the check by its words.
func TestAutoscalerRisksCanBeAccepted(t *testing.T) {
	in := scaledWorld(scaler("ca", ofKind("StatefulSet")))
	got := Run(in, []v1alpha1.AcceptedRisk{{Check: "AutoscalerNotDeployment", Object: "statefulset/kube-system/ca", Reason: "I stop it"}})
	if len(got) != 1 || got[0].Blocks() || got[0].AcceptedReason != "I stop it" {
		t.Errorf("want the one finding accepted, got %+v", got)
	}
}
