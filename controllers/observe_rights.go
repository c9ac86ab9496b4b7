package controllers

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// noRestarts says that castoff may not patch Deployments, which a strategy that surges needs. It asks the API server about itself, as
// everybody may (system:basic-user): an admission webhook can still refuse the patch, and a drain says so then. False where nobody is
// to be asked about, where nothing surges, and where there was no answer: it is no reason to stop.
func (o *Observer) noRestarts(ctx context.Context, s v1alpha1.Strategy) bool {
	if o.Rights == nil || s.Surge == "" || s.Surge == v1alpha1.SurgeNone {
		return false
	}
	denied, err := o.restarts.get(ctx, o.Clock(), deniedFresh, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Group: "apps", Resource: "deployments"},
		}}
		err := o.Rights.Create(ctx, review)
		return !review.Status.Allowed, err
	})
	return err == nil && denied
}

// deniedFresh asks again soon while the right is missing, so that whoever gives it sees that it was seen.
func deniedFresh(denied bool) time.Duration {
	if denied {
		return unsettledFresh
	}
	return settledFresh
}
