//go:build lab && long

package lab_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/castoff-sh/castoff/e2e/lab/process"
)

// stockStages is how kwok ends pods by itself: as soon as they are to go, with a delete for each of the two updates that
// it sees, by name. Its nodes' stages are left out: the lab's kwok keeps the nodes.
const stockStages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
  next: {delete: true}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: no-node}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector: {matchLabels: {example.com/none: none}}
  next: {statusTemplate: ""}
`

// TestStockKwokKillsARecreatedPod is the known-bad variant of TestRecreatedPodIsNeverKilledByASecondDelete: with kwok's
// own way to end pods beside the lab's, some pod ends that nobody asked to go. One in ten to thirty does; five hundred
// are tried at most.
func TestStockKwokKillsARecreatedPod(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "kwok.yaml")
	if err := os.WriteFile(config, []byte(stockStages), 0o600); err != nil {
		t.Fatal(err)
	}
	stock, err := process.Start(process.Options{
		Name: "stock-kwok", Path: filepath.Join(binDir(), "kwok"), Env: []string{"HOME=" + dir}, LogFile: filepath.Join(dir, "kwok.log"),
		Args: []string{
			"--kubeconfig=" + shared.Kubeconfig, "--config=" + config,
			"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=0",
			"--node-port=0", // no server: it would listen on every interface
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stock.Kill)
	r := startRecreation(t)
	r.replace(500, 1)
	t.Logf("%d pods were asked to go, %d went unasked", len(r.asked), len(r.unasked()))
	if len(r.unasked()) == 0 {
		t.Errorf("kwok's second delete hit no pod: the test beside it would not notice one; kwok's log ends:\n%s", stock.Tail(20))
	}
}
