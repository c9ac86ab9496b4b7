package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func local(c *inventory.Claim) {
	c.Local, c.Affinity = true, selector(expressions(corev1.LabelHostname, "ip-10-0-1-5"))
}

func selector(terms ...corev1.NodeSelectorTerm) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: terms}
}

func expressions(key string, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
}

func inZone(zone string) func(*inventory.Claim) {
	return func(c *inventory.Claim) { c.Affinity = selector(expressions("topology.ebs.csi.aws.com/zone", zone)) }
}

func shared(c *inventory.Claim) { c.Shared = true }

// stateful is a pod of the StatefulSet data with its own claim.
func stateful(ordinal string, change ...func(*inventory.Pod)) inventory.Pod {
	p := pod("data-"+ordinal, madeBy("StatefulSet", "data"), shaped(using("data-"+ordinal)))
	for _, c := range change {
		c(&p)
	}
	return p
}

func TestCase_C040_AVolumeOnTheNodeItselfBlocks(t *testing.T) {
	say := func(name string) inventory.Finding {
		return of("statefulset/shop/data", blocks(CheckLocalVolume, "persistentvolume/pv-"+name, "general", "The volume of claim shop/"+name+" is on node old itself, and pod/shop/"+name+
			" could start nowhere else: evicted, its next pod stays Pending until the claim is deleted. Move the data to a volume of the network and delete the claim; or accept that it is lost with the node, and delete claim and pod once it was evicted."))
	}
	testCheck(t, CheckLocalVolume, map[string]checkCase{
		"Local": {
			reason: "volume, claim and pod are named",
			in:     sound(pods(stateful("0")), claims(claim("data-0", local))),
			want:   []inventory.Finding{say("data-0")},
		},
		"Each": {
			reason: "each is somebody's data",
			in:     sound(pods(stateful("0"), stateful("1"), stateful("2")), claims(claim("data-0", local), claim("data-1"), claim("data-2", local))),
			want:   []inventory.Finding{say("data-0"), say("data-2")},
		},
		"Both": {
			reason: "two pods of one volume are one thing to mend",
			in:     sound(pods(stateful("0"), pod("data-9", madeBy("StatefulSet", "data"), shaped(using("data-0")))), claims(claim("data-0", local))),
			want:   []inventory.Finding{say("data-0")},
		},
		"Network":        {reason: "a volume of the network comes along", in: sound(pods(stateful("0")), claims(claim("data-0", inZone("us-east-1a"))))},
		"AtHome":         {reason: "its node stays", in: sound(pods(stateful("0", on("home"))), claims(claim("data-0", local)))},
		"Pending":        {reason: "a pod on no node holds none", in: sound(pods(stateful("0", on(""))), claims(claim("data-0", local)))},
		"Unused":         {reason: "a claim that no pod uses holds none", in: sound(claims(claim("data-0", local)))},
		"OtherNamespace": {reason: "a claim is one of its namespace", in: sound(pods(stateful("0", in("other"))), claims(claim("data-0", local)))},
	})
}

// zoned gives the pool's two groups their zones.
func zoned(a, b string) func(*Input) {
	return func(in *Input) {
		in.Groups[0].Zones = []string{a}
		in.Groups = append(in.Groups, inventory.NodeGroup{Name: "general-b", Zones: []string{b}})
	}
}

func TestZonalVolume(t *testing.T) {
	say := []inventory.Finding{of("statefulset/shop/data", blocks(CheckZonalVolume, "persistentvolume/pv-data-0", "general",
		"The volume of claim shop/data-0 is in us-east-1c, and no NodePool that takes pod/shop/data-0 launches there, but in us-east-1a, us-east-1b. Give a node group of pool general a subnet in that zone, or move the volume by a snapshot."))}
	of := func(zone string, change ...func(*Input)) Input {
		return sound(append([]func(*Input){pods(stateful("0")), claims(claim("data-0", inZone(zone))), targets(target("general"))}, change...)...)
	}
	batch := []func(*Input){zoned("us-east-1a", "us-east-1b"), pools("batch", "batch"), func(in *Input) {
		in.Groups = append(in.Groups, inventory.NodeGroup{Name: "batch", Zones: []string{"us-east-1c"}})
	}}
	testCheck(t, CheckZonalVolume, map[string]checkCase{
		"OtherZone":        {"Karpenter launches in the groups' subnets", of("us-east-1c", zoned("us-east-1a", "us-east-1b")), say},
		"SecondZone":       {"the pool's other group is there", of("us-east-1b", zoned("us-east-1a", "us-east-1b")), nil},
		"Requirement":      {"the NodePool narrows what its subnets would allow", of("us-east-1c", zoned("us-east-1a", "us-east-1c"), targets(target("general", inZones("us-east-1a", "us-east-1b")))), say},
		"Unknown":          {"zones that nobody read are no reason", of("us-east-1c"), nil},
		"OtherPool":        {"another pool's NodePool takes the pod there", of("us-east-1c", append(batch, targets(target("general"), target("batch")))...), nil},
		"OtherPoolRefuses": {"but not where it refuses the pod", of("us-east-1c", append(batch, targets(target("general"), target("batch", tainted("batch", "yes"))))...), say},
		"NoTarget":         {"without a NodePool that is another finding", of("us-east-1c", zoned("us-east-1a", "us-east-1b"), targets()), nil},
		"Local":            {"a local volume is another finding", sound(pods(stateful("0")), claims(claim("data-0", local)), targets(target("general")), zoned("us-east-1a", "us-east-1b")), nil},
	})
}

func TestVolumeZones(t *testing.T) {
	cases := map[string]struct {
		reason   string
		affinity *corev1.NodeSelector
		want     []string
	}{
		"None":      {"a volume that says nothing is everywhere", nil, nil},
		"EBS":       {"the driver's own label", selector(expressions("topology.ebs.csi.aws.com/zone", "a")), []string{"a"}},
		"Beta":      {"what was translated from the in-tree driver", selector(expressions(corev1.LabelFailureDomainBetaZone, "a")), []string{"a"}},
		"Terms":     {"terms are alternatives: a regional volume is in both", selector(expressions(corev1.LabelTopologyZone, "b"), expressions(corev1.LabelTopologyZone, "a")), []string{"a", "b"}},
		"OtherTerm": {"one term without a zone is everywhere", selector(expressions(corev1.LabelTopologyZone, "a"), expressions(corev1.LabelTopologyRegion, "r")), nil},
		"NotIn": {"an exclusion is no zone",
			selector(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}}}}), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, volumeZones(tc.affinity), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSingleNodeVolume(t *testing.T) {
	testCheck(t, CheckSingleNodeVolume, map[string]checkCase{
		"EBS": {"the StatefulSet is named, not its pods", sound(pods(stateful("0"), stateful("1")), claims(claim("data-0", inZone("a")), claim("data-1", inZone("a")))),
			[]inventory.Finding{warns(CheckSingleNodeVolume, "pool/general", "general", "A pod of these starts only after its volume has left the old node and come to the new one, about a minute: statefulset/shop/data. Migrate their pool when that is bearable.")}},
		"Shared": {"several nodes can have it at once", sound(pods(stateful("0")), claims(claim("data-0", shared))), nil},
		"Local":  {"it does not travel at all: that blocks", sound(pods(stateful("0")), claims(claim("data-0", local))), nil},
		"Unread": {"a claim that is bound to nothing that has a say", sound(pods(stateful("0"))), nil},
		"AtHome": {"it does not travel", sound(pods(stateful("0", on("home"))), claims(claim("data-0"))), nil},
	})
}

func TestNodeDisks(t *testing.T) {
	empty, path := func(s *inventory.Shape) { s.EmptyDir = true }, func(s *inventory.Shape) { s.HostPath = true }
	testCheck(t, CheckEmptyDir, map[string]checkCase{
		"Some": {"nearly every cluster has some: three are named", sound(pods(pod("a", madeBy("StatefulSet", "a"), shaped(empty)), pod("b", madeBy("StatefulSet", "b"), shaped(empty)), pod("c", madeBy("StatefulSet", "c"), shaped(empty)), pod("d", madeBy("StatefulSet", "d"), shaped(empty)))),
			[]inventory.Finding{warns(CheckEmptyDir, "pool/general", "general", "What these have in emptyDir volumes goes when their pods move: statefulset/shop/a, statefulset/shop/b, statefulset/shop/c and 1 more. Keep what matters in a PersistentVolumeClaim.")}},
		"None":   {"no such volume", sound(pods(pod("a", shaped(path)))), nil},
		"AtHome": {"nobody moves", sound(pods(pod("a", shaped(empty), on("home")))), nil},
	})
	testCheck(t, CheckHostPath, map[string]checkCase{
		"One": {"it stays behind", sound(pods(pod("a", shaped(path)))),
			[]inventory.Finding{warns(CheckHostPath, "pool/general", "general", "These use a directory of their node, which stays behind: replicaset/shop/web. See that they find on a new node what they need, and keep what matters in a PersistentVolumeClaim.")}},
		"None":      {"no such volume", sound(pods(pod("a", shaped(empty)))), nil},
		"DaemonSet": {"DaemonSets live off their node's directories, and stay", sound(pods(pod("a", daemon, shaped(path)))), nil},
	})
}
