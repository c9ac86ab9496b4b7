// Package castandin is the lab's stand-in for Cluster Autoscaler, which cannot be built from the Go module proxy.
//
// It behaves, in what a migration can notice, as Cluster Autoscaler 1.36 was measured to behave: leader election,
// the status ConfigMap, discovery and its delays, scale-up for pending pods (on cordoned groups too) and scale-down
// of idle nodes. It exists to prove that castoff stops it: when it is not stopped, it fights.
package castandin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Options are the flags of Cluster Autoscaler that the stand-in acts upon, with Cluster Autoscaler's own defaults.
type Options struct {
	Namespace     string
	Nodes         []string // min:max:name
	AutoDiscovery []string // asg:tag=key,key=value
	ScanInterval  time.Duration
	// RefreshInterval is for how long an answer of Auto Scaling is believed; a constant in Cluster Autoscaler.
	RefreshInterval time.Duration

	LeaderElect   bool
	LeaseName     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration

	WriteStatus bool
	StatusName  string

	ScaleDown            bool
	UnneededTime         time.Duration
	DelayAfterAdd        time.Duration
	UtilizationThreshold float64
	SkipSystemPods       bool
	SkipLocalStorage     bool
	Cordon               bool

	// PriorityCutoff is the priority below which a pending pod is ignored.
	PriorityCutoff int
	// OKUnready and MaxUnreadyPercent: with more unready nodes than both, nothing is scaled.
	OKUnready         int
	MaxUnreadyPercent float64
	MaxNodesTotal     int
}

// ParseOptions reads Cluster Autoscaler's command line. Flags the stand-in does not act upon come back in ignored.
func ParseOptions(args []string) (opts Options, ignored []string, err error) {
	fs := pflag.NewFlagSet("ca-standin", pflag.ContinueOnError)
	bindScaling(fs, &opts)
	bindElection(fs, &opts)
	known, ignored := splitKnown(fs, args)
	if err := fs.Parse(known); err != nil {
		return Options{}, nil, fmt.Errorf("reading the flags of Cluster Autoscaler: %w", err)
	}
	for _, spec := range opts.Nodes {
		if _, err := parseStatic(spec); err != nil {
			return Options{}, nil, err
		}
	}
	for _, spec := range opts.AutoDiscovery {
		if _, err := parseDiscovery(spec); err != nil {
			return Options{}, nil, err
		}
	}
	return opts, ignored, nil
}

func bindScaling(fs *pflag.FlagSet, o *Options) {
	fs.StringArrayVar(&o.Nodes, "nodes", nil, "min:max:name of a group")
	fs.StringArrayVar(&o.AutoDiscovery, "node-group-auto-discovery", nil, "asg:tag=key[=value],…")
	fs.DurationVar(&o.ScanInterval, "scan-interval", 10*time.Second, "time between two looks at the cluster")
	fs.DurationVar(&o.RefreshInterval, "asg-refresh-interval", time.Minute, "stand-in only: time between two looks at Auto Scaling")
	fs.BoolVar(&o.ScaleDown, "scale-down-enabled", true, "remove idle nodes")
	fs.DurationVar(&o.UnneededTime, "scale-down-unneeded-time", 10*time.Minute, "idle time before a node is removed")
	fs.DurationVar(&o.DelayAfterAdd, "scale-down-delay-after-add", 10*time.Minute, "time after a scale-up without scale-down")
	fs.Float64Var(&o.UtilizationThreshold, "scale-down-utilization-threshold", 0.5, "requested share below which a node is idle")
	fs.BoolVar(&o.SkipSystemPods, "skip-nodes-with-system-pods", true, "keep nodes with kube-system pods")
	fs.BoolVar(&o.SkipLocalStorage, "skip-nodes-with-local-storage", true, "keep nodes with emptyDir or hostPath pods")
	fs.BoolVar(&o.Cordon, "cordon-node-before-terminating", true, "cordon a node that is removed")
	fs.IntVar(&o.PriorityCutoff, "expendable-pods-priority-cutoff", -10, "pods below it are ignored")
	fs.IntVar(&o.OKUnready, "ok-total-unready-count", 3, "unready nodes always allowed")
	fs.Float64Var(&o.MaxUnreadyPercent, "max-total-unready-percentage", 45, "share of unready nodes allowed")
	fs.IntVar(&o.MaxNodesTotal, "max-nodes-total", 0, "nodes in the cluster at most; 0: no limit")
}

func bindElection(fs *pflag.FlagSet, o *Options) {
	fs.StringVar(&o.Namespace, "namespace", "kube-system", "namespace of the Lease and the status ConfigMap")
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "act only while holding the Lease")
	fs.StringVar(&o.LeaseName, "leader-elect-resource-name", "cluster-autoscaler", "name of the Lease")
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "duration written to the Lease")
	fs.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "time after which a leader gives up")
	fs.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "time between two attempts")
	fs.BoolVar(&o.WriteStatus, "write-status-configmap", true, "write the status ConfigMap")
	fs.StringVar(&o.StatusName, "status-config-map-name", "cluster-autoscaler-status", "name of the status ConfigMap")
}

// splitKnown keeps what fs knows. The value of an unknown flag may follow as an argument of its own.
func splitKnown(fs *pflag.FlagSet, args []string) (known, ignored []string) {
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		followed := !hasValue && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-")
		flag := fs.Lookup(name)
		switch {
		case !strings.HasPrefix(args[i], "-"):
			ignored = append(ignored, args[i])
		case flag != nil:
			known = append(known, "--"+strings.TrimLeft(args[i], "-"))
			if followed && flag.NoOptDefVal == "" {
				i++
				known = append(known, args[i])
			}
		default:
			ignored = append(ignored, args[i])
			if followed {
				i++
				ignored = append(ignored, args[i])
			}
		}
	}
	return known, ignored
}

// staticGroup is one --nodes flag. Its bounds win over those of the Auto Scaling group.
type staticGroup struct {
	name     string
	min, max int
}

func parseStatic(spec string) (staticGroup, error) {
	parts := strings.SplitN(spec, ":", 3)
	if len(parts) != 3 || parts[2] == "" {
		return staticGroup{}, fmt.Errorf("--nodes=%s: want min:max:name", spec)
	}
	minSize, minErr := strconv.Atoi(parts[0])
	maxSize, maxErr := strconv.Atoi(parts[1])
	if minErr != nil || maxErr != nil || minSize < 0 || maxSize < minSize {
		return staticGroup{}, fmt.Errorf("--nodes=%s: min and max must be whole numbers, 0 <= min <= max", spec)
	}
	return staticGroup{name: parts[2], min: minSize, max: maxSize}, nil
}

// tagFilter asks for a tag; a nil value is satisfied by the key's presence, whatever its value is.
type tagFilter struct {
	key   string
	value *string
}

func parseDiscovery(spec string) ([]tagFilter, error) {
	list, ok := strings.CutPrefix(spec, "asg:tag=")
	if !ok || list == "" {
		return nil, fmt.Errorf("--node-group-auto-discovery=%s: want asg:tag=key[=value],…", spec)
	}
	var filters []tagFilter
	for pair := range strings.SplitSeq(list, ",") {
		key, value, hasValue := strings.Cut(pair, "=")
		if key == "" {
			return nil, fmt.Errorf("--node-group-auto-discovery=%s: a tag has no key", spec)
		}
		filter := tagFilter{key: key}
		if hasValue {
			filter.value = &value
		}
		filters = append(filters, filter)
	}
	return filters, nil
}

func (f tagFilter) matches(tags map[string]string) bool {
	value, ok := tags[f.key]
	return ok && (f.value == nil || *f.value == value)
}

func matchesAll(filters []tagFilter, tags map[string]string) bool {
	return !slices.ContainsFunc(filters, func(f tagFilter) bool { return !f.matches(tags) })
}
