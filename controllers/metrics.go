package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// actionsTotal counts the changes that castoff made, by kind and outcome.
var actionsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "castoff_actions_total",
	Help: "Changes that castoff made or tried to make, by kind and outcome (Done, Retry, Throttled, Terminal).",
}, []string{"kind", "outcome"})

func init() { metrics.Registry.MustRegister(actionsTotal) }

// outcomeOf is Done, or the class of the error.
func outcomeOf(err error) inventory.Class {
	if err == nil {
		return "Done"
	}
	return inventory.ClassOf(err)
}
