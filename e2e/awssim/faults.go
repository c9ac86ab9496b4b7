package awssim

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// faults are the failures that a test ordered.
type faults struct {
	list []*simapi.Fault
	left map[string]int // calls still to fail, of those with Times
	seq  int
}

func (f *faults) add(x simapi.Fault) simapi.Fault {
	f.seq++
	if x.ID == "" {
		x.ID = fmt.Sprintf("fault-%d", f.seq)
	}
	if f.left == nil {
		f.left = map[string]int{}
	}
	f.left[x.ID] = x.Times
	f.list = append(f.list, &x)
	return x
}

// remove takes back the fault with that ID, or all when it is empty.
func (f *faults) remove(id string) {
	var kept []*simapi.Fault
	for _, x := range f.list {
		if id != "" && x.ID != id {
			kept = append(kept, x)
		}
	}
	f.list = kept
}

// forCall is the first fault that hits the call, and uses it up once.
func (f *faults) forCall(c *call, input string) *simapi.Fault {
	for _, x := range f.list {
		if !isCapacityFault(x) && matchesCall(x, c.service, c.operation, c.identity) && strings.Contains(input, x.Contains) {
			f.use(x)
			return x
		}
	}
	return nil
}

// forLaunch is the capacity fault that hits a launch of the type in the zone, and uses it up once. An Auto Scaling
// group launches as the identity "autoscaling".
func (f *faults) forLaunch(identity, instanceType, zone string) *simapi.Fault {
	for _, x := range f.list {
		if isCapacityFault(x) && (x.InstanceType == "" || x.InstanceType == instanceType) && (x.Zone == "" || x.Zone == zone) &&
			strings.Contains(identity, x.Identity) {
			f.use(x)
			return x
		}
	}
	return nil
}

// denies is the fault that would refuse the action ("ec2:RunInstances") to the identity; it is not used up.
func (f *faults) denies(identity, action string) *simapi.Fault {
	service, operation, _ := strings.Cut(action, ":")
	for _, x := range f.list {
		denied := strings.HasPrefix(x.Code, "AccessDenied") || x.Code == "UnauthorizedOperation"
		if denied && !isCapacityFault(x) && matchesCall(x, service, operation, identity) {
			return x
		}
	}
	return nil
}

func (f *faults) use(x *simapi.Fault) {
	if x.Times == 0 {
		return
	}
	if f.left[x.ID]--; f.left[x.ID] <= 0 {
		f.remove(x.ID)
	}
}

func isCapacityFault(x *simapi.Fault) bool { return x.InstanceType != "" || x.Zone != "" }

func matchesCall(x *simapi.Fault, service, operation, identity string) bool {
	if x.Service != "" && x.Service != service {
		return false
	}
	if prefix, ok := strings.CutSuffix(x.Operation, "*"); ok {
		return strings.HasPrefix(operation, prefix) && strings.Contains(identity, x.Identity)
	}
	return (x.Operation == "" || x.Operation == operation) && strings.Contains(identity, x.Identity)
}

func faultError(x *simapi.Fault, what string) *apiError {
	status := x.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	return errorStatus(status, x.Code, "%s failed on order of %s", what, x.ID)
}
