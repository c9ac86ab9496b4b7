//go:build lab

package lab_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// fakeSimulator is the side door of a simulator in which tests make instances come and go by hand.
type fakeSimulator struct {
	*httptest.Server

	mu        sync.Mutex
	instances map[string]simapi.Instance
	settings  simapi.Settings
	followers map[chan simapi.Event]bool
}

func startFakeSimulator() *fakeSimulator {
	f := &fakeSimulator{instances: map[string]simapi.Instance{}, followers: map[chan simapi.Event]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc(simapi.PathHealth, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc(simapi.PathSettings, func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(f.settings)
	})
	mux.HandleFunc(simapi.PathInstances, func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		list := []simapi.Instance{}
		for _, instance := range f.instances {
			list = append(list, instance)
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc(simapi.PathEvents, f.events)
	f.Server = httptest.NewServer(mux)
	return f
}

func (f *fakeSimulator) events(w http.ResponseWriter, r *http.Request) {
	changes := make(chan simapi.Event, 1000)
	f.mu.Lock()
	for _, instance := range f.instances {
		changes <- simapi.Event{Time: time.Now(), Instance: &instance}
	}
	changes <- simapi.Event{Time: time.Now(), Synced: true}
	f.followers[changes] = true
	f.mu.Unlock()
	for {
		select {
		case event := <-changes:
			_ = json.NewEncoder(w).Encode(event)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			f.mu.Lock()
			delete(f.followers, changes)
			f.mu.Unlock()
			return
		}
	}
}

// Close breaks off who still follows.
func (f *fakeSimulator) Close() {
	f.CloseClientConnections()
	f.Server.Close()
}

// set makes an instance be as given.
func (f *fakeSimulator) set(instance simapi.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances[instance.ID] = instance
	for follower := range f.followers {
		follower <- simapi.Event{Time: time.Now(), Instance: &instance}
	}
}

// launch runs n instances of a managed node group.
func (f *fakeSimulator) launch(names ...string) {
	for i, name := range names {
		f.set(testInstance(name, i))
	}
}

func testInstance(name string, number int) simapi.Instance {
	return simapi.Instance{
		ID: "i-" + name, Type: "m5.large", Zone: "us-east-1" + string(rune('a'+number%3)), Region: "us-east-1", State: "running",
		PrivateIP: "10.0.0.1", PrivateDNSName: name + ".ec2.internal", Architecture: "amd64", ImageID: "ami-1",
		RoleAuthorised: true, Cluster: "harbor", NodeGroup: "system", AutoScalingGroup: "eks-system",
		MilliCPU: 2000, MemoryMiB: 8192, MaxPods: 110, LaunchTime: time.Now(),
	}
}

func (f *fakeSimulator) end(name, state string) {
	f.mu.Lock()
	instance := f.instances["i-"+name]
	f.mu.Unlock()
	instance.State = state
	f.set(instance)
}
