package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// start runs the command and returns its address and how to stop it; stopping returns what run returned.
func start(t *testing.T, args ...string) (string, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, append([]string{"--listen", "127.0.0.1:0"}, args...), in) }()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("no address: %v", err)
	}
	return strings.TrimSpace(address), func() error { cancel(); return <-ended }
}

func TestServes(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls.jsonl")
	address, stop := start(t, "--call-log", calls, "--lag", "3s", "--boot-delay", "7s", "--region", "eu-west-1")
	client := simapi.NewClient(address)
	if err := client.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	settings, err := client.Settings(t.Context())
	if err != nil || settings.Lag != 3*time.Second || settings.BootDelay != 7*time.Second || settings.PendingDelay == 0 {
		t.Errorf("the flags must set how the world behaves: %+v, %v", settings, err)
	}
	q := sqs.New(sqs.Options{Region: "eu-west-1", BaseEndpoint: aws.String(address), Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	queue, err := q.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
	if err != nil || !strings.HasPrefix(*queue.QueueUrl, "https://sqs.eu-west-1.") {
		t.Fatalf("queue %v, %v", queue, err)
	}

	polled := make(chan error, 1)
	go func() { // a long poll must not hold the stop up
		_, err := q.ReceiveMessage(context.WithoutCancel(t.Context()), &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, WaitTimeSeconds: 20})
		polled <- err
	}()
	streamed := make(chan error, 1)
	synced := make(chan struct{})
	go func() {
		streamed <- client.Events(t.Context(), func(simapi.Event) error { close(synced); return nil })
	}()
	<-synced
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if err := <-streamed; err == nil {
		t.Error("the stream must end with the simulator")
	}
	if err := <-polled; err != nil {
		t.Logf("the long poll ended with the simulator: %v", err)
	}
	log, err := os.ReadFile(calls)
	if err != nil || !strings.Contains(string(log), `"operation":"CreateQueue"`) {
		t.Errorf("the call log %q, %v", log, err)
	}
}

func TestRunRefuses(t *testing.T) {
	cases := map[string][]string{
		"an address that is none":      {"--listen", "nowhere"},
		"a flag that does not exist":   {"--moon"},
		"a log that cannot be written": {"--call-log", filepath.Join(t.TempDir(), "none", "calls.jsonl")},
		"a duration that is none":      {"--lag", "soon"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), args, io.Discard); err == nil {
				t.Error("must be refused")
			}
		})
	}
	if err := run(t.Context(), []string{"--help"}, io.Discard); err != nil {
		t.Errorf("asking for help is no error: %v", err)
	}
}
