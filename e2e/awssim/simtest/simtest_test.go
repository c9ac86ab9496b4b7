package simtest

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"
)

// Three queues are made in a row: whichever request is cut off, the ones before it are there, and its own only if it was the
// reply that was lost.
func TestEveryCrash(t *testing.T) {
	var seen []string
	requests := EveryCrash(t, func(t *testing.T, network *http.Client) (func(*testing.T), error) {
		w := Start(t)
		cut := w.Config
		cut.HTTPClient = network
		err := threeQueues(t.Context(), sqs.NewFromConfig(cut))
		return func(t *testing.T) {
			made, last := w.Writes(t, 0)
			seen = append(seen, fmt.Sprintf("%d made, failed %t", len(made), err != nil))
			if again, _ := w.Writes(t, last); len(again) != 0 {
				t.Errorf("after the last call: %v", again)
			}
		}, err
	})
	want := []string{
		"0 made, failed true", "1 made, failed true", "2 made, failed true", "3 made, failed false",
		"1 made, failed true", "2 made, failed true", "3 made, failed true", "3 made, failed false",
	}
	if diff := cmp.Diff(want, seen); diff != "" || requests != 3 {
		t.Errorf("%d requests; -want +got\n%s", requests, diff)
	}
}

func threeQueues(ctx context.Context, client *sqs.Client) error {
	for _, name := range []string{"a", "b", "c"} {
		if _, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(name)}); err != nil {
			return err
		}
	}
	return nil
}
