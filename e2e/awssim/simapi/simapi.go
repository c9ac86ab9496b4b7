// Package simapi is the side door of the AWS simulator: what a test, the lab and its watcher may see and do
// that no AWS client could. The AWS API itself is spoken by real SDK clients on the same address.
//
// Everything here is the truth at this moment: it never lags and is never made to fail.
package simapi

import (
	"encoding/json"
	"time"
)

// Paths of the side door, relative to the simulator's address.
const (
	PathHealth    = "/_sim/healthz"   // GET: 200 once the simulator serves
	PathEvents    = "/_sim/events"    // GET: Event a line (JSON), every instance first, then changes as they happen
	PathCalls     = "/_sim/calls"     // GET: []Call, oldest first; ?after=SEQ leaves out those up to SEQ
	PathInstances = "/_sim/instances" // GET: []Instance, ended ones too
	PathGroups    = "/_sim/groups"    // GET: []Group
	PathSettings  = "/_sim/settings"  // GET, PUT: Settings
	PathFaults    = "/_sim/faults"    // GET: []Fault; POST: Fault, answers it with its ID; DELETE ?id=ID, or all without
	PathClock     = "/_sim/clock"     // POST: ClockStep moves the simulator's clock forward
	PathInterrupt = "/_sim/interrupt" // POST: Interrupt
	PathReset     = "/_sim/reset"     // POST: forget everything
	PathIdentity  = "/v1/credentials" // GET: EKS Pod Identity agent's endpoint (AWS_CONTAINER_CREDENTIALS_FULL_URI)
)

// Settings say how the simulated world behaves. Durations are nanoseconds in JSON.
type Settings struct {
	// Lag is for how long after a write the Describe calls of EC2, Auto Scaling and EKS still show the old world.
	Lag time.Duration `json:"lag"`
	// PendingDelay is how long an instance stays pending before it runs.
	PendingDelay time.Duration `json:"pendingDelay"`
	// BootDelay is how long a running instance takes before its Node joins (used by the node bridge).
	BootDelay time.Duration `json:"bootDelay"`
	// ShutdownDelay is how long an instance is shutting-down before it is terminated.
	ShutdownDelay time.Duration `json:"shutdownDelay"`
	// ScalingDelay is how long an Auto Scaling group or an EKS node group takes to act on a change.
	ScalingDelay time.Duration `json:"scalingDelay"`
}

// Instance is one EC2 instance and what the node bridge needs to know of it.
type Instance struct {
	ID               string            `json:"id"`
	Type             string            `json:"type"`
	Zone             string            `json:"zone"`
	Region           string            `json:"region"`
	State            string            `json:"state"` // pending, running, shutting-down, terminated
	PrivateIP        string            `json:"privateIP"`
	PrivateDNSName   string            `json:"privateDNSName"`
	ImageID          string            `json:"imageID"`
	Architecture     string            `json:"architecture"` // amd64, arm64
	SubnetID         string            `json:"subnetID"`
	SecurityGroupIDs []string          `json:"securityGroupIDs,omitempty"`
	UserData         string            `json:"userData,omitempty"` // decoded
	RoleARN          string            `json:"roleARN,omitempty"`  // of its instance profile
	RoleAuthorised   bool              `json:"roleAuthorised"`     // an access entry or an aws-auth row lets this role's nodes join
	Spot             bool              `json:"spot"`
	Cluster          string            `json:"cluster,omitempty"` // whose Node it becomes; empty: none
	AutoScalingGroup string            `json:"autoScalingGroup,omitempty"`
	NodeGroup        string            `json:"nodeGroup,omitempty"` // EKS managed node group
	Labels           map[string]string `json:"labels,omitempty"`    // of the managed node group
	Taints           []Taint           `json:"taints,omitempty"`    // of the managed node group
	Tags             map[string]string `json:"tags,omitempty"`
	MilliCPU         int64             `json:"milliCPU"`
	MemoryMiB        int64             `json:"memoryMiB"`
	MaxPods          int64             `json:"maxPods"`
	LaunchTime       time.Time         `json:"launchTime"`
	EndTime          time.Time         `json:"endTime,omitzero"`
	// EndedBy names who ended it and how: "<identity> <service>.<operation>", or the simulator's own reason.
	EndedBy string `json:"endedBy,omitempty"`
}

// Taint as Kubernetes writes it (effect NoSchedule, PreferNoSchedule or NoExecute).
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Group is an Auto Scaling group.
type Group struct {
	Name               string   `json:"name"`
	NodeGroup          string   `json:"nodeGroup,omitempty"`
	Min                int32    `json:"min"`
	Max                int32    `json:"max"`
	Desired            int32    `json:"desired"`
	InService          []string `json:"inService,omitempty"`
	SuspendedProcesses []string `json:"suspendedProcesses,omitempty"`
	Policies           []string `json:"policies,omitempty"` // "name" or "name (disabled)"
	ScheduledActions   []string `json:"scheduledActions,omitempty"`
}

// Call is one AWS request as the simulator saw it.
type Call struct {
	Seq       int64           `json:"seq"`
	Time      time.Time       `json:"time"`
	Service   string          `json:"service"`   // ec2, autoscaling, eks, iam, sts, sqs, events, ssm, pricing, monitoring, servicequotas
	Operation string          `json:"operation"` // as in the SDK: DescribeInstances
	Identity  string          `json:"identity"`  // the caller's ARN
	Input     json.RawMessage `json:"input,omitempty"`
	// Targets are the ARNs of what existed of that which the input names, with their tags, before the call.
	Targets   map[string]map[string]string `json:"targets,omitempty"`
	Status    int                          `json:"status"`
	ErrorCode string                       `json:"errorCode,omitempty"`
	Fault     string                       `json:"fault,omitempty"` // ID of the Fault that answered
	DryRun    bool                         `json:"dryRun,omitempty"`
	Write     bool                         `json:"write"` // not a read: changes the world when it succeeds
}

// Fault makes matching calls fail. Empty fields match everything.
type Fault struct {
	ID        string `json:"id,omitempty"`
	Service   string `json:"service,omitempty"`
	Operation string `json:"operation,omitempty"` // a trailing * matches a prefix
	Identity  string `json:"identity,omitempty"`  // a substring of the caller's ARN
	Contains  string `json:"contains,omitempty"`  // a substring of the decoded input's JSON
	// Code and Status are what the caller sees, e.g. Throttling 400, InternalFailure 500, AccessDenied 403.
	Code   string `json:"code"`
	Status int    `json:"status,omitempty"` // 400 when 0
	// After makes the effect first and loses the reply.
	After bool `json:"after,omitempty"`
	// Times is how many calls it fails; 0: until it is removed.
	Times int `json:"times,omitempty"`
	// InstanceType and Zone make it a capacity fault: launches of that type in that zone fail with Code, nothing else does.
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
}

// ClockStep moves the simulator's clock, so that schedules and alarms fire.
type ClockStep struct {
	By time.Duration `json:"by"`
}

// Interrupt says what happens to an instance from outside.
type Interrupt struct {
	InstanceID string        `json:"instanceID"`
	Kind       string        `json:"kind"` // spot-warning (ended two minutes later unless EndAfter says otherwise), rebalance, terminate, unhealthy
	EndAfter   time.Duration `json:"endAfter,omitempty"`
}

// Event is a line of PathEvents: exactly one field but Time is set.
type Event struct {
	Time     time.Time `json:"time"`
	Instance *Instance `json:"instance,omitempty"`
	Synced   bool      `json:"synced,omitempty"` // the first listing is over
	// RoleRemoved is told once: whoever was not connected then does not hear of it.
	RoleRemoved *RoleRemoved `json:"roleRemoved,omitempty"`
}

// RoleRemoved says that EKS let go of a node role, with the last managed node group that used it. EKS takes its row out of
// the ConfigMap aws-auth too, whoever wrote it; that is in the cluster, where the simulator cannot reach.
type RoleRemoved struct {
	Cluster string `json:"cluster"`
	RoleARN string `json:"roleARN"`
}
