package inventory

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The tools that keep a Cluster Autoscaler as it is written down elsewhere. What Autoscaler.Owner says begins with one of them
// where the tool is known.
const (
	OwnerArgoCD        = "Argo CD application"
	OwnerKustomization = "Flux Kustomization"
	OwnerHelmRelease   = "Flux HelmRelease"
	OwnerFleet         = "Rancher Fleet bundle"
	OwnerHelm          = "Helm release"
	OwnerKapp          = "kapp application"
)

// KindDeployment is the kind of workload that castoff can stop and start.
const KindDeployment = "Deployment"

// Autoscaler is one Cluster Autoscaler, as found by its image and arguments.
type Autoscaler struct {
	// Deployment is its namespace and name. Kind says what it is; empty is a Deployment. Others (StatefulSet, DaemonSet, ReplicaSet,
	// Pod, what else has pods) are found and named, but castoff neither stops nor starts them.
	Deployment types.NamespacedName `json:"deployment"`
	Kind       string               `json:"kind,omitempty"`
	UID        types.UID            `json:"uid,omitempty"`
	Image      string               `json:"image"`
	Args       []string             `json:"args,omitempty"`
	// Replicas asked for, reported, and the pods of the Deployment that still exist, terminating ones too.
	Replicas       int32 `json:"replicas"`
	StatusReplicas int32 `json:"statusReplicas"`
	Pods           int   `json:"pods"`
	// Nodes that its pods run on.
	Nodes []string `json:"nodes,omitempty"`

	// Discovery is the tags of each --node-group-auto-discovery=asg:tag= flag: keys and key=value pairs, separated by commas.
	Discovery []string `json:"discovery,omitempty"`
	// Static are the group names of --nodes=min:max:name.
	Static []string `json:"static,omitempty"`
	// LeaderElect is false with --leader-elect=false.
	LeaderElect bool `json:"leaderElect"`
	// Lease is the leader-election Lease: --namespace and --leader-elect-resource-name.
	Lease types.NamespacedName `json:"lease"`
	// LeaseHolder and LeaseRenewed are what the Lease says; empty when there is none.
	LeaseHolder   string        `json:"leaseHolder,omitempty"`
	LeaseRenewed  time.Time     `json:"leaseRenewed,omitzero"`
	LeaseDuration time.Duration `json:"leaseDuration,omitempty"`
	// Groups are the Auto Scaling groups that its status ConfigMap lists, and StatusTime when it was written.
	Groups     []string  `json:"groups,omitempty"`
	StatusTime time.Time `json:"statusTime,omitzero"`
	// HPA is the HorizontalPodAutoscaler that scales the Deployment, if one does; it rests while replicas is 0 (Kubernetes,
	// "Horizontal Pod Autoscaling", implicit maintenance-mode deactivation).
	HPA *HorizontalAutoscaler `json:"hpa,omitempty"`
	// Priorities of the priority expander (ConfigMap cluster-autoscaler-priority-expander): regular expressions for names of
	// groups, by priority; nil where that expander is not in use.
	Priorities map[int32][]string `json:"priorities,omitempty"`
	// Owner names who would put the Deployment back: "Argo CD application x", "Helm release y", or empty.
	Owner string `json:"owner,omitempty"`
	// ChangedBy and LeaseBy are the field managers that wrote the Deployment and its Lease last, castoff aside; empty if not known.
	ChangedBy string `json:"-"`
	LeaseBy   string `json:"-"`
	// Notes are what of it could not be read, for people.
	Notes []string `json:"notes,omitempty"`
}

// HorizontalAutoscaler is a HorizontalPodAutoscaler as far as it sets replicas.
type HorizontalAutoscaler struct {
	Name string `json:"name"`
	Min  int32  `json:"min"`
	Max  int32  `json:"max"`
	// ScaledObject is the name of the KEDA object that made it, and that scales up from 0 by itself; empty without KEDA.
	ScaledObject string `json:"scaledObject,omitempty"`
}

// TerminationHandler is an aws-node-termination-handler, which Karpenter's interruption queue replaces.
type TerminationHandler struct {
	Kind     string               `json:"kind"` // DaemonSet or Deployment
	Workload types.NamespacedName `json:"workload"`
	UID      types.UID            `json:"uid,omitempty"`
	// Owner names who would put it back: "Argo CD application x", "Helm release y", or empty.
	Owner string `json:"owner,omitempty"`
}

// Object names it as reports, blockers and accepted risks do: kind/namespace/name.
func (a Autoscaler) Object() string {
	return strings.ToLower(cmp.Or(a.Kind, KindDeployment)) + "/" + a.Deployment.String()
}

// Scalable says that castoff can stop and start it: that it is a Deployment.
func (a Autoscaler) Scalable() bool { return cmp.Or(a.Kind, KindDeployment) == KindDeployment }

// StopByHand is the command that stops what castoff does not: what has replicas is scaled to 0, the rest deleted.
func (a Autoscaler) StopByHand() string {
	kind, _, _ := strings.Cut(a.Object(), "/")
	object := kind + "/" + a.Deployment.Name + " -n " + a.Deployment.Namespace
	switch kind {
	case "daemonset", "pod", "job":
		return "kubectl delete " + object
	default:
		return "kubectl scale " + object + " --replicas=0"
	}
}

// tagVersion is the version in an image's tag, with or without its v.
var tagVersion = regexp.MustCompile(`^[^:@]*:v?(\d+)\.(\d+)`)

// KeepsToRecord says that a standby waits for as long as the Lease's own record says: that of 1.27 and later does (client-go 0.27),
// an older one takes a Lease that was not renewed for 15 s. A version that the image does not tell counts as old.
func (a Autoscaler) KeepsToRecord() bool {
	v := tagVersion.FindStringSubmatch(a.Image[strings.LastIndex(a.Image, "/")+1:])
	if v == nil {
		return false
	}
	major, err := strconv.Atoi(v[1])
	minor, err2 := strconv.Atoi(v[2])
	return err == nil && err2 == nil && (major > 1 || minor >= 27)
}

// Stopped says that nothing of the Deployment runs, and that none is asked for.
func (a Autoscaler) Stopped() bool { return a.Replicas == 0 && a.StatusReplicas == 0 && a.Pods == 0 }

// GroupsUnknown says why nobody can tell which groups it scales; empty: its arguments tell.
func (a Autoscaler) GroupsUnknown() string {
	all := slices.Concat(a.Static, a.Discovery)
	if i := slices.IndexFunc(all, func(s string) bool { return strings.Contains(s, "$(") }); i >= 0 {
		return "its arguments name them by a variable that only its pod knows (" + all[i] + ")"
	}
	if len(all) == 0 {
		return "its arguments have neither --nodes nor --node-group-auto-discovery=asg:tag=…"
	}
	return ""
}

// Manages says whether this Cluster Autoscaler scales the group: it names it, or one of its discovery flags finds it.
func (a Autoscaler) Manages(g NodeGroup) bool {
	return slices.Contains(a.Static, g.AutoScalingGroup) ||
		slices.ContainsFunc(a.Discovery, func(tags string) bool { return discovers(tags, g) })
}

// Lists says whether its status lists the group: that it scales it, or did a moment ago.
func (a Autoscaler) Lists(g NodeGroup) bool { return slices.Contains(a.Groups, g.AutoScalingGroup) }

const (
	// tagPrefix begins the tags that are Cluster Autoscaler's alone (Cluster Autoscaler on AWS, "Auto-Discovery Setup"): to take one
	// off a group changes nothing else. Those with tagTemplate describe the nodes to come.
	tagPrefix   = "k8s.io/cluster-autoscaler/"
	tagTemplate = tagPrefix + "node-template/"
	// tagEnabled has no other use at all; the one with the cluster's name may be what says whose the group is.
	tagEnabled = tagPrefix + "enabled"
	tagCluster = "kubernetes.io/cluster/"
)

// FoundBy are tags of the group without which none of its discovery flags finds it, one a flag, all of them Cluster Autoscaler's alone;
// hides says that there are such tags. There are none where a flag goes by tags with other uses only, and for a group that would not
// be known as one of its cluster's any more.
func (a Autoscaler) FoundBy(g NodeGroup) (keys []string, hides bool) {
	for _, tags := range a.Discovery {
		if !discovers(tags, g) {
			continue
		}
		key := findsBy(tags)
		if key == "" {
			return nil, false
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	known := slices.ContainsFunc(g.Tags, func(t Tag) bool { return strings.HasPrefix(t.Key, tagCluster) })
	return keys, known && !slices.Contains(a.Static, g.AutoScalingGroup)
}

// findsBy is the tag of a discovery flag that is least missed elsewhere; empty: all have other uses.
func findsBy(tags string) string {
	own := ""
	for tag := range strings.SplitSeq(tags, ",") {
		key, _, _ := strings.Cut(tag, "=")
		switch {
		case key == tagEnabled:
			return key
		case strings.HasPrefix(key, tagPrefix) && !strings.HasPrefix(key, tagTemplate):
			own = cmp.Or(own, key)
		}
	}
	return own
}

// DiscoveryTags are the group's tags that may make a Cluster Autoscaler find it.
func (g NodeGroup) DiscoveryTags() []Tag {
	return slices.DeleteFunc(slices.Clone(g.Tags), func(t Tag) bool { return !strings.HasPrefix(t.Key, tagPrefix) || strings.HasPrefix(t.Key, tagTemplate) })
}

// discovers goes by the presence of every key; a value counts only where the flag has key=value.
func discovers(tags string, g NodeGroup) bool {
	for tag := range strings.SplitSeq(tags, ",") {
		key, value, exact := strings.Cut(tag, "=")
		have, ok := g.Tag(key)
		if !ok || (exact && have != value) {
			return false
		}
	}
	return tags != ""
}
