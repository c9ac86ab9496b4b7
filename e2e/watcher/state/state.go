// Package state compares a cluster and its AWS account before a migration with the same two after the way back. It reads
// both itself, with the SDK and a client, and through nothing of castoff's.
package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fields are an object's values by path, such as "spec.replicas" or "Tags[team].Value".
type Fields map[string]string

// Node is a node of the cluster.
type Node struct {
	// ID is the instance's: a name comes back with the address that it is made of.
	ID   string
	Name string
	// Group is the node group, or how else the node came to be.
	Group string
	// Fields are labels, taints, the cordon and annotations.
	Fields Fields
}

// State is what there is at one moment.
type State struct {
	// Objects by what they are called, such as "group general".
	Objects map[string]Fields
	Nodes   []Node
}

// Difference is a field that is not what it was.
type Difference struct {
	Object string `json:"object"`
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// String is one line for a test's log.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s was %q and is %q", d.Object, d.Field, d.Before, d.After)
}

// exists is the field of an object that is told apart only by being there.
const exists = "exists"

// Compare lists what differs, by object and field. Ids, names of instances and times are not in a State; a node that was
// replaced is compared with another of its group that was.
func Compare(before, after State) []Difference {
	var differences []Difference
	for _, object := range union(before.Objects, after.Objects) {
		differences = append(differences, compareFields(object, before.Objects[object], after.Objects[object])...)
	}
	was, is := byID(before.Nodes), byID(after.Nodes)
	for _, id := range union(was, is) {
		_, old := was[id]
		_, young := is[id]
		if old && young {
			differences = append(differences, compareFields("node "+was[id].Name, was[id].Fields, is[id].Fields)...)
		}
	}
	return append(differences, compareReplaced(before.Nodes, after.Nodes)...)
}

// Count is how many values a State has: a comparison of nothing finds nothing.
func (s State) Count() int {
	count := 0
	for _, fields := range s.Objects {
		count += len(fields)
	}
	for _, node := range s.Nodes {
		count += len(node.Fields)
	}
	return count
}

// compareFields leaves the single fields out where an object is not there at all on one side.
func compareFields(object string, before, after Fields) []Difference {
	switch {
	case before == nil:
		return []Difference{{Object: object, Field: exists, Before: "false", After: "true"}}
	case after == nil:
		return []Difference{{Object: object, Field: exists, Before: "true", After: "false"}}
	}
	var differences []Difference
	for _, field := range union(before, after) {
		if before[field] != after[field] {
			differences = append(differences, Difference{Object: object, Field: field, Before: before[field], After: after[field]})
		}
	}
	return differences
}

// compareReplaced pairs the nodes of each group that are gone with those that came: equal ones first, the rest as it comes.
func compareReplaced(before, after []Node) []Difference {
	gone, came := replaced(before, after), replaced(after, before)
	var differences []Difference
	for _, group := range union(gone, came) {
		old, young := slices.Clone(gone[group]), slices.Clone(came[group])
		for _, fields := range gone[group] {
			same := func(f Fields) bool { return maps.Equal(f, fields) }
			if i, j := slices.IndexFunc(old, same), slices.IndexFunc(young, same); i >= 0 && j >= 0 {
				old, young = slices.Delete(old, i, i+1), slices.Delete(young, j, j+1)
			}
		}
		object := "a replaced node of " + group
		for len(old) > 0 && len(young) > 0 {
			differences = append(differences, compareFields(object, old[0], young[0])...)
			old, young = old[1:], young[1:]
		}
		if len(old)+len(young) > 0 {
			differences = append(differences, Difference{Object: "nodes of " + group, Field: "replaced", Before: fmt.Sprint(len(gone[group])), After: fmt.Sprint(len(came[group]))})
		}
	}
	return differences
}

// chosenAtLaunch are labels that AWS chooses with the instance, the replaced one's like its predecessor's.
var chosenAtLaunch = []string{
	"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "topology.k8s.aws/zone-id",
	"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "kubernetes.io/hostname",
}

// replaced are the nodes of each group that the other side does not have, without what a launch decides.
func replaced(nodes, others []Node) map[string][]Fields {
	known, left := byID(others), map[string][]Fields{}
	for _, node := range nodes {
		if _, stays := known[node.ID]; stays {
			continue
		}
		fields := maps.Clone(node.Fields)
		for _, label := range chosenAtLaunch {
			delete(fields, labelField(label))
		}
		left[node.Group] = append(left[node.Group], fields)
	}
	for _, list := range left {
		slices.SortFunc(list, func(a, b Fields) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return left
}

func labelField(key string) string { return "labels[" + key + "]" }

func byID(nodes []Node) map[string]Node {
	known := map[string]Node{}
	for _, node := range nodes {
		known[node.ID] = node
	}
	return known
}

func union[V any](a, b map[string]V) []string {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// add puts a value under an object's path, field by field, without those of the named keys at any depth.
func (s *State) add(object, path string, value any, without ...string) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("flattening %s %s: %w", object, path, err)
	}
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		return fmt.Errorf("flattening %s %s: %w", object, path, err)
	}
	if s.Objects[object] == nil {
		s.Objects[object] = Fields{exists: "true"}
	}
	flatten(s.Objects[object], path, tree, without)
	return nil
}

func flatten(fields Fields, path string, tree any, without []string) {
	switch value := tree.(type) {
	case nil:
	case map[string]any:
		for key, child := range value {
			if !slices.Contains(without, key) {
				flatten(fields, strings.TrimPrefix(path+"."+key, "."), child, without)
			}
		}
	case []any:
		flattenList(fields, path, value, without)
	default:
		fields[path] = fmt.Sprint(value)
	}
}

// nameKeys tell the elements of a list apart, whatever their order.
var nameKeys = []string{"Key", "key", "Name", "name", "PolicyName", "AlarmName", "ProcessName", "ScheduledActionName", "LifecycleHookName", "Metric", "InstanceType", "Id"}

// flattenList knows a list as a set: AWS promises no order.
func flattenList(fields Fields, path string, list []any, without []string) {
	var plain []string
	for i, element := range list {
		object, ok := element.(map[string]any)
		if !ok {
			plain = append(plain, fmt.Sprint(element))
			continue
		}
		name := fmt.Sprint(i)
		for _, key := range nameKeys {
			if text, ok := object[key].(string); ok {
				name = text
				break
			}
		}
		flatten(fields, path+"["+name+"]", element, without)
	}
	if len(plain) > 0 {
		slices.Sort(plain)
		fields[path] = strings.Join(plain, ",")
	}
}
