package snapshot

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

const runbook = "../../docs/runbooks/restore-by-hand.md"

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// reading is the part of the runbook that reads a snapshot, without the look at the Migration, which is not here.
func reading(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "\n## 2. ")
	section, _, ends := strings.Cut(after, "\n## 3. ")
	if !found || !ends {
		t.Fatalf("%s has no section 2 that reads the snapshot", runbook)
	}
	var script []string
	for _, block := range shellBlock.FindAllStringSubmatch(section, -1) {
		if !strings.Contains(block[1], "kubectl get migration") {
			script = append(script, block[1])
		}
	}
	if len(script) < 3 {
		t.Fatalf("section 2 of %s has %d blocks, want a copy, the reading and the table", runbook, len(script))
	}
	return strings.Join(script, "\n")
}

// kubeconfig is the API server's, for kubectl.
func kubeconfig(t *testing.T, dir string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: cluster.Config.Host, CertificateAuthorityData: cluster.Config.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: cluster.Config.CertData, ClientKeyData: cluster.Config.KeyData}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// follow runs a script as the runbook's reader would, but stops at the first failure.
func follow(t *testing.T, ns, script string) (dir, output string, err error) {
	t.Helper()
	for _, tool := range []string{"bash", "jq", "base64", "gunzip", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the runbook needs %s: %v", tool, err)
		}
	}
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "groups"), 0o700); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig(t, dir), "MIGRATION=prod", "NAMESPACE="+ns)
	text, err := shell.CombinedOutput()
	return dir, string(text), err
}

func TestTheRunbookReadsASnapshot(t *testing.T) {
	ns := namespace(t)
	snapshot := harbor(nodeGroup("General Purpose/1", 40), group("batch", 4), odd(1000))
	if _, err := New(cluster.Client, cluster.Client, ns).Save(t.Context(), "prod", snapshot); err != nil {
		t.Fatalf("Save: %v", err)
	}
	dir, output, err := follow(t, ns, reading(t))
	if err != nil {
		t.Fatalf("the runbook's commands failed: %v\n%s", err, output)
	}
	if strings.Count(output, ": OK\n") != 3 || !strings.Contains(output, "batch\tbatch\t1\t9\t4\n") || !strings.Contains(output, "kube-system/cluster-autoscaler, replicas 1") {
		t.Errorf("the groups, their digests and Cluster Autoscaler are to be shown:\n%s", output)
	}
	text, err := os.ReadFile(filepath.Join(dir, "groups.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got []inventory.GroupSnapshot
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	byName := func(a, b inventory.GroupSnapshot) int { return strings.Compare(a.Group.Name, b.Group.Name) }
	want := loaded(snapshot).Groups
	slices.SortFunc(want, byName)
	slices.SortFunc(got, byName)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a group too long for a Secret's text among them, -saved +read:\n%s", diff)
	}
}

func TestTheRunbookSeesDamage(t *testing.T) {
	tests := map[string]struct {
		reason string
		change func(*corev1.Secret)
		says   string
	}{
		"Edited":  {"a size that nobody recorded", edited(groupKey, "desired: 4", "desired: 400"), "FAILED"},
		"Missing": {"a Secret that is gone", nil, "not found"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, ns, _ := damaged(t, false, tc.change)
			_, output, err := follow(t, ns, reading(t))
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(output, tc.says) {
				t.Errorf("%s: %v\n%s", tc.reason, err, output)
			}
		})
	}
}

func TestTheRunbookIsShell(t *testing.T) {
	page, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlock.FindAllStringSubmatch(string(page), -1)
	if fences := strings.Count(string(page), "```"); len(blocks) < 10 || fences != 2*len(blocks) {
		t.Fatalf("%d blocks of shell in %d fences: each command of the page is one that the lab's test runs", len(blocks), fences)
	}
	for _, block := range blocks {
		if output, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", block[1]).CombinedOutput(); err != nil {
			t.Errorf("not to be run as it stands: %v\n%s\n%s", err, output, block[1])
		}
	}
}
