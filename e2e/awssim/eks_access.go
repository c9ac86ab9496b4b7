package awssim

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/schemas"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

const (
	entryStandard = "STANDARD"
	entryLinux    = "EC2_LINUX"
)

// accessEntry is an access entry; one that EKS made for a node group goes with the last group that uses its role.
type accessEntry struct {
	types.AccessEntry
	ByEKS bool
}

func (x *accessEntry) key() string {
	return aws.ToString(x.ClusterName) + "/" + aws.ToString(x.PrincipalArn)
}

func (e *eksService) registerAccess() {
	s := e.s
	onREST(s, "eks.CreateAccessEntry", schemas.CreateAccessEntry, e.createAccessEntry)
	onREST(s, "eks.DescribeAccessEntry", schemas.DescribeAccessEntry, e.describeAccessEntry)
	onREST(s, "eks.ListAccessEntries", schemas.ListAccessEntries, e.listAccessEntries)
	onREST(s, "eks.DeleteAccessEntry", schemas.DeleteAccessEntry, e.deleteAccessEntry)
	onREST(s, "eks.CreatePodIdentityAssociation", schemas.CreatePodIdentityAssociation, e.createAssociation)
	onREST(s, "eks.DescribePodIdentityAssociation", schemas.DescribePodIdentityAssociation, e.describeAssociation)
	onREST(s, "eks.ListPodIdentityAssociations", schemas.ListPodIdentityAssociations, e.listAssociations)
	onREST(s, "eks.UpdatePodIdentityAssociation", schemas.UpdatePodIdentityAssociation, e.updateAssociation)
	onREST(s, "eks.DeletePodIdentityAssociation", schemas.DeletePodIdentityAssociation, e.deleteAssociation)
	onREST(s, "eks.ListAddons", schemas.ListAddons, e.listAddons)
	onREST(s, "eks.DescribeAddon", schemas.DescribeAddon, e.describeAddon)
	onREST(s, "eks.CreateAddon", schemas.CreateAddon, e.createAddon)
	onREST(s, "eks.DeleteAddon", schemas.DeleteAddon, e.deleteAddon)
}

// takesEntries answers what EKS does where a cluster knows only the aws-auth ConfigMap.
func (e *eksService) takesEntries(name *string) (types.Cluster, error) {
	c, err := e.cluster(name)
	if err == nil && c.AccessConfig.AuthenticationMode == types.AuthenticationModeConfigMap {
		return c, errorf("InvalidRequestException", "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.")
	}
	return c, err
}

func (e *eksService) createAccessEntry(_ *call, in *eks.CreateAccessEntryInput) (*eks.CreateAccessEntryOutput, error) {
	if _, err := e.takesEntries(in.ClusterName); err != nil {
		return nil, err
	}
	kind := or(in.Type, entryStandard)
	principal := aws.ToString(in.PrincipalArn)
	switch {
	case !strings.HasPrefix(principal, "arn:") || !strings.Contains(principal, ":iam::"):
		return nil, invalidParameter("The principalArn parameter format is not valid")
	case kind != entryStandard && (in.Username != nil || len(in.KubernetesGroups) > 0):
		return nil, invalidParameter("The username and kubernetesGroups parameters cannot be set for access entries of type %s", kind)
	}
	x := newEntry(*in.ClusterName, principal, kind)
	if _, exists := e.entries.get(x.key()); exists {
		return nil, inUse("The specified access entry resource is already in use on this cluster.")
	}
	x.Tags = in.Tags
	if kind == entryStandard {
		x.Username, x.KubernetesGroups = aws.String(or(in.Username, principal)), in.KubernetesGroups
	}
	e.storeEntry(&x)
	return &eks.CreateAccessEntryOutput{AccessEntry: &x.AccessEntry}, nil
}

func newEntry(cluster, principal, kind string) accessEntry {
	x := accessEntry{AccessEntry: types.AccessEntry{ClusterName: aws.String(cluster), PrincipalArn: aws.String(principal), Type: aws.String(kind), KubernetesGroups: []string{}}}
	if kind == entryLinux {
		x.Username, x.KubernetesGroups = aws.String("system:node:{{EC2PrivateDNSName}}"), []string{"system:nodes"}
	}
	return x
}

func (e *eksService) storeEntry(x *accessEntry) {
	x.CreatedAt, x.ModifiedAt = aws.Time(e.s.now()), aws.Time(e.s.now())
	role := lastSegment(aws.ToString(x.PrincipalArn))
	x.AccessEntryArn = aws.String(e.arn("access-entry/" + aws.ToString(x.ClusterName) + "/role/" + accountID + "/" + role + "/" + e.s.uuid()))
	e.entries.put(x.key(), *x)
	e.roleChanged(aws.ToString(x.ClusterName), aws.ToString(x.PrincipalArn))
}

// roleChanged shows the node bridge the instances whose role may join now, or may not any more.
func (e *eksService) roleChanged(cluster, role string) {
	e.announce(func(i simapi.Instance) bool { return i.Cluster == cluster && i.RoleARN == role })
}

func (e *eksService) describeAccessEntry(c *call, in *eks.DescribeAccessEntryInput) (*eks.DescribeAccessEntryOutput, error) {
	if _, err := e.takesEntries(in.ClusterName); err != nil {
		return nil, err
	}
	x, ok := e.entries.asOf(c.readTime()).get(*in.ClusterName + "/" + aws.ToString(in.PrincipalArn))
	if !ok {
		return nil, noEntry(in.PrincipalArn)
	}
	return &eks.DescribeAccessEntryOutput{AccessEntry: &x.AccessEntry}, nil
}

func noEntry(principal *string) error {
	return notFound("The specified principalArn could not be found: %s", aws.ToString(principal))
}

func (e *eksService) listAccessEntries(c *call, in *eks.ListAccessEntriesInput) (*eks.ListAccessEntriesOutput, error) {
	if _, err := e.takesEntries(in.ClusterName); err != nil {
		return nil, err
	}
	list, next, err := listNames(e.entries.asOf(c.readTime()), *in.ClusterName, in.MaxResults, in.NextToken, func(x accessEntry) string { return aws.ToString(x.PrincipalArn) })
	return &eks.ListAccessEntriesOutput{AccessEntries: list, NextToken: next}, err
}

func (e *eksService) deleteAccessEntry(_ *call, in *eks.DeleteAccessEntryInput) (*eks.DeleteAccessEntryOutput, error) {
	if _, err := e.takesEntries(in.ClusterName); err != nil {
		return nil, err
	}
	key := *in.ClusterName + "/" + aws.ToString(in.PrincipalArn)
	if _, ok := e.entries.get(key); !ok {
		return nil, noEntry(in.PrincipalArn)
	}
	e.entries.delete(key)
	e.roleChanged(*in.ClusterName, *in.PrincipalArn)
	return &eks.DeleteAccessEntryOutput{}, nil
}

// authorise lets a node group's role join, as EKS does by itself: in aws-auth where the cluster reads it, and by an
// access entry where it knows them.
func (e *eksService) authorise(c types.Cluster, role string) {
	mode := c.AccessConfig.AuthenticationMode
	if mode != types.AuthenticationModeApi {
		e.awsAuth[aws.ToString(c.Name)+"/"+role] = true
	}
	x := newEntry(aws.ToString(c.Name), role, entryLinux)
	if _, exists := e.entries.get(x.key()); mode != types.AuthenticationModeConfigMap && !exists {
		x.ByEKS = true
		e.storeEntry(&x)
	}
}

// withdraw takes back what authorise gave, when the last node group of a role is deleted. Other nodes with that role
// are cut off: https://docs.aws.amazon.com/eks/latest/userguide/delete-managed-node-group.html
func (e *eksService) withdraw(cluster, role string) {
	key := cluster + "/" + role
	delete(e.awsAuth, key)
	if x, ok := e.entries.get(key); ok && x.ByEKS {
		e.entries.delete(key)
	}
	e.roleChanged(cluster, role)
	e.s.stream = append(e.s.stream, simapi.Event{Time: e.s.now(), RoleRemoved: &simapi.RoleRemoved{Cluster: cluster, RoleARN: role}})
	e.s.dirty = true
}

// authorised says whether nodes with that role may join a cluster, as far as EKS knows. Rows that somebody writes into
// aws-auth are in the cluster: whoever plays the nodes must look there too.
func (e *eksService) authorised(cluster, role string) bool {
	x, ok := e.entries.get(cluster + "/" + role)
	return e.awsAuth[cluster+"/"+role] || ok && aws.ToString(x.Type) != entryStandard
}
