// Package translate turns node groups into a NodePool and an EC2NodeClass. It is pure, and it drops nothing in silence:
// what Karpenter cannot express is listed, with the reason and what to do. Start reading at Pool.
package translate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// pool is what the node groups of one pool have in common, and what was found on the way that cannot be carried over.
type pool struct {
	cluster inventory.Cluster
	name    string
	groups  []inventory.NodeGroup
	role    string
	scaling *inventory.Scaling
	// types are those that the NodePool may launch, sorted.
	types []string
	notes []inventory.NotCarried
}

// first is the group that speaks for all: groups of one pool are alike but for zone and size, or the user said that they are.
func (p *pool) first() inventory.NodeGroup { return p.groups[0] }

// note lists a setting that is not carried over.
func (p *pool) note(g inventory.NodeGroup, field, reason, do string) {
	n := inventory.NotCarried{NodeGroup: g.Name, Field: field, Reason: reason, Do: do}
	if !slices.Contains(p.notes, n) {
		p.notes = append(p.notes, n)
	}
}

// Pool translates the groups of a pool. nodeRole is the name of the IAM role for its nodes. The error is terminal: the
// groups have nothing in common that a NodePool could be made of.
func Pool(cluster inventory.Cluster, p inventory.Pool, groups []inventory.NodeGroup, nodeRole string) (inventory.Target, error) {
	if len(groups) == 0 {
		return inventory.Target{}, inventory.Terminal(fmt.Errorf("pool %s has no node group that exists: name one in spec.pools", p.Name))
	}
	if problems := validation.IsDNS1123Label(p.Name); len(problems) > 0 {
		return inventory.Target{}, inventory.Terminal(fmt.Errorf("pool %q cannot be the name of a NodePool: %s", p.Name, strings.Join(problems, "; ")))
	}
	for _, g := range groups {
		if missing := missing(g); missing != "" {
			return inventory.Target{}, inventory.Terminal(fmt.Errorf("pool %s: node group %s cannot be translated: %s", p.Name, g.Name, missing))
		}
	}
	t := &pool{cluster: cluster, name: p.Name, groups: groups, role: nodeRole, scaling: p.Scaling}
	own := t.instanceTypes()
	if len(own) == 0 {
		return inventory.Target{}, inventory.Terminal(fmt.Errorf("pool %s: no instance type could be read from node groups %v: check their launch templates", p.Name, p.NodeGroups))
	}
	t.types = t.widened(own, p.Families)
	nodeClass, err := t.nodeClass()
	if err != nil {
		return inventory.Target{}, err
	}
	nodePool := t.nodePool()
	t.differences()
	t.remainder()
	nodeClass.Annotations = map[string]string{v1alpha1.AnnotationTargetHash: hash(nodeClass.Spec)}
	nodePool.Annotations = map[string]string{v1alpha1.AnnotationTargetHash: hash(nodePool.Spec), annotationGroups: t.groupNames()}
	return inventory.Target{Pool: p.Name, NodePool: *nodePool, NodeClass: *nodeClass, NotCarried: t.notes}, nil
}

// missing says what of a group there is no reading of: half a group must not become a NodePool.
func missing(g inventory.NodeGroup) string {
	lt := g.LaunchTemplate
	switch {
	case lt.Asked != "" && lt.Version == "":
		return fmt.Sprintf("its launch template %s %s has no version %s; name one that exists", lt.ID, lt.Name, lt.Asked)
	case lt.Configuration != "" && lt.ImageID == "":
		return fmt.Sprintf("its launch configuration %s does not exist; give the group a launch template", lt.Configuration)
	case lt.UserDataSHA256 != "" && lt.UserData == "":
		return fmt.Sprintf("the user data of version %s of launch template %s, with which the migration began, is no longer the one in force; set the group back to that version until the migration is over", lt.Version, cmp.Or(lt.ID, lt.Name))
	}
	return ""
}

// annotationGroups has the full names of the node groups, which may be longer than any name or label in Kubernetes.
const annotationGroups = "castoff.sh/node-groups"

func (p *pool) groupNames() string {
	var names []string
	for _, g := range p.groups {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// hash tells targets apart; it is no promise to anybody else.
func hash(spec any) string {
	b, err := json.Marshal(spec)
	if err != nil {
		b = fmt.Appendf(nil, "%v", spec) // Kubernetes types always marshal
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
