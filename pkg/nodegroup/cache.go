package nodegroup

import (
	"sync"

	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// cache holds what does not change under its name, so that it is read once in the life of the process: a few KiB a
// group.
type cache struct {
	templates table[*ec2types.ResponseLaunchTemplateData] // "<id>:<number>"
	configs   table[astypes.LaunchConfiguration]          // by name
	images    table[inventory.Image]
	roles     table[string]                    // by instance profile; reassigned so rarely that it is not looked for
	types     table[[]string]                  // by instance requirements
	sizes     table[inventory.InstanceType]    // by name
	families  table[[]inventory.InstanceType]  // by name; empty for one that EC2 does not know
	hooks     table[[]inventory.LifecycleHook] // by Auto Scaling group, as the next two
	refreshes table[heldRefresh]
	arrivals  table[arrivals]
}

// table is a map that is safe for concurrent use and ready as its zero value.
type table[V any] struct {
	mu     sync.Mutex
	values map[string]V
}

func (t *table[V]) get(key string) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.values[key]
	return v, ok
}

func (t *table[V]) put(key string, v V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values == nil {
		t.values = map[string]V{}
	}
	t.values[key] = v
}
