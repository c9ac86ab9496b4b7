package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// PendingGrace is how long an operation that has not ended is taken to be running. Helm without waiting needs seconds; one
	// older than this was cut off when its process died.
	PendingGrace = 30 * time.Second
	// historyKept is how many revisions Helm keeps, each a Secret of some 10 KiB.
	historyKept = 5
	// requestTimeout bounds every call, because Helm's storage calls take no context.
	requestTimeout = 20 * time.Second
)

func init() {
	// Helm keeps this for the whole process; without it, changes carry the binary's name, "manager".
	kube.ManagedFieldsManager = fieldManager
}

// Client works on the Helm releases and the CRDs of one cluster. It keeps no state of them, only the chart pulled last.
type Client struct {
	now           func() time.Time
	configuration func(namespace string) (*action.Configuration, error)
	crds          apiextensions.CustomResourceDefinitionInterface
	objects       metadataclient.Interface

	mutex  sync.Mutex
	pulled pulled
}

// New makes a client. It does not call the cluster.
func New(config *rest.Config, now func() time.Time) (*Client, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	clients, err := newGetter(config)
	if err != nil {
		return nil, fmt.Errorf("helm: discovery client: %w", err)
	}
	extensions, err := apiextensions.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("helm: apiextensions client: %w", err)
	}
	objects, err := metadataclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("helm: metadata client: %w", err)
	}
	configuration := func(namespace string) (*action.Configuration, error) {
		cfg := new(action.Configuration)
		return cfg, cfg.Init(clients.in(namespace), namespace, "secret", func(string, ...any) {})
	}
	return &Client{now: now, configuration: configuration, crds: extensions.CustomResourceDefinitions(), objects: objects}, nil
}

// Observe says in what state a release is; it writes nothing. It costs one call, and one more for each object while the release
// is not installed, to find objects of another owner before Apply runs into them. Errors: *ValuesError, or the cluster's. A chart
// that cannot be pulled is none: the state is that of the record, and its Reason says so.
func (c *Client) Observe(ctx context.Context, r Release) (State, error) {
	p, cfg, state, err := c.observe(ctx, r)
	var pulling *PullError
	if errors.As(err, &pulling) {
		return c.recorded(ctx, r, pulling)
	}
	if err != nil || state.Status != NotInstalled {
		return state, classed(err)
	}
	found, err := survey(ctx, cfg, p)
	if err != nil {
		return State{}, classed(err)
	}
	if found.foreign != nil {
		state.Status, state.Owner, state.Object = Foreign, found.foreign.Owner, found.foreign.Object
	}
	return state, nil
}

// recorded is what can be said of a release without its chart.
func (c *Client) recorded(ctx context.Context, r Release, pulling *PullError) (State, error) {
	_, history, err := c.history(ctx, r)
	if err != nil {
		return State{}, classed(err)
	}
	state := classify(history, &plan{Release: r, values: r.Values})
	if state.Status != Foreign {
		state.Reason = pulling.Error()
	}
	return state, nil
}

// Apply brings a release to what was asked and returns its state. It writes nothing if the release is Current and none of its
// objects is missing. It takes over an operation that died, and mends one that failed, without deleting what runs; it does not
// wait until anything is ready. Once begun, Helm's own work ends within its request timeouts even if ctx is cancelled.
// Errors: *ValuesError (terminal), *ForeignError (a person decides), *PendingError (not yet), *PullError (try again), or the
// cluster's (try again).
func (c *Client) Apply(ctx context.Context, r Release) (State, error) {
	state, err := c.apply(ctx, r)
	return state, classed(err)
}

func (c *Client) apply(ctx context.Context, r Release) (State, error) {
	p, cfg, state, err := c.observe(ctx, r)
	if err != nil {
		return state, err
	}
	if err := c.mayApply(r, state); err != nil {
		return state, err
	}
	found, err := survey(ctx, cfg, p)
	if err != nil {
		return state, err
	}
	if found.foreign != nil {
		return state, found.foreign
	}
	if state.Current && len(found.missing) == 0 {
		return state, nil
	}
	if err := write(ctx, cfg, p, state); err != nil {
		return state, explain(r, err)
	}
	return current(cfg, p)
}

func (c *Client) mayApply(r Release, state State) error {
	switch state.Status {
	case Foreign:
		return state.foreign(r)
	case Pending:
		if c.now().Sub(state.Since) < PendingGrace {
			return &PendingError{Release: r.String(), Since: state.Since, Grace: PendingGrace}
		}
	}
	return nil
}

// Uninstall removes a release and its objects, not its CRDs; it does nothing if there is none. It asks for the deletions and
// does not wait for them, may be repeated, and goes on from where one that was cut off ended. The values do not matter: wrong
// ones must not keep the engine alive.
// Errors: *ForeignError if the release, or one of its objects, is somebody else's by now; *PendingError, or the cluster's.
func (c *Client) Uninstall(ctx context.Context, r Release) error {
	return classed(c.uninstall(ctx, r))
}

func (c *Client) uninstall(ctx context.Context, r Release) error {
	want := &plan{Release: r, values: r.Values}
	if r.Remote == nil { // another is not needed, and its registry may be gone
		var err error
		if want.chart, err = c.loaded(ctx, r); err != nil {
			return err
		}
	}
	cfg, history, err := c.history(ctx, r)
	if err != nil {
		return err
	}
	state := classify(history, want)
	if state.Status == NotInstalled {
		return nil
	}
	if err := c.mayApply(r, state); err != nil {
		return err
	}
	// Helm deletes by name. What it would delete is in the record, whatever the chart renders today.
	found, err := survey(ctx, cfg, &plan{Release: r, manifest: latest(history).Manifest})
	if err != nil {
		return err
	}
	if found.foreign != nil {
		return found.foreign
	}
	uninstall := action.NewUninstall(cfg)
	uninstall.DisableHooks = true
	uninstall.IgnoreNotFound = true
	if _, err := uninstall.Run(r.Name); err != nil {
		return fmt.Errorf("release %s: uninstalling: %w", r, err)
	}
	return nil
}

func (c *Client) observe(ctx context.Context, r Release) (*plan, *action.Configuration, State, error) {
	loaded, err := c.loaded(ctx, r)
	if err != nil {
		return nil, nil, State{}, err
	}
	p, err := prepareWith(r, loaded)
	if err != nil {
		return nil, nil, State{}, err
	}
	cfg, history, err := c.history(ctx, r)
	if err != nil {
		return nil, nil, State{}, err
	}
	return p, cfg, classify(history, p), nil
}

// history reads Helm's records of the release: none is no error.
func (c *Client) history(ctx context.Context, r Release) (*action.Configuration, []*release.Release, error) {
	if err := ctx.Err(); err != nil { // Helm's storage would not look
		return nil, nil, err
	}
	cfg, err := c.configuration(r.Namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("release %s: Helm's configuration: %w", r, err)
	}
	history, err := records(cfg, r)
	return cfg, history, err
}

func records(cfg *action.Configuration, r Release) ([]*release.Release, error) {
	history, err := cfg.Releases.History(r.Name)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, fmt.Errorf("release %s: reading its history: %w", r, err)
	}
	return history, nil
}

func current(cfg *action.Configuration, p *plan) (State, error) {
	history, err := records(cfg, p.Release)
	if err != nil {
		return State{}, err
	}
	return classify(history, p), nil
}

// write makes the one change that the state asks for.
func write(ctx context.Context, cfg *action.Configuration, p *plan, state State) error {
	switch state.Status {
	case NotInstalled:
		return install(ctx, cfg, p)
	case Pending:
		if err := abandon(cfg, p); err != nil {
			return err
		}
	}
	return upgrade(ctx, cfg, p)
}

func install(ctx context.Context, cfg *action.Configuration, p *plan) error {
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace = p.Name, p.Namespace
	install.Replace = true // an uninstalled release of that name may have left its history
	install.DisableHooks = true
	install.SkipCRDs = true                 // ApplyCRDs brings them, and knows whose they are
	install.DisableOpenAPIValidation = true // the API server checks anyway, and the document takes megabytes to read
	_, err := install.RunWithContext(ctx, p.chart, p.values)
	return err
}

func upgrade(ctx context.Context, cfg *action.Configuration, p *plan) error {
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace = p.Namespace
	upgrade.ResetValues = true // only what is asked for now counts
	upgrade.DisableHooks = true
	upgrade.DisableOpenAPIValidation = true
	upgrade.MaxHistory = historyKept
	_, err := upgrade.RunWithContext(ctx, p.Name, p.chart, p.values)
	return err
}

// abandon marks an operation that died as failed, which is all that keeps Helm from upgrading over it. Objects it has already
// made stay and are mended by the upgrade.
func abandon(cfg *action.Configuration, p *plan) error {
	last, err := cfg.Releases.Last(p.Name)
	if err != nil {
		return fmt.Errorf("reading the last revision: %w", err)
	}
	status := release.StatusUnknown
	if last.Info != nil {
		status = last.Info.Status
	} else {
		last.Info = &release.Info{}
	}
	last.SetStatus(release.StatusFailed, fmt.Sprintf("castoff found it %s with nobody working on it", status))
	if err := cfg.Releases.Update(last); err != nil {
		return fmt.Errorf("marking revision %d failed: %w", last.Version, err)
	}
	return nil
}

// explain turns the API server's refusal of a rendered object into a *ValuesError; any other error is kept.
func explain(r Release, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || (!apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err)) {
		return fmt.Errorf("release %s: %w", r, err)
	}
	problem := Problem{Reason: err.Error()}
	if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
		problem = Problem{Value: details.Kind + " " + details.Name + ": " + details.Causes[0].Field, Reason: details.Causes[0].Message}
	}
	return &ValuesError{Release: r.String(), Problems: []Problem{problem}, Err: err}
}

// objects is what the cluster holds of a release's objects.
type objects struct {
	missing []string
	foreign *ForeignError
}

// survey gets every object of a release. Helm would find objects of another owner too, but only says so in a sentence, and on an
// upgrade it would take them.
func survey(ctx context.Context, cfg *action.Configuration, p *plan) (objects, error) {
	resources, err := cfg.KubeClient.Build(strings.NewReader(p.manifest), false)
	if err != nil {
		return objects{}, fmt.Errorf("release %s: reading its manifest: %w", p, err)
	}
	var found objects
	for _, info := range resources {
		if err := ctx.Err(); err != nil {
			return objects{}, err
		}
		name := strings.TrimPrefix(info.Namespace+"/"+info.Name, "/")
		object := info.Mapping.GroupVersionKind.Kind + " " + name
		live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
		switch {
		case apierrors.IsNotFound(err):
			found.missing = append(found.missing, object)
			continue
		case err != nil:
			return objects{}, fmt.Errorf("release %s: reading %s: %w", p, object, err)
		}
		accessor, err := meta.Accessor(live)
		if err != nil {
			return objects{}, fmt.Errorf("release %s: reading %s: %w", p, object, err)
		}
		if found.foreign == nil && !ownedBy(accessor, p.Release) {
			found.foreign = &ForeignError{Object: object, Owner: owner(accessor)}
		}
	}
	return found, nil
}
