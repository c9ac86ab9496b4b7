package controllers

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestMain silences the log: a crash test fails thousands of changes on purpose. The large cluster's API server is this binary, too.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if os.Getenv(largeServer) != "" {
		serveLarge()
	}
	os.Exit(m.Run())
}
