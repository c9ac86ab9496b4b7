package inventory

import (
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// Target is what a pool becomes.
type Target struct {
	Pool      string             `json:"pool"`
	NodePool  karpv1.NodePool    `json:"nodePool"`
	NodeClass awsv1.EC2NodeClass `json:"nodeClass"`
	// NotCarried is what the node groups have and the target cannot express.
	NotCarried []NotCarried `json:"notCarried,omitempty"`
}

// NotCarried is a setting that translation could not carry over. Nothing is dropped in silence.
type NotCarried struct {
	NodeGroup string `json:"nodeGroup"`
	Field     string `json:"field"`
	Reason    string `json:"reason"`
	// Do says what the user can do about it.
	Do string `json:"do"`
}

// Finding is the result of a preflight check that did not pass.
type Finding struct {
	// Check is the check's reason constant, as acceptedRisks names it.
	Check    string            `json:"check"`
	Severity v1alpha1.Severity `json:"severity"` // Warn or Block
	// Object as kind/namespace/name or kind/name; acceptedRisks names it so.
	Object string `json:"object,omitempty"`
	Pool   string `json:"pool,omitempty"`
	// Workload is what owns the pods that the finding is about, as kind/namespace/name; empty where it is about none, or several.
	Workload string `json:"workload,omitempty"`
	// Message says what, why and what to do.
	Message string `json:"message"`
	// Accepted says that an accepted risk covers the finding, and AcceptedReason why.
	Accepted       bool   `json:"accepted,omitempty"`
	AcceptedReason string `json:"acceptedReason,omitempty"`
}

// Blocks says whether the finding stops the migration.
func (f Finding) Blocks() bool { return f.Severity == v1alpha1.SeverityBlock && !f.Accepted }
