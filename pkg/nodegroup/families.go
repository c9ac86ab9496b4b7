package nodegroup

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// Families are the families of these names, such as m6i, with the instance types that EC2 has of them in the region. A family that
// EC2 does not know has no types. Each is read once: a family gains a size once in years.
func (c *Client) Families(ctx context.Context, names []string) ([]inventory.InstanceFamily, error) {
	var missing []string
	for _, name := range names {
		if _, ok := c.cache.families.get(name); !ok {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for batch := range slices.Chunk(slices.Compact(missing), typesAtOnce) {
		if err := c.readFamilies(ctx, batch); err != nil {
			return nil, err
		}
	}
	out := make([]inventory.InstanceFamily, len(names))
	for i, name := range names {
		types, _ := c.cache.families.get(name)
		out[i] = inventory.InstanceFamily{Name: name, Types: slices.Clone(types)}
	}
	return out, nil
}

func (c *Client) readFamilies(ctx context.Context, names []string) error {
	patterns := make([]string, len(names))
	for i, name := range names {
		patterns[i] = name + ".*"
	}
	found := map[string][]inventory.InstanceType{}
	err := c.eachType(ctx, patterns, func(t inventory.InstanceType) {
		family, _, _ := strings.Cut(t.Name, ".")
		found[family] = append(found[family], t)
	})
	if err != nil {
		return awsapi.Wrap(err, "ec2:DescribeInstanceTypes", "instance families "+strings.Join(names, ", "))
	}
	for _, name := range names {
		slices.SortFunc(found[name], func(a, b inventory.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
		c.cache.families.put(name, found[name])
	}
	return nil
}
