// Package prometheus has only tests: castoff's gates against the HTTP API of a real Prometheus, and the alert rules of castoff's
// chart in Prometheus' own rule engine. It is a module of its own, so that nothing of Prometheus gets into the product's go.mod.
package prometheus
