package watcher

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(text string) {
		t.Helper()
		if _, err := log.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"auditID":"before"}` + "\n")
	tail, err := openTail(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.file.Close()
	var got []string
	read := func() error { return tail.read(func(e AuditEvent) { got = append(got, e.AuditID) }) }
	for _, step := range []struct {
		reason string
		text   string
		want   []string
	}{
		{"It begins at the end.", "", nil},
		{"Half a line is kept.", `{"auditID":"a"}` + "\n" + `{"aud`, []string{"a"}},
		{"Until the rest comes.", `itID":"b"}` + "\n", []string{"a", "b"}},
	} {
		write(step.text)
		if err := read(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s\n-want +got:\n%s", step.reason, diff)
		}
	}
	write("no event\n")
	if err := read(); err == nil {
		t.Error("a line that is no event is an error")
	}
	if _, err := openTail(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is an error")
	}
}

func TestAuditEventsAreRead(t *testing.T) {
	line := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"7","stage":"ResponseComplete",
"requestURI":"/api/v1/namespaces/shop/pods/web-a/eviction","verb":"create","user":{"username":"system:serviceaccount:castoff-system:castoff"},
"objectRef":{"resource":"pods","namespace":"shop","name":"web-a","apiVersion":"v1","subresource":"eviction"},
"responseStatus":{"metadata":{},"status":"Success","code":201},"requestReceivedTimestamp":"2026-11-30T12:00:00.5Z","stageTimestamp":"2026-11-30T12:00:01.25Z"}`
	decoded, err := decode[AuditEvent]([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	event := *decoded.(*AuditEvent)
	story := shop(seen{1, pod("web", "web-b", "b", unready)}, seen{1.25, event}, seen{1.25, pod("web", "web-a", "a", leaving(1.25))})
	report := tell(t, 30, story...)
	if report.PDBViolations != 1 || report.CastoffAPICalls.Kubernetes != 1 {
		t.Errorf("a real line of the audit log: %+v, details %v", report, report.Details())
	}
}
