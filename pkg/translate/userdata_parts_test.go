package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParts(t *testing.T) {
	one := func(mediaType, content string) []part { return []part{{mediaType: mediaType, content: content}} }
	cases := map[string]struct {
		reason, in string
		want       []part
	}{
		"Bare":           {"a script says so itself", "#!/bin/sh\necho\n", one(typeScript, "#!/bin/sh\necho\n")},
		"BareConfig":     {"so does a cloud-config", "#cloud-config\na: b\n", one(typeCloud, "#cloud-config\na: b\n")},
		"BareNodeConfig": {"and a NodeConfig", "apiVersion: \"node.eks.aws/v1alpha1\"\n", one(typeNodeConfig, "apiVersion: \"node.eks.aws/v1alpha1\"\n")},
		"BareText":       {"all else is a script for bootstrap.sh's sake", "echo hi", one(typeScript, "echo hi")},
		"Single":         {"a message that is no archive", "Content-Type: text/x-shellscript\n\necho\n", one("text/x-shellscript", "echo\n")},
		"Windows":        {"lines may end as Windows ends them", "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\nContent-Type: text/plain\r\n\r\nx\r\n--B--\r\n", one("text/plain", "x\n")},
		"Folded":         {"a header may go on in the next line", "MIME-Version: 1.0\nContent-Type: multipart/mixed;\n boundary=\"B\"\n\n--B\nContent-Type: text/plain\n\nx\n--B--\n", one("text/plain", "x\n")},
		"Preamble":       {"what comes before the first part, or after the last, is none", "Content-Type: multipart/mixed; boundary=B\n\nhello\n--B\nContent-Type: text/plain\n\nx\n--B--\nbye\n", one("text/plain", "x\n")},
		"NoType":         {"a part without a type says it itself", "Content-Type: multipart/mixed; boundary=B\n\n--B\n\n#cloud-config\n--B--\n", one(typeCloud, "#cloud-config\n")},
		"NoBlankLine":    {"EKS's own archives have none", "Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/x-shellscript\n#!/bin/sh\n--B--\n", one("text/x-shellscript", "#!/bin/sh\n")},
		"Empty":          {"an archive of nothing", "Content-Type: multipart/mixed; boundary=B\n\n--B--\n", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parts(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(part{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// What is written is read the same again.
func TestArchiveIsReadBack(t *testing.T) {
	want := []part{{mediaType: typeScript, content: "#!/bin/sh\necho 1\n"}, {mediaType: typeCloud, content: "#cloud-config\n"}, {mediaType: typeNodeConfig, content: "kind: NodeConfig\n"}}
	got, err := parts(archive(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(part{})); diff != "" {
		t.Errorf("-written +read\n%s", diff)
	}
	if got := archive(nil); got != "" {
		t.Errorf("nothing is written as %q", got)
	}
}

func TestOptions(t *testing.T) {
	cases := map[string]struct {
		reason, dashes string
		in             []string
		want           [][2]string
	}{
		"Both":        {"with and without =", "--", []string{"prod", "--a=1", "--b", "2", "--c"}, [][2]string{{"a", "1"}, {"b", "2"}, {"c", ""}}},
		"NoValue":     {"an option is no other option's value", "--", []string{"--a", "--b", "x"}, [][2]string{{"a", ""}, {"b", "x"}}},
		"PassedOn":    {"unless it is for the kubelet", "--", []string{"--kubelet-extra-args", "--v=4", "--b", "x"}, [][2]string{{"kubelet-extra-args", "--v=4"}, {"b", "x"}}},
		"SeveralWord": {"or has blanks", "--", []string{"--a", "--v=4 --w=5"}, [][2]string{{"a", "--v=4 --w=5"}}},
		"PowerShell":  {"one dash", "-", []string{"-EKSClusterName", "prod", "-KubeletExtraArgs", "--v=4"}, [][2]string{{"EKSClusterName", "prod"}, {"KubeletExtraArgs", "--v=4"}}},
		"Dashes":      {"dashes alone are no option", "--", []string{"--", "x"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got [][2]string
			for k, v := range options(tc.in, tc.dashes) {
				got = append(got, [2]string{k, v})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBottlerocketSettingsOfOddShapes(t *testing.T) {
	cases := map[string]struct {
		reason, in string
		want       []string
	}{
		"Labels":   {"labels that are no table", "[settings.kubernetes]\nnode-labels = 3\n", []string{"settings.kubernetes.node-labels"}},
		"Taints":   {"taints that are none", "[settings.kubernetes]\nnode-taints = [1]\n", []string{"settings.kubernetes.node-taints"}},
		"Taint":    {"a taint without an effect", "[settings.kubernetes.node-taints]\nk = \"v\"\n", []string{"taint k=v"}},
		"MaxPods":  {"a number that is none", "[settings.kubernetes]\nmax-pods = \"many\"\n", []string{"settings.kubernetes.max-pods"}},
		"Reserved": {"a resource that nobody reserves", "[settings.kubernetes.kube-reserved]\ngpu = \"1\"\n", []string{"settings.kubernetes.kube-reserved"}},
		"Fine":     {"nothing is odd here", "[settings.kubernetes]\nmax-pods = 3\ncluster-dns-ip = \"169.254.20.10\"\n", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := readUserData(tc.in)
			if u.broken != "" {
				t.Fatal(u.broken)
			}
			if diff := cmp.Diff(tc.want, u.rest); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if u.written() != "" {
				t.Errorf("%s: kept %q, want nothing", tc.reason, u.written())
			}
		})
	}
}
