package translate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// What nobody planned for has a name: an error that says what to mend, or an entry of the list. Never a guess.
func TestBadInputIsNamed(t *testing.T) {
	types := func(names ...string) func(*inventory.NodeGroup) {
		return func(g *inventory.NodeGroup) {
			g.MixedInstances = &inventory.MixedInstances{OnDemandPercentage: 100}
			for _, name := range names {
				g.MixedInstances.Overrides = append(g.MixedInstances.Overrides, inventory.Override{InstanceType: name})
			}
		}
	}
	gone := func(lt inventory.LaunchTemplate) func(*inventory.NodeGroup) {
		return func(g *inventory.NodeGroup) { g.LaunchTemplate = lt }
	}
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		err    string // part of the error, else
		listed string // a field of the list, with its reason
	}{
		"TemplateGone":      {"deleted, and the group can launch nothing", plain(gone(inventory.LaunchTemplate{ID: "lt-1", Name: "nodes", Asked: "$Latest"})), "its launch template lt-1 nodes has no version $Latest", ""},
		"VersionGone":       {"a version that was deleted", plain(gone(inventory.LaunchTemplate{Name: "nodes", Asked: "12"})), "nodes has no version 12; name one that exists", ""},
		"ConfigurationGone": {"an old one", plain(gone(inventory.LaunchTemplate{Configuration: "v1"})), "its launch configuration v1 does not exist", ""},
		"BinaryUserData":    {"no text", plain(withUserData("\x00\x01\x02\xff")), "the user data of node group asg cannot be carried over: it is not text", ""},
		"Latin1UserData":    {"no UTF-8 either", plain(withUserData("#!/bin/sh\necho \xe9t\xe9\n")), "it is not text", ""},
		"NothingAtAll":      {"no nodes, no tags, no sizes, no template", inventory.NodeGroup{Name: "asg", AutoScalingGroup: "asg"}, "no instance type could be read", ""},
		"NoNodesNoTags":     {"all that its template says is enough", plain(func(g *inventory.NodeGroup) { g.Max = 0 }), "", "maxSize 0: The pool's groups may have no node at all; the NodePool has no limit."},
		"UnknownType":       {"a slip of the pen in one of the overrides", plain(types("m5.large", "m5.lrage")), "", "instance type m5.lrage: EC2 does not know it in this region: neither the group nor Karpenter can launch one."},
		"UnknownTypes":      {"all of them: no limit is made up", plain(types("z9.huge"), func(g *inventory.NodeGroup) { g.Types = nil }), "", "maxSize 5: A NodePool is limited by resources, not by a number of nodes, and what the group's instance types have is not known; none is set."},
		"UnknownAMIType":    {"EKS has a new one", managed("AL2030_x86_64", "1.40.0-20300101", template(func(lt *inventory.LaunchTemplate) { lt.ImageID = "" })), `EKS's AMI type "AL2030_x86_64" is not known`, ""},
		"UnknownImage":      {"an image of somebody's own, that says nothing of how it joins", plain(template(func(lt *inventory.LaunchTemplate) { lt.Image.Name = "golden-2026" })), "", "imageId ami-1: castoff does not know how instances of this image join a cluster."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target, err := Pool(cluster, inventory.Pool{Name: "general", NodeGroups: []string{"asg"}}, []inventory.NodeGroup{tc.group}, "role")
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || inventory.ClassOf(err) != inventory.ClassTerminal {
					t.Fatalf("%s: %v (%s), want a terminal error with %q", tc.reason, err, inventory.ClassOf(err), tc.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			validates(t, target)
			for _, n := range target.NotCarried {
				if n.Field+": "+n.Reason == tc.listed && n.Do != "" {
					return
				}
			}
			t.Errorf("%s: %q is not among %+v", tc.reason, tc.listed, target.NotCarried)
		})
	}
}

// Auto Scaling allows 255 characters of nearly any kind; the API server does not.
func TestNamesOf255Characters(t *testing.T) {
	for name, raw := range map[string]string{
		"Letters": strings.Repeat("n", 255), "Blanks": strings.Repeat("a b/", 64)[:255], "Dashes": strings.Repeat("-", 255), "Umlauts": strings.Repeat("ü", 127),
	} {
		t.Run(name, func(t *testing.T) {
			target := translated(t, plain(named(raw)), managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) { g.Name = raw + "2" }))
			if got := target.NodePool.Annotations[annotationGroups]; got != raw+", "+raw+"2" {
				t.Errorf("the annotation has the names in full, not %q", got)
			}
			for k, v := range target.NodePool.Spec.Template.Labels {
				if problems := validation.IsValidLabelValue(v); len(problems) > 0 {
					t.Errorf("label %s=%s: %v", k, v, problems)
				}
			}
		})
	}
}
