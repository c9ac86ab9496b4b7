package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// canaryPatience is after how long a canary that has not run is reported as needing a human: real instances boot in one to
// two minutes, and Karpenter gives up on one that has not registered after fifteen (karpenter, nodeclaim liveness).
const canaryPatience = 10 * time.Minute

// canaryRest is after how long a canary that was given up is tried again: what was wrong may lie where castoff does not look, such as
// DHCP options or a firewall, and a try costs ten minutes of one instance.
const canaryRest = 30 * time.Minute

func installingReached(l look) bool {
	return l.Snapshot != nil && (l.Engine.ReleaseCurrent || len(l.Engine.NodeClasses) > 0)
}

// installing brings Karpenter, with no NodePool that could take a user's pod, and proves every EC2NodeClass with one node.
func installing(_ *ledger, l look) outcome {
	o := outcome{}
	if handingOverReached(l) {
		return mendEngine(l)
	}
	installAWS(&o, l)
	installEngine(&o, l)
	if !o.idle() {
		return o
	}
	for _, p := range l.pools {
		installNodeClass(&o, l, p)
	}
	o.done = o.idle()
	return o
}

// mendEngine is installing once pools are served: the engine may need an upgrade or a moment, but what it serves goes on.
// The hand-over's step does not run meanwhile, so the Lease is kept here: an outage may outlast the hour that it holds.
func mendEngine(l look) outcome {
	o := outcome{done: true}
	if c := l.Identity.Conflict; c != "" {
		o.warn("IdentityConflict", "role/"+l.Identity.NodeRole, "What Karpenter's nodes need to join is no longer as it was: "+c)
	} else if !l.Identity.Ready {
		o.warn("IdentityNotReady", "role/"+l.Identity.NodeRole, "What Karpenter's nodes need to join has gone and is being made again: "+list(l.Identity.Missing)+".")
		o.act(EnsureIdentity{})
	}
	if c := l.Interruption.Conflict; c != "" {
		o.warn(CheckQueueConflict, "queue/"+l.Interruption.QueueName, "What tells Karpenter of interruptions is no longer as it was: "+c)
	} else if !l.Interruption.Ready {
		o.warn("InterruptionNotReady", "queue/"+l.Interruption.QueueName, "What tells Karpenter of interruptions has gone and is being made again: "+list(l.Interruption.Missing)+".")
		o.act(EnsureInterruption{})
	}
	for _, p := range l.pools {
		if p.target == nil {
			continue
		}
		if _, ok := nodeClass(l, p.target.NodeClass.Name); !ok {
			o.warn("NodeClassGone", "ec2nodeclass/"+p.target.NodeClass.Name, "The class of a NodePool that serves was deleted; it is made again.")
			o.act(EnsureNodeClass{NodeClass: &p.target.NodeClass})
		}
	}
	if l.Engine.ReadyReplicas == 0 {
		o.act(holdLeases(l).actions...)
		o.done = false
		o.wait("EngineNotReady", "deployment/karpenter", "Karpenter serves the pools and none of its pods is Ready: "+
			l.Engine.DeploymentMessage+" castoff evicts nothing until one is.")
	}
	return o
}

func installAWS(o *outcome, l look) {
	switch {
	case l.queueServes():
	case l.Interruption.Conflict != "":
		o.block(CheckQueueConflict, "queue/"+l.Interruption.QueueName, l.Interruption.Conflict)
	default:
		o.wait("InterruptionNotReady", "queue/"+l.Interruption.QueueName, "Missing: "+strings.Join(l.Interruption.Missing, ", ")+".")
		o.act(EnsureInterruption{})
	}
	switch {
	case l.Identity.Conflict != "":
		o.block("IdentityConflict", "role/"+l.Identity.NodeRole, l.Identity.Conflict)
	case !l.Identity.Ready:
		o.wait("IdentityNotReady", "role/"+l.Identity.NodeRole, "Missing: "+strings.Join(l.Identity.Missing, ", ")+".")
		o.act(EnsureIdentity{})
	}
}

// queueServes says that Karpenter may be told of the queue: it is as it should be, or it is the user's and they know better.
func (l look) queueServes() bool {
	return l.Interruption.Ready || l.Cluster.Provided.Queue != "" && l.accepts(CheckQueueConflict, "queue/"+l.Interruption.QueueName)
}

// installEngine waits for identities first: an engine that starts without them ends at once.
func installEngine(o *outcome, l look) {
	e := l.Engine
	switch {
	case e.CRDForeign != "":
		o.block("CRDForeign", "customresourcedefinition", e.CRDForeign)
	case e.Release == inventory.ReleaseForeign:
		o.block("ReleaseForeign", "release/karpenter", e.ReleaseMessage)
	case !l.queueServes() || !l.Identity.Ready:
	case !e.CRDsCurrent:
		o.wait("CRDsNotReady", "customresourcedefinition", "Karpenter's CustomResourceDefinitions are being applied.")
		o.act(InstallCRDs{})
	case !e.ReleaseCurrent:
		o.wait("ReleaseNotCurrent", "release/karpenter", strings.TrimSpace("The engine's Helm release is "+string(e.Release)+". "+e.ReleaseMessage))
		o.act(InstallEngine{})
	case e.ReadyReplicas < e.Replicas || e.Replicas == 0:
		o.wait("EngineNotReady", "deployment/karpenter", cmp.Or(e.DeploymentMessage, "The engine's Deployment is not there, or asks for no pod."))
	}
}

func installNodeClass(o *outcome, l look, p pool) {
	if p.target == nil {
		o.block("NotTranslated", "pool/"+p.Name, "The pool could not be translated to a NodePool and an EC2NodeClass.")
		return
	}
	want := &p.target.NodeClass
	have, ok := nodeClass(l, want.Name)
	switch {
	case ok && have.DeletionTimestamp != nil: // a way back was broken off just then
		o.wait("NodeClassEnding", "ec2nodeclass/"+want.Name, "Karpenter is letting the class go; it is made again after that.")
	case !ok || !sameTarget(&have, want):
		o.act(EnsureNodeClass{NodeClass: want})
	case failedCanary(l, have) != "":
		if canaryIsThere(l, p) {
			o.act(EndCanary{Pool: p.Name})
		}
		o.block("CanaryFailed", "ec2nodeclass/"+want.Name, "The canary's node did not become usable, and was ended: "+failedCanary(l, have)+
			" castoff tries another half an hour later, and at once when the class changes or its annotation "+v1alpha1.AnnotationCanaryFailed+" is taken off.")
	case passedCanary(l, have):
		if canaryIsThere(l, p) {
			o.wait("CanaryLeaving", "ec2nodeclass/"+want.Name, "The canary's node is going.")
			o.act(EndCanary{Pool: p.Name})
		}
	default:
		runCanary(o, l, p, have)
	}
}

// canaryIsThere says that something of the pool's canary is left.
func canaryIsThere(l look, p pool) bool {
	c, ok := canary(l, p.Name)
	return ok && (c.NodePool || c.Pod || c.Node)
}

// runCanary tries an EC2NodeClass: what is wrong with it is said in the Migration, with Karpenter's and AWS's own words.
func runCanary(o *outcome, l look, p pool, have awsv1.EC2NodeClass) {
	object := "ec2nodeclass/" + have.Name
	if !isReady(have.Status.Conditions) {
		o.wait("NodeClassNotReady", object, whyNot(have.Status.Conditions))
		return
	}
	c, ok := canary(l, p.Name)
	switch {
	case c.PodRan:
		o.act(MarkCanaryPassed{Pool: p.Name, Hash: l.Engine.NodeClassHashes[have.Name]}, EndCanary{Pool: p.Name})
	case !ok || !c.NodePool || !c.Pod:
		o.act(StartCanary{Target: *p.target})
	case !c.Since.IsZero() && l.now.Sub(c.Since) > canaryPatience:
		// Karpenter would go on launching one node after the other for it.
		why := cmp.Or(c.Message, "Karpenter does not say why.")
		o.act(EndCanary{Pool: p.Name, Hash: l.Engine.NodeClassHashes[have.Name], Failed: why})
		o.block("CanaryFailed", object, "The canary's node did not become usable, and is ended: "+why)
	default:
		o.wait("CanaryRunning", object, "One node of this class is being tried. "+c.Message)
	}
}

// failedCanary is why a canary of this very spec was given up a short while ago; empty if none was.
func failedCanary(l look, c awsv1.EC2NodeClass) string {
	hash, rest, _ := strings.Cut(c.Annotations[v1alpha1.AnnotationCanaryFailed], " ")
	at, why, _ := strings.Cut(rest, " ")
	failed, err := time.Parse(time.RFC3339, at)
	if err != nil || hash != l.Engine.NodeClassHashes[c.Name] || passedCanary(l, c) || l.now.Sub(failed) > canaryRest {
		return ""
	}
	return why
}

// passedCanary says that this very spec of the EC2NodeClass launched a node; one that was edited since is tried again.
func passedCanary(l look, c awsv1.EC2NodeClass) bool {
	hash := l.Engine.NodeClassHashes[c.Name]
	return hash != "" && c.Annotations[v1alpha1.AnnotationCanaryPassed] == hash
}

func nodeClass(l look, name string) (awsv1.EC2NodeClass, bool) {
	i := slices.IndexFunc(l.Engine.NodeClasses, func(c awsv1.EC2NodeClass) bool { return c.Name == name })
	if i < 0 {
		return awsv1.EC2NodeClass{}, false
	}
	return l.Engine.NodeClasses[i], true
}

func canary(l look, pool string) (inventory.Canary, bool) {
	i := slices.IndexFunc(l.Engine.Canaries, func(c inventory.Canary) bool { return c.Pool == pool })
	if i < 0 {
		return inventory.Canary{}, false
	}
	return l.Engine.Canaries[i], true
}

// sameTarget says whether castoff wrote this target last. A user's edit since then is theirs, and is left.
func sameTarget(have, want metav1.Object) bool { return targetHash(have) == targetHash(want) }

func targetHash(o metav1.Object) string { return o.GetAnnotations()[v1alpha1.AnnotationTargetHash] }

// isReady goes by the condition as Karpenter wrote it. StatusConditions() would write into the object, with the wall clock.
func isReady(conditions []status.Condition) bool {
	return slices.ContainsFunc(conditions, func(c status.Condition) bool {
		return c.Type == status.ConditionReady && c.Status == metav1.ConditionTrue
	})
}

// whyNot says in Karpenter's and AWS's own words what is wrong with an object that is not Ready, or that nobody has spoken
// yet. Ready itself only names the conditions that it is made of.
func whyNot(conditions []status.Condition) string {
	var said []string
	for _, c := range conditions {
		if c.Type != v1alpha1.ConditionReady && c.Status == metav1.ConditionFalse {
			said = append(said, c.Type+" is False, "+c.Reason+": "+c.Message)
		}
	}
	if len(said) == 0 {
		return "Karpenter has not finished looking at it."
	}
	return strings.Join(said, "; ")
}
