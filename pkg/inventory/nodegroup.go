package inventory

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NodeGroup is capacity that Cluster Autoscaler scales: an Auto Scaling group, or an EKS managed node group with the
// Auto Scaling group that it owns. Sizes are always those of the Auto Scaling group.
type NodeGroup struct {
	// Name is what the user calls it: the managed node group's name, else the Auto Scaling group's.
	Name string `json:"name"`
	// AutoScalingGroup is the name of the Auto Scaling group; Cluster Autoscaler knows the group by it.
	AutoScalingGroup string `json:"autoScalingGroup"`
	ARN              string `json:"arn,omitempty"`
	Min              int32  `json:"min"`
	Max              int32  `json:"max"`
	Desired          int32  `json:"desired"`

	Instances []Instance `json:"instances,omitempty"`
	Subnets   []string   `json:"subnets,omitempty"`
	Zones     []string   `json:"zones,omitempty"`
	Tags      []Tag      `json:"tags,omitempty"`

	// LaunchTemplate is the template in force, resolved to a numbered version.
	LaunchTemplate LaunchTemplate `json:"launchTemplate"`
	// Types are the sizes of the instance types that the group may launch, without prices; those that EC2 does not know are missing.
	Types []InstanceType `json:"types,omitempty"`
	// NodeLabels are the labels that all of its nodes have; nil where it has no node, or they were not looked at.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// Tainted says that every node of it has a taint that keeps pods away for good, whatever the group's own settings say.
	Tainted bool `json:"tainted,omitempty"`
	// MixedInstances is nil for a group of one instance type.
	MixedInstances *MixedInstances `json:"mixedInstances,omitempty"`
	// Managed is nil for a group that EKS does not manage.
	Managed *ManagedNodeGroup `json:"managed,omitempty"`

	SuspendedProcesses  []string          `json:"suspendedProcesses,omitempty"`
	ScalingPolicies     []ScalingPolicy   `json:"scalingPolicies,omitempty"`
	ScheduledActions    []ScheduledAction `json:"scheduledActions,omitempty"`
	LifecycleHooks      []LifecycleHook   `json:"lifecycleHooks,omitempty"`
	CapacityRebalance   bool              `json:"capacityRebalance,omitempty"`
	MaxInstanceLifetime int32             `json:"maxInstanceLifetimeSeconds,omitempty"`
	// CapacityUnit is what the sizes count, in Auto Scaling's words: vcpu, memory-mib, or units (instances, or their weights) and empty.
	CapacityUnit string `json:"capacityUnit,omitempty"`
	// NewInstancesProtected is the group's own scale-in protection for instances to come.
	NewInstancesProtected bool `json:"newInstancesProtected,omitempty"`
	WarmPool              bool `json:"warmPool,omitempty"`
	// DeletionProtection is Auto Scaling's: none, prevent-force-deletion, prevent-all-deletion; empty is none.
	DeletionProtection string `json:"deletionProtection,omitempty"`
	// RetainsInstances says that an instance lifecycle policy keeps instances whose termination hook was abandoned.
	RetainsInstances bool `json:"retainsInstances,omitempty"`
	// InstanceRefresh is the status of a refresh that has not ended, else empty.
	InstanceRefresh string `json:"instanceRefresh,omitempty"`
	// InstanceRefreshHeld is the status and id of a refresh that has not ended while the process InstanceRefresh is suspended, so that
	// it replaces nothing; looked at every minute or so.
	InstanceRefreshHeld string `json:"-"`
	// ScalingCause is what Auto Scaling says of why an instance came, for people to read; empty while none has come since the first look.
	ScalingCause string `json:"-"`
	// LaunchError is the message of the last scaling activity when that failed, for people to read.
	LaunchError string `json:"launchError,omitempty"`
}

// Tag of an Auto Scaling group.
type Tag struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Propagate bool   `json:"propagateAtLaunch,omitempty"`
}

// Instance is a member of an Auto Scaling group.
type Instance struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Zone      string `json:"zone"`
	Lifecycle string `json:"lifecycle"` // Auto Scaling's LifecycleState, e.g. InService, Terminating:Wait
	Healthy   bool   `json:"healthy"`
	Protected bool   `json:"protected,omitempty"` // from scale-in
	// TemplateVersion is the number of the launch template's version that it was launched from; empty with a launch configuration.
	TemplateVersion string `json:"templateVersion,omitempty"`
}

// InService says whether Auto Scaling counts the instance as serving.
func (i Instance) InService() bool { return i.Lifecycle == "InService" }

// LaunchTemplate is what an instance of the group is launched with. Sizes are GiB, throughput MiB/s.
type LaunchTemplate struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"` // always a number
	// Asked is the version as the group names it: a number, $Latest or $Default.
	Asked string `json:"asked,omitempty"`
	// Configuration is the name of a launch configuration, when the group has one instead of a template.
	Configuration string `json:"configuration,omitempty"`

	InstanceType        string        `json:"instanceType,omitempty"`
	ImageID             string        `json:"imageID,omitempty"`
	Image               *Image        `json:"image,omitempty"`
	UserData            string        `json:"-"` // decoded; never written to a snapshot or a log
	UserDataSHA256      string        `json:"userDataSHA256,omitempty"`
	SecurityGroups      []string      `json:"securityGroups,omitempty"`
	InstanceProfile     string        `json:"instanceProfile,omitempty"` // name
	Role                string        `json:"role,omitempty"`            // name of the profile's role
	AssociatePublicIP   *bool         `json:"associatePublicIP,omitempty"`
	BlockDevices        []BlockDevice `json:"blockDevices,omitempty"`
	Metadata            *Metadata     `json:"metadata,omitempty"`
	DetailedMonitoring  *bool         `json:"detailedMonitoring,omitempty"`
	EBSOptimized        *bool         `json:"ebsOptimized,omitempty"`
	KeyName             string        `json:"keyName,omitempty"`
	Spot                bool          `json:"spot,omitempty"` // the template itself asks for spot
	Tenancy             string        `json:"tenancy,omitempty"`
	PlacementGroup      string        `json:"placementGroup,omitempty"`
	CapacityReservation string        `json:"capacityReservation,omitempty"`
	// NetworkInterfaces are all of the template's, the first one too; empty where it leaves them to EC2.
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`
	// Tags are those of the template's tag specification for instances.
	Tags map[string]string `json:"tags,omitempty"`
	// Other names the fields that are set and that castoff does not know, so that none is dropped in silence.
	Other []string `json:"other,omitempty"`
}

// NetworkInterface is one interface of a launch template.
type NetworkInterface struct {
	Card   int32  `json:"card"`
	Device int32  `json:"device"`
	Type   string `json:"type,omitempty"` // interface, efa, efa-only; empty is interface
}

// Image is an AMI.
type Image struct {
	ID           string `json:"id"`
	Name         string `json:"name,omitempty"`
	Owner        string `json:"owner,omitempty"`        // account ID
	Architecture string `json:"architecture,omitempty"` // x86_64, arm64
	RootDevice   string `json:"rootDevice,omitempty"`
}

// BlockDevice is one mapping of a launch template.
type BlockDevice struct {
	DeviceName          string `json:"deviceName"`
	SizeGiB             int32  `json:"sizeGiB,omitempty"`
	Type                string `json:"type,omitempty"`
	IOPS                int32  `json:"iops,omitempty"`
	ThroughputMiBs      int32  `json:"throughputMiBs,omitempty"`
	KMSKey              string `json:"kmsKey,omitempty"`
	SnapshotID          string `json:"snapshotID,omitempty"`
	Encrypted           *bool  `json:"encrypted,omitempty"`
	DeleteOnTermination *bool  `json:"deleteOnTermination,omitempty"`
	Virtual             string `json:"virtual,omitempty"` // instance store name
}

// Metadata is the instance metadata service's options.
type Metadata struct {
	Endpoint string `json:"endpoint,omitempty"` // enabled, disabled
	IPv6     string `json:"ipv6,omitempty"`
	HopLimit int32  `json:"hopLimit,omitempty"`
	Tokens   string `json:"tokens,omitempty"` // required, optional
	Tags     string `json:"tags,omitempty"`
}

// MixedInstances is a mixed instances policy.
type MixedInstances struct {
	Overrides          []Override `json:"overrides,omitempty"`
	OnDemandBase       int32      `json:"onDemandBase,omitempty"`
	OnDemandPercentage int32      `json:"onDemandPercentageAboveBase"`
	OnDemandStrategy   string     `json:"onDemandStrategy,omitempty"`
	SpotStrategy       string     `json:"spotStrategy,omitempty"`
	SpotMaxPrice       string     `json:"spotMaxPrice,omitempty"`
}

// Override is one line of a mixed instances policy.
type Override struct {
	InstanceType string `json:"instanceType,omitempty"`
	Weight       string `json:"weight,omitempty"`
	// Requirements says that the override picks types by attributes; Types are those that EC2 answers for them.
	Requirements bool     `json:"requirements,omitempty"`
	Types        []string `json:"types,omitempty"`
}

// ManagedNodeGroup is what EKS knows of a node group beyond its Auto Scaling group.
type ManagedNodeGroup struct {
	Status         string            `json:"status"` // ACTIVE, UPDATING, …
	AMIType        string            `json:"amiType,omitempty"`
	ReleaseVersion string            `json:"releaseVersion,omitempty"`
	Version        string            `json:"version,omitempty"`
	CapacityType   string            `json:"capacityType,omitempty"` // ON_DEMAND, SPOT, CAPACITY_BLOCK
	InstanceTypes  []string          `json:"instanceTypes,omitempty"`
	DiskSizeGiB    int32             `json:"diskSizeGiB,omitempty"`
	NodeRole       string            `json:"nodeRole,omitempty"` // name
	Labels         map[string]string `json:"labels,omitempty"`
	Taints         []corev1.Taint    `json:"taints,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
	// OwnLaunchTemplate says that the user gave the group a launch template; else EKS made it.
	OwnLaunchTemplate bool `json:"ownLaunchTemplate,omitempty"`
	// Repair says that EKS repairs the group's nodes.
	Repair bool `json:"repair,omitempty"`
	// HealthIssues are EKS's own codes.
	HealthIssues []string `json:"healthIssues,omitempty"`
}

// ScalingPolicy of an Auto Scaling group. Policies are disabled, not deleted, so that their alarms keep their target.
type ScalingPolicy struct {
	Name    string `json:"name"`
	ARN     string `json:"arn,omitempty"`
	Type    string `json:"type"` // TargetTrackingScaling, StepScaling, SimpleScaling, PredictiveScaling
	Enabled bool   `json:"enabled"`
	// Active says whether the policy can change the group's size now: enabled, and not a predictive one that only forecasts.
	Active bool     `json:"active"`
	Alarms []string `json:"alarms,omitempty"`
	// Definition is the policy as AWS describes it, to put it back.
	Definition map[string]any `json:"definition,omitempty"`
}

// ScheduledAction of an Auto Scaling group. Sizes are nil where the action leaves them alone.
type ScheduledAction struct {
	Name       string     `json:"name"`
	Recurrence string     `json:"recurrence,omitempty"`
	TimeZone   string     `json:"timeZone,omitempty"`
	Start      *time.Time `json:"start,omitempty"`
	End        *time.Time `json:"end,omitempty"`
	Min        *int32     `json:"min,omitempty"`
	Max        *int32     `json:"max,omitempty"`
	Desired    *int32     `json:"desired,omitempty"`
}

// LifecycleHook of an Auto Scaling group.
type LifecycleHook struct {
	Name             string `json:"name"`
	Transition       string `json:"transition"`
	HeartbeatSeconds int32  `json:"heartbeatSeconds,omitempty"`
	DefaultResult    string `json:"defaultResult,omitempty"`
	NotificationARN  string `json:"notificationARN,omitempty"`
	RoleARN          string `json:"roleARN,omitempty"`
	Metadata         string `json:"metadata,omitempty"`
}

// InService counts the instances that serve.
func (g NodeGroup) InService() int {
	n := 0
	for _, i := range g.Instances {
		if i.InService() {
			n++
		}
	}
	return n
}

// Empty says that no instance is left, whatever state it would be in.
func (g NodeGroup) Empty() bool { return len(g.Instances) == 0 }

// Has says whether the instance is a member of the group, in whatever state.
func (g NodeGroup) Has(instanceID string) bool {
	return slices.ContainsFunc(g.Instances, func(i Instance) bool { return i.ID == instanceID })
}

// Tag returns the value of a tag and whether it is there.
func (g NodeGroup) Tag(key string) (string, bool) {
	for _, t := range g.Tags {
		if t.Key == key {
			return t.Value, true
		}
	}
	return "", false
}

// Owner names who else keeps the group, by the tags of Terraform (by convention), CloudFormation and eksctl, or by the user's
// own word in the tag castoff.sh/owner; empty: nobody is known to. What the next apply would put back is not castoff's to delete.
func (g NodeGroup) Owner() string {
	tags := map[string]string{}
	for _, t := range g.Tags {
		tags[t.Key] = t.Value
	}
	if g.Managed != nil {
		maps.Copy(tags, g.Managed.Tags)
	}
	switch {
	case tags["castoff.sh/owner"] != "":
		return tags["castoff.sh/owner"]
	case tags["alpha.eksctl.io/nodegroup-name"] != "":
		return "eksctl (nodegroup " + tags["alpha.eksctl.io/nodegroup-name"] + ")"
	case tags["aws:cloudformation:stack-name"] != "":
		return "CloudFormation (stack " + tags["aws:cloudformation:stack-name"] + ")"
	}
	for key, value := range tags {
		if strings.EqualFold(key, "terraform") || (strings.EqualFold(value, "terraform") && strings.Contains(strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key)), "managedby")) {
			return "Terraform"
		}
	}
	return ""
}

// Suspends says whether every one of the processes is suspended.
func (g NodeGroup) Suspends(processes ...string) bool {
	for _, p := range processes {
		if !slices.Contains(g.SuspendedProcesses, p) {
			return false
		}
	}
	return true
}
