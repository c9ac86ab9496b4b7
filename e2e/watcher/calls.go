package watcher

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// AuditEvent is what the judge reads of a line of the API server's audit log (audit.k8s.io/v1).
type AuditEvent struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		Resource    string    `json:"resource"`
		Namespace   string    `json:"namespace"`
		Name        string    `json:"name"`
		UID         types.UID `json:"uid"`
		Subresource string    `json:"subresource"`
		APIGroup    string    `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int32 `json:"code"`
	} `json:"responseStatus"`
	StageTimestamp time.Time `json:"stageTimestamp"`
}

// Stages of a request. A watch is counted when it starts, everything else when it is done.
const (
	stageStarted  = "ResponseStarted"
	stageComplete = "ResponseComplete"
)

// removal is a pod deleted or evicted by somebody.
type removal struct {
	StageTimestamp time.Time
	User           string
	Verb           string // delete, evict
}

// calls counts what castoff asked for, and remembers who removed which pod.
type calls struct {
	config   Config
	counts   APICalls
	deleted  []string                           // pods castoff deleted
	removals map[types.NamespacedName][]removal // oldest first
	refused  map[types.NamespacedName]bool      // owners of pods whose budget made an eviction wait
	draining map[string]bool                    // nodes with an eviction
	claims   map[string]removal                 // of NodeClaims, by name: the first that asked
	writes   []write
	attempts []write // evictions that castoff asked for, refused ones too
}

// write is a request of castoff that may have changed something.
type write struct {
	at   time.Time
	what string
}

func newCalls(config Config) calls {
	return calls{config: config, removals: map[types.NamespacedName][]removal{}, refused: map[types.NamespacedName]bool{}, draining: map[string]bool{}, claims: map[string]removal{}}
}

// aws takes in a call to AWS.
func (c *calls) aws(call simapi.Call) {
	role := c.config.CastoffRole
	if role == "" || !strings.Contains(call.Identity, ":assumed-role/"+role+"/") && !strings.HasSuffix(call.Identity, ":user/"+role) {
		return
	}
	c.counts.AWS++
	if call.Write && !call.DryRun {
		c.writes = append(c.writes, write{at: call.Time, what: call.Service + "." + call.Operation})
	}
}

func (j *Judge) observeAudit(at time.Time, event AuditEvent) {
	if done := event.Verb == "watch" && event.Stage == stageStarted || event.Verb != "watch" && event.Stage == stageComplete; !done {
		return
	}
	if event.User.Username == j.config.CastoffUser {
		j.calls.counts.Kubernetes++
		before := len(j.calls.writes)
		j.calls.noteWrite(event)
		if evicts := event.ObjectRef != nil && event.ObjectRef.Subresource == "eviction"; !evicts {
			j.meter.sum.KubernetesWrites += len(j.calls.writes) - before
		}
	}
	if event.ObjectRef == nil || event.ResponseStatus == nil || isDryRun(event.RequestURI) {
		return
	}
	switch event.ObjectRef.Resource {
	case "pods":
		j.observePodRequest(at, event)
	case "nodeclaims":
		j.calls.observeClaimRequest(event)
	}
}

// observeClaimRequest remembers who was the first to delete a NodeClaim.
func (c *calls) observeClaimRequest(event AuditEvent) {
	if event.Verb != "delete" || event.ObjectRef.Subresource != "" || !succeeded(event) {
		return
	}
	if _, known := c.claims[event.ObjectRef.Name]; !known {
		c.claims[event.ObjectRef.Name] = removal{StageTimestamp: event.StageTimestamp, User: event.User.Username, Verb: event.Verb}
	}
}

// observePodRequest takes in an eviction or a delete, by anybody.
func (j *Judge) observePodRequest(at time.Time, event AuditEvent) {
	c, byCastoff := &j.calls, event.User.Username == j.config.CastoffUser
	pod := types.NamespacedName{Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name}
	switch {
	case event.Verb == "create" && event.ObjectRef.Subresource == "eviction":
		j.observeEviction(at, event, pod)
	case event.ObjectRef.Subresource != "" || !succeeded(event):
	case event.Verb == "delete":
		c.removed(pod, event, "delete")
		if byCastoff && !j.castoffsOwn(pod) {
			c.deleted = append(c.deleted, fmt.Sprintf("%s castoff deleted pod %s", clockTime(event.StageTimestamp), pod))
		}
	case event.Verb == "deletecollection" && byCastoff:
		c.deleted = append(c.deleted, fmt.Sprintf("%s castoff deleted pods of namespace %s as a collection", clockTime(event.StageTimestamp), pod.Namespace))
	}
}

func (j *Judge) observeEviction(at time.Time, event AuditEvent, key types.NamespacedName) {
	c := &j.calls
	if event.User.Username == j.config.CastoffUser {
		c.attempts = append(c.attempts, write{at: event.StageTimestamp, what: "evict " + key.String()})
		j.meter.measureEviction(event)
	}
	switch {
	case succeeded(event):
		c.removed(key, event, "evict")
		if pod := j.podNamed(key); pod != nil && pod.Spec.NodeName != "" && !c.draining[pod.Spec.NodeName] {
			c.draining[pod.Spec.NodeName] = true
			j.note(at, "node %s: first eviction (%s)", pod.Spec.NodeName, key)
		}
	case event.ResponseStatus.Code == 429:
		pod := j.podNamed(key)
		if pod == nil || metav1.GetControllerOf(pod) == nil {
			return
		}
		if owner := (types.NamespacedName{Namespace: key.Namespace, Name: metav1.GetControllerOf(pod).Name}); !c.refused[owner] {
			c.refused[owner] = true
			j.note(at, "evictions of %s wait for its PodDisruptionBudget", owner)
		}
	}
}

func (j *Judge) podNamed(key types.NamespacedName) *corev1.Pod {
	for _, pod := range j.pods {
		if pod.Namespace == key.Namespace && pod.Name == key.Name {
			return pod
		}
	}
	return nil
}

// castoffsOwn pods are its canary's and placeholders, in its namespace.
func (j *Judge) castoffsOwn(key types.NamespacedName) bool {
	if key.Namespace == j.config.CastoffNamespace {
		return true
	}
	pod := j.podNamed(key)
	return pod != nil && (pod.Labels[v1alpha1.LabelPlaceholder] != "" || pod.Labels[v1alpha1.LabelCanary] != "")
}

func (c *calls) removed(pod types.NamespacedName, event AuditEvent, verb string) {
	c.removals[pod] = append(c.removals[pod], removal{StageTimestamp: event.StageTimestamp, User: event.User.Username, Verb: verb})
}

// removalOf is what began the pod's removal at about that time: the first request, for the kubelet's own comes after it.
func (c *calls) removalOf(pod *corev1.Pod, at time.Time) *removal {
	list := c.removals[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	since := at.Add(-slack)
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
		since = pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second - slack)
	}
	if created := pod.CreationTimestamp.Time; since.Before(created) {
		since = created
	}
	i := slices.IndexFunc(list, func(r removal) bool { return !r.StageTimestamp.Before(since) && r.StageTimestamp.Before(at.Add(slack)) })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// lastRemovalOf is the request that took the pod out of the API, which the watch told of at `seen`.
func (c *calls) lastRemovalOf(pod *corev1.Pod, seen time.Time) *removal {
	list := c.removals[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	for i := len(list) - 1; i >= 0; i-- {
		if r := list[i]; !r.StageTimestamp.After(seen) && !r.StageTimestamp.Before(pod.CreationTimestamp.Time) {
			return &r
		}
	}
	return nil
}

// byWorkload says whether a controller removed pods of its own workload, by rolling or scaling it.
func byWorkload(user string) bool {
	name, ok := strings.CutPrefix(user, "system:serviceaccount:kube-system:")
	return ok && slices.Contains([]string{"replicaset-controller", "statefulset-controller", "deployment-controller", "daemon-set-controller",
		"job-controller", "cronjob-controller", "generic-garbage-collector", "namespace-controller", "ttl-after-finished-controller"}, name)
}

// noteWrite remembers a write. A held Lease is none, nor is a question about permissions.
func (c *calls) noteWrite(event AuditEvent) {
	reads := []string{"get", "list", "watch"}
	if slices.Contains(reads, event.Verb) || event.ObjectRef == nil || isDryRun(event.RequestURI) || !succeeded(event) {
		return
	}
	ref := event.ObjectRef
	if ref.Resource == "leases" || ref.APIGroup == "authorization.k8s.io" || ref.APIGroup == "authentication.k8s.io" {
		return
	}
	c.writes = append(c.writes, write{at: event.StageTimestamp, what: strings.Join([]string{event.Verb, ref.Resource, ref.Namespace, ref.Name, ref.Subresource}, " ")})
}

// Writes lists what castoff has written to Kubernetes and AWS since then, a held Lease aside.
func (j *Judge) Writes(since time.Time) []string { return after(since, j.calls.writes) }

// Evictions lists what castoff has asked to evict since then, refused or not.
func (j *Judge) Evictions(since time.Time) []string { return after(since, j.calls.attempts) }

func after(since time.Time, list []write) []string {
	var lines []string
	for _, w := range list {
		if w.at.After(since) {
			lines = append(lines, clockTime(w.at)+" "+w.what)
		}
	}
	return lines
}

func succeeded(event AuditEvent) bool {
	return event.ResponseStatus != nil && event.ResponseStatus.Code >= 200 && event.ResponseStatus.Code < 300
}

func isDryRun(uri string) bool {
	parsed, err := url.ParseRequestURI(uri)
	return err == nil && parsed.Query().Has("dryRun")
}
