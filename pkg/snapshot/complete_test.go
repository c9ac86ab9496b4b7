package snapshot

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// fill sets every field that can be set, so that a field that a snapshot would lose is noticed whoever adds it.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(taken.Local()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // what is looked at anew each time is never recorded
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	}
}

func TestNothingIsLost(t *testing.T) {
	want := new(inventory.Snapshot)
	fill(reflect.ValueOf(want).Elem())
	want.Format, want.Digests = inventory.SnapshotFormat, nil
	store := New(cluster.Client, cluster.Client, namespace(t))
	if _, err := store.Save(t.Context(), "prod", want); err != nil {
		t.Fatalf("Save: %v", err)
	}
	got, _, err := store.Load(t.Context(), "prod")
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	got.Digests = nil
	if diff := cmp.Diff(loaded(want), got); diff != "" {
		t.Errorf("user data apart, what is recorded is what comes back, -saved +loaded:\n%s", diff)
	}
}

// TestWhatIsNeededToGoBackIsThere goes by the words that the runbook for going back by hand reads.
func TestWhatIsNeededToGoBackIsThere(t *testing.T) {
	group, index := inventory.GroupSnapshot{}, inventory.Snapshot{}
	fill(reflect.ValueOf(&group).Elem())
	fill(reflect.ValueOf(&index).Elem())
	tests := map[string]struct {
		document any
		keys     string
	}{
		"Sizes":               {group, "min max desired"},
		"LaunchTemplate":      {group, "launchTemplate id version asked userDataSHA256"},
		"MixedInstances":      {group, "mixedInstances overrides onDemandBase spotStrategy"},
		"ScalingPolicies":     {group, "scalingPolicies definition alarms enabled active"},
		"ScheduledActions":    {group, "scheduledActions recurrence timeZone start end"},
		"Processes":           {group, "suspendedProcesses"},
		"CapacityRebalance":   {group, "capacityRebalance"},
		"MaxInstanceLifetime": {group, "maxInstanceLifetimeSeconds"},
		"Protection":          {group, "newInstancesProtected protected"},
		"LifecycleHooks":      {group, "lifecycleHooks transition heartbeatSeconds defaultResult notificationARN roleARN metadata"},
		"Tags":                {group, "tags key propagateAtLaunch"},
		"ManagedNodeGroup":    {group, "managed labels taints"},
		"Nodes":               {group, "nodes instanceID labels taints unschedulable"},
		"Autoscalers":         {index, "autoscalers deployment namespace replicas args hpa lease"},
		"Versions":            {index, "format cluster taken migration home pools digests before"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text, _, err := encode(tc.document)
			if err != nil {
				t.Fatal(err)
			}
			for key := range strings.FieldsSeq(tc.keys) {
				if !strings.Contains(strings.ToLower(string(text)), strings.ToLower(key)+":") {
					t.Errorf("no %s in\n%s", key, text)
				}
			}
		})
	}
}
