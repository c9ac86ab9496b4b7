package awsapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// digestLength keeps shortened names apart: 32 bits among the few clusters of an account.
const digestLength = 8

// Shorten returns the name, or where it is longer than limit bytes, its beginning and a digest of all of it. The names
// of AWS objects are ASCII. It is deterministic, so that a create that is repeated finds what the first one made.
func Shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:limit-digestLength-1] + "-" + hex.EncodeToString(sum[:])[:digestLength]
}

// LastSegment is what follows the last slash: the name in the ARN of a role, a policy or an instance profile.
func LastSegment(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

// Limits of names (API references of CreateQueue, PutRule and CreateRole). EKS allows cluster names of 100 characters.
const (
	maxQueueName = 80
	maxRuleName  = 64
	maxRoleName  = 64
)

// QueueName is the name of the cluster's interruption queue: the cluster's own, as far as SQS allows.
func QueueName(cluster string) string { return Shorten(cluster, maxQueueName) }

// RuleName is the name of the EventBridge rule that brings events of that kind to the cluster's queue.
func RuleName(cluster, kind string) string {
	return Shorten("castoff-"+cluster, maxRuleName-1-len(kind)) + "-" + kind
}

// RoleName is the name of an IAM role of the cluster.
func RoleName(prefix, cluster string) string { return Shorten(prefix+"-"+cluster, maxRoleName) }

// The kinds of events that Karpenter acts on, by what they warn of.
const (
	EventScheduledChange        = "health"
	EventSpotInterruption       = "spot"
	EventRebalance              = "rebalance"
	EventStateChange            = "state"
	EventReservationInterrupted = "reservation"
)

// EventKinds are all of them, in the order in which their rules are made and reported.
func EventKinds() []string {
	return []string{EventScheduledChange, EventSpotInterruption, EventRebalance, EventStateChange, EventReservationInterrupted}
}

// ARN names a regional object of the cluster's account.
func ARN(c inventory.Cluster, service, object string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", c.Partition, service, c.Region, c.Account, object)
}

// GlobalARN names an object of a service without regions, such as IAM.
func GlobalARN(c inventory.Cluster, service, object string) string {
	return fmt.Sprintf("arn:%s:%s::%s:%s", c.Partition, service, c.Account, object)
}

// OurTags mark what castoff makes for the cluster. The cluster is named by its ARN: IAM is global, and two regions may
// each have a cluster of that name.
func OurTags(c inventory.Cluster) map[string]string {
	return map[string]string{v1alpha1.TagManagedBy: v1alpha1.TagManagedByValue, v1alpha1.LabelCluster: c.ARN}
}
