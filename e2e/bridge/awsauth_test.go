package bridge

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

const (
	nodesRole     = "arn:aws:iam::123456789012:role/nodes"
	nodesRow      = "- groups: [system:bootstrappers, system:nodes]\n  rolearn: " + nodesRole + "\n  username: system:node:{{EC2PrivateDNSName}}\n"
	karpentersRow = "# Karpenter's\n- rolearn: arn:aws:iam::123456789012:role/nodes-of-karpenter\n  groups:\n  - system:nodes\n"
)

func awsAuthWith(mapRoles string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth"}, Data: map[string]string{"mapRoles": mapRoles, "mapUsers": "[]\n"}}
}

func TestWithoutRole(t *testing.T) {
	indented := "  " + strings.TrimSuffix(strings.ReplaceAll(karpentersRow+nodesRow, "\n", "\n  "), "  ")
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"Alone":    {"nothing is left", nodesRow, ""},
		"First":    {"the next row's bytes stay", nodesRow + karpentersRow[strings.Index(karpentersRow, "-"):], karpentersRow[strings.Index(karpentersRow, "-"):]},
		"Last":     {"a comment above stays", karpentersRow + nodesRow, karpentersRow},
		"Twice":    {"both go", nodesRow + karpentersRow[strings.Index(karpentersRow, "-"):] + nodesRow, karpentersRow[strings.Index(karpentersRow, "-"):]},
		"Indented": {"lists inside a row begin none", indented, indented[:strings.Index(indented, "  - groups: [")]},
		"Another":  {"a name that begins alike is another role", karpentersRow, karpentersRow},
		"Broken":   {"what cannot be read is left", "- rolearn: [\n", "- rolearn: [\n"},
		"Nothing":  {"no rows", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, withoutRole(tc.text, nodesRole)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRoleThatEKSLetsGo: the row goes as soon as the simulator tells, and with the next resync if that failed.
func TestRoleThatEKSLetsGo(t *testing.T) {
	cases := map[string]struct {
		reason string
		fail   int // how many writes
		with   *corev1.ConfigMap
		want   string
	}{
		"AtOnce": {"EKS does it while it deletes the group", 0, awsAuthWith(karpentersRow + nodesRow), karpentersRow},
		"Again":  {"a write that fails is made again", 1, awsAuthWith(karpentersRow + nodesRow), karpentersRow},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			client := fake.NewClientset(tc.with)
			left := tc.fail
			client.PrependReactor("update", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
				left--
				return left >= 0, nil, errors.New("the object has been modified")
			})
			w := newWorld(t)
			run(t, newTestBridge(t, w, client))
			w.events <- simapi.Event{Time: time.Now(), RoleRemoved: &simapi.RoleRemoved{Cluster: "harbor", RoleARN: nodesRole}}
			g.Eventually(func(g Gomega) {
				got, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "aws-auth", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.Data).To(Equal(map[string]string{"mapRoles": tc.want, "mapUsers": "[]\n"}), tc.reason)
			}, patience, "20ms").Should(Succeed())
		})
	}
}

// TestRoleThatEKSLetsGoJoinsNoMore: from the event on, a node with that role stays out; without aws-auth nothing happens.
func TestRoleThatEKSLetsGoJoinsNoMore(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(awsAuthWith(nodesRow))
	w := newWorld(t, instance(func(i *simapi.Instance) { i.RoleAuthorised = false }))
	b := newTestBridge(t, w, client)
	b.withdraw(t.Context(), nodesRole)
	step(t.Context(), g, b)
	g.Expect(nodeNames(t.Context(), g, client)).To(BeEmpty())

	without := newTestBridge(t, w, fake.NewClientset())
	without.withdraw(t.Context(), nodesRole)
	g.Expect(without.withdrawn).To(BeEmpty())
}
