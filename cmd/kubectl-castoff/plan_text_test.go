package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/cost"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// fleet is a cluster with all there is to tell: pools on demand, on spot and mixed, one that is not translated, and owners.
func fleet() plan.World {
	month := now.Add(-30 * 24 * time.Hour)
	w := plan.World{
		Cluster: inventory.Cluster{Name: "harbor", Region: "us-east-1", Partition: "aws"}, Home: "system",
		Pools: []inventory.Pool{
			{Name: "general", NodeGroups: []string{"general-a", "general-b"}}, {Name: "batch", NodeGroups: []string{"batch"}},
			{Name: "mixed", NodeGroups: []string{"mixed"}}, {Name: "outpost", NodeGroups: []string{"outpost"}},
		},
		Targets: map[string]inventory.Target{},
		Findings: []inventory.Finding{
			{Check: "NotTranslated", Severity: v1alpha1.SeverityBlock, Object: "pool/outpost", Pool: "outpost", Message: "No instance type is common to its groups. Give the pool a NodePool of your own in spec.pools, or leave its groups out."},
			{Check: "BudgetNeverAllows", Severity: v1alpha1.SeverityBlock, Object: "poddisruptionbudget/shop/web", Accepted: true, AcceptedReason: "the team raises it on the day", Message: "It never lets a pod go. Raise maxUnavailable."},
			{Check: "NotCarriedOver", Severity: v1alpha1.SeverityWarn, Object: "pool/mixed", Pool: "mixed", Message: "Not carried over to Karpenter: mixed: onDemandBaseCapacity."},
		},
	}
	for i, name := range []string{"general-a", "general-b", "batch", "mixed", "outpost"} {
		g := inventory.NodeGroup{Name: name, AutoScalingGroup: name, Zones: []string{"us-east-1a"}}
		kind := []string{"m5.large", "m5.large", "c5.xlarge", "c5.xlarge", "u-12.metal"}[i]
		for j := range 4 {
			id := fmt.Sprintf("i-%d%d", i, j)
			g.Instances = append(g.Instances, inventory.Instance{ID: id, Type: kind, Lifecycle: "InService"})
			w.Nodes = append(w.Nodes, inventory.Node{Name: id, InstanceID: id, Group: name, Created: month, Labels: map[string]string{corev1.LabelInstanceTypeStable: kind}})
		}
		w.Groups = append(w.Groups, g)
	}
	tags := func(i int, tags ...inventory.Tag) { w.Groups[i].Tags = tags }
	tags(0, inventory.Tag{Key: "terraform", Value: "true"})
	tags(1, inventory.Tag{Key: "aws:cloudformation:stack-name", Value: "harbor-nodes"}, inventory.Tag{Key: "aws:cloudformation:logical-id", Value: "GeneralB"})
	tags(2, inventory.Tag{Key: "alpha.eksctl.io/nodegroup-name", Value: "batch"})
	w.Groups[2].LaunchTemplate.Spot = true
	w.Groups[3].MixedInstances = &inventory.MixedInstances{OnDemandBase: 1, OnDemandPercentage: 0}
	w.Targets["general"] = targetOf("general", []string{"on-demand"}, "m5.large")
	w.Targets["batch"] = targetOf("batch", []string{"spot"}, "c5.xlarge", "c5a.xlarge")
	w.Targets["mixed"] = targetOf("mixed", []string{"spot", "on-demand"}, "c5.xlarge")
	mixed := w.Targets["mixed"]
	mixed.NotCarried = []inventory.NotCarried{{NodeGroup: "mixed", Field: "onDemandBaseCapacity 1", Reason: "A NodePool has no share of capacity types.", Do: "Give the pods that need it the node selector karpenter.sh/capacity-type: on-demand."}}
	w.Targets["mixed"] = mixed
	return w
}

func targetOf(pool string, capacity []string, types ...string) inventory.Target {
	in := func(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	t := inventory.Target{Pool: pool}
	t.NodePool.Kind, t.NodePool.Name, t.NodeClass.Kind, t.NodeClass.Name = "NodePool", pool, "EC2NodeClass", pool
	t.NodePool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		in(corev1.LabelInstanceTypeStable, types...), in(karpv1.CapacityTypeLabelKey, capacity...),
	}
	return t
}

func podOn(node string, n int, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%s-%d", node, n)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}}}},
	}
}

func daemonOn(node string) *corev1.Pod {
	p := podOn(node, 0, "100m", "128Mi")
	p.Name, p.OwnerReferences = "agent-"+node, []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: ptr.To(true)}}
	return p
}

// podsOf a world: two on each node, and its agent.
func podsOf(w plan.World) []client.Object {
	var out []client.Object
	for _, n := range w.Nodes {
		out = append(out, podOn(n.Name, 1, "500m", "1Gi"), podOn(n.Name, 2, "250m", "512Mi"), daemonOn(n.Name))
	}
	return out
}

func documentOf(t *testing.T, w plan.World, prices priceList, objects ...client.Object) document {
	t.Helper()
	a := newApp()
	a.prices = prices
	m := &v1alpha1.Migration{Spec: v1alpha1.MigrationSpec{ClusterName: w.Cluster.Name}}
	d, err := a.document(t.Context(), fakeClient(t, refuseWrites(t), objects...), document{}, m, w, now)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func textOf(t *testing.T, d document) string {
	t.Helper()
	b, err := text(d, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestText(t *testing.T) {
	serves := fleet()
	serves.Pools, serves.Findings = serves.Pools[:3], nil
	few := fleet()
	few.Pools, few.Findings = few.Pools[:1], nil
	few.Groups[0].Tags, few.Groups[1].Tags = nil, nil
	var busy []client.Object
	for _, n := range few.Nodes {
		busy = append(busy, podOn(n.Name, 1, "1500m", "3Gi"))
	}
	huge := append(podsOf(serves), podOn("i-00", 9, "30", "1Gi"))
	refused := func(context.Context, inventory.Cluster, []string) (map[string]inventory.InstanceType, error) {
		return nil, denied("Pricing", "GetProducts")
	}
	cases := map[string]document{
		"plan-blocked.txt":   documentOf(t, fleet(), listed, podsOf(fleet())...),
		"plan-migrate.txt":   documentOf(t, serves, listed, podsOf(serves)...),
		"plan-stay.txt":      documentOf(t, few, listed, busy...),
		"plan-too-large.txt": documentOf(t, few, listed, huge...),
		"plan-no-prices.txt": documentOf(t, few, refused),
		"plan-no-pools.txt":  documentOf(t, plan.World{Cluster: few.Cluster, Home: "system"}, listed),
	}
	for name, d := range cases {
		t.Run(name, func(t *testing.T) { golden(t, name, textOf(t, d)) })
	}
}

func TestVerdictsOfTheFleet(t *testing.T) {
	for name, want := range map[string]string{
		"plan-blocked.txt": "migrate later", "plan-migrate.txt": "migrate", "plan-stay.txt": "stay on Cluster Autoscaler",
		"plan-too-large.txt": "migrate later", "plan-no-prices.txt": "migrate", "plan-no-pools.txt": "stay on Cluster Autoscaler", "plan-azure.txt": "stay on Cluster Autoscaler",
	} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "\nVerdict: "+want+"\n") {
			t.Errorf("%s: want the verdict %q", name, want)
		}
	}
}

// What is there to be read fits into 100 columns; what is there to be copied is left as it is.
func TestProseFitsTheTerminal(t *testing.T) {
	files, err := filepath.Glob("testdata/plan-*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(b), "\n") {
			if len([]rune(line)) > columns {
				t.Errorf("%s:%d has %d columns: %s", file, i+1, len([]rune(line)), line)
			}
			if strings.TrimRight(line, " ") != line {
				t.Errorf("%s:%d ends in a space", file, i+1)
			}
		}
	}
}

// A NodePool of the user's own may choose types in other ways: what it costs is then not known, and nothing is made of that.
func TestNodePoolsWithoutInstanceTypesAreNotCounted(t *testing.T) {
	w := fleet()
	w.Pools, w.Findings = w.Pools[:2], nil
	own := targetOf("batch", []string{"spot"})
	own.NodePool.Spec.Template.Spec.Requirements = own.NodePool.Spec.Template.Spec.Requirements[1:]
	w.Targets["batch"] = own
	d := documentOf(t, w, listed, podsOf(w)...)
	if diff := cmp.Diff([]string{"batch"}, d.NotCounted); diff != "" || d.Cost == nil || d.Cost.Unplaced != 0 || d.Verdict.Advice != cost.Migrate {
		t.Errorf("%s cost %+v, verdict %+v", diff, d.Cost, d.Verdict)
	}
	w.Targets["general"] = own
	if d = documentOf(t, w, listed, podsOf(w)...); d.Cost != nil || d.Verdict.Advice != cost.Migrate {
		t.Errorf("of nothing there is no sum: %+v, verdict %+v", d.Cost, d.Verdict)
	}
	if got := textOf(t, d); !strings.Contains(got, "Not counted, for lack of a NodePool that names its instance types: general, batch.") {
		t.Errorf("it is said:\n%s", got[:600])
	}
}

func TestPlanOfAnotherCloud(t *testing.T) {
	azure := node("aks-1")
	azure.Spec.ProviderID = "azure:///subscriptions/1/resourceGroups/rg"
	c := fakeClient(t, refuseWrites(t), azure)
	out, err := run(t, c, nil, "", "plan", "--cluster", "prod")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "plan-azure.txt", out)
	out, err = run(t, c, nil, "", "plan", "--cluster", "prod", "-o", "json")
	var d document
	if err != nil || json.Unmarshal([]byte(out), &d) != nil || d.Verdict == nil || d.Verdict.Advice != cost.Stay {
		t.Errorf("%v\n%s", err, out)
	}
	_, err = run(t, c, nil, "", "plan", "--cluster", "prod", "-o", "iam")
	if !strings.HasPrefix(message(err), "no IAM policy for a cluster that is not on AWS: The nodes run on Azure") {
		t.Errorf("got %v", err)
	}
}

func TestWrap(t *testing.T) {
	word := strings.Repeat("x", 49)
	cases := map[string]struct {
		reason, lead, in, want string
	}{
		"Short":     {"one line", "  - ", "a  b\n", "  - a b\n"},
		"Empty":     {"nothing but the end of the line", "  ", "", "\n"},
		"Exact":     {"100 columns fit", " ", word + " " + word, " " + word + " " + word + "\n"},
		"OneTooFar": {"101 do not", "- ", word + " " + word, "- " + word + "\n  " + word + "\n"},
		"LongWord":  {"a name that is too long stays whole", "", "a " + strings.Repeat(word, 3) + " b", "a\n" + strings.Repeat(word, 3) + "\nb\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &page{}
			p.wrap(tc.lead, tc.in)
			if diff := cmp.Diff(tc.want, p.String()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestColours(t *testing.T) {
	d := documentOf(t, fleet(), listed, podsOf(fleet())...)
	b, err := text(d, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[1mVerdict:\x1b[0m \x1b[33mmigrate later\x1b[0m", "\x1b[31mBlocks (1)\x1b[0m", "\x1b[33mWorth knowing (1)\x1b[0m", "\x1b[1mPreflight: 1 block, 1 accepted, 1 worth knowing.\x1b[0m"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("want %q", want)
		}
	}
	plain := string(b)
	for _, code := range []string{bold, red, green, yellow, "0"} {
		plain = strings.ReplaceAll(plain, "\x1b["+code+"m", "")
	}
	if diff := cmp.Diff(textOf(t, d), plain); diff != "" {
		t.Errorf("colours change nothing else: -without +with\n%s", diff)
	}
}

func TestColouredOnATerminalOnly(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "plan.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	device, err := os.Open(os.DevNull) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if coloured(&page{}) || coloured(file) || !coloured(device) {
		t.Errorf("a buffer %v, a file %v, a device %v", coloured(&page{}), coloured(file), coloured(device))
	}
	t.Setenv("NO_COLOR", "1")
	if coloured(device) {
		t.Error("NO_COLOR is respected")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if coloured(device) {
		t.Error("a dumb terminal has no colours")
	}
}

func TestManyTypesAreNotAllListed(t *testing.T) {
	p := &page{}
	var types []inventory.InstanceType
	for i := range 20 {
		types = append(types, inventory.InstanceType{Name: fmt.Sprintf("t%d.large", i)})
	}
	p.types(types)
	if got := p.String(); strings.Count(got, ".large") != mostTypes || !strings.HasSuffix(got, "   and 8 more: -o yaml lists them all.\n") {
		t.Errorf("got\n%s", got)
	}
	if !strings.Contains(p.String(), "t0.large       ?     ?    -          -") {
		t.Errorf("what is not known is not 0:\n%s", p)
	}
}

func TestBatch(t *testing.T) {
	cases := map[string]struct {
		v     *intstr.IntOrString
		nodes int
		want  int
	}{
		"Default": {nil, 25, 3}, "DefaultOfNone": {nil, 0, 1}, "Number": {ptr.To(intstr.FromInt32(4)), 25, 4},
		"Percentage": {ptr.To(intstr.FromString("50%")), 5, 3}, "NoNumber": {ptr.To(intstr.FromString("many")), 5, 1},
	}
	for name, tc := range cases {
		if got := batch(tc.v, tc.nodes); got != tc.want {
			t.Errorf("%s: want %d, got %d", name, tc.want, got)
		}
	}
}

func TestRunningPods(t *testing.T) {
	done, waiting, static := podOn("n", 1, "1", "1Gi"), podOn("", 2, "1", "1Gi"), podOn("n", 3, "10m", "1Mi")
	done.Status.Phase = corev1.PodSucceeded
	static.Name, static.Namespace, static.Annotations = "kube-proxy-n", "kube-system", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	sidecar := podOn("n", 4, "100m", "100Mi")
	sidecar.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: sidecar.Spec.Containers[0].Resources}}
	got, err := runningPods(t.Context(), fakeClient(t, interceptor.Funcs{}, done, waiting, static, sidecar, daemonOn("n")))
	if err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	want := []cost.Pod{
		{Node: "n", Requests: cost.Resources{MilliCPU: 10, Memory: mib, Pods: 1}, DaemonSet: "kube-system/kube-proxy"},
		{Node: "n", Requests: cost.Resources{MilliCPU: 100, Memory: 128 * mib, Pods: 1}, DaemonSet: "shop/agent"},
		{Node: "n", Requests: cost.Resources{MilliCPU: 200, Memory: 200 * mib, Pods: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("those that are finished or wait take no room; a sidecar counts: -want +got\n%s", diff)
	}
}

func TestRunningPodsInPages(t *testing.T) {
	asked := 0
	c := fakeClient(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		o := (&client.ListOptions{}).ApplyOptions(opts)
		if o.Limit != pageSize {
			t.Errorf("limit %d", o.Limit)
		}
		pods := list.(*corev1.PodList)
		asked++
		switch o.Continue {
		case "":
			pods.Items, pods.Continue = []corev1.Pod{*podOn("n", 1, "1", "1Gi")}, "next"
		case "next":
			pods.Items, pods.Continue = []corev1.Pod{*podOn("n", 2, "1", "1Gi")}, "last"
		default:
			return errors.New("gone")
		}
		return nil
	}})
	if _, err := runningPods(t.Context(), c); message(err) != "listing pods: gone" || asked != 3 {
		t.Errorf("%d pages, then %v", asked, err)
	}
}
