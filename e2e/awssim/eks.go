package awssim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/schemas"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// Tags by which a test or the lab says where a cluster's real API server is. Give them to CreateCluster, or to
// TagResource once it is known.
const (
	tagEndpoint = "sim/endpoint" // its URL
	tagCA       = "sim/ca"       // its certificate authority: PEM in base64, as DescribeCluster shows it
)

// eksService simulates Amazon EKS: clusters, managed node groups, access entries, pod identity associations, add-ons.
//
// EKS drains the nodes that it ends itself, which is not simulated: such an instance stays in Terminating:Wait, and the
// time runs out as it does on AWS for pods that cannot be evicted. Whoever plays EKS's part in the cluster evicts the
// pods and completes the lifecycle action "Terminate-LC-Hook" of the group, by the API. An instance that somebody ended
// by name goes at once, as one that was drained before.
//
// A cluster in CONFIG_MAP or API_AND_CONFIG_MAP mode also lets in the roles of its aws-auth ConfigMap. The simulator
// knows the rows that EKS writes for node groups; the node bridge must look in the ConfigMap for those of others, and take
// out of it what EKS takes out (simapi.RoleRemoved).
//
// The keys of all tables but clusters begin with the cluster's name and a slash.
type eksService struct {
	s            *Server
	clusters     *table[types.Cluster]
	nodeGroups   *table[nodeGroup]
	entries      *table[accessEntry]
	associations *table[types.PodIdentityAssociation]
	addons       *table[types.Addon]
	updates      *table[update]
	// awsAuth holds the rows that EKS itself wrote into each cluster's aws-auth ConfigMap, by "cluster/role ARN".
	awsAuth map[string]bool
}

func newEKS(s *Server) *eksService {
	e := &eksService{
		s: s, clusters: newTable[types.Cluster](s), nodeGroups: newTable[nodeGroup](s), entries: newTable[accessEntry](s),
		associations: newTable[types.PodIdentityAssociation](s), addons: newTable[types.Addon](s), updates: newTable[update](s), awsAuth: map[string]bool{},
	}
	onREST(s, "eks.CreateCluster", schemas.CreateCluster, e.createCluster)
	onREST(s, "eks.DescribeCluster", schemas.DescribeCluster, e.describeCluster)
	onREST(s, "eks.ListClusters", schemas.ListClusters, e.listClusters)
	onREST(s, "eks.DeleteCluster", schemas.DeleteCluster, e.deleteCluster)
	onREST(s, "eks.TagResource", schemas.TagResource, e.tagResource)
	onREST(s, "eks.UntagResource", schemas.UntagResource, e.untagResource)
	onREST(s, "eks.ListTagsForResource", schemas.ListTagsForResource, e.listTagsForResource)
	e.registerNodeGroups()
	e.registerAccess()
	s.annotate = append(s.annotate, e.annotate)
	s.podIdentity = e.podIdentityRole
	s.autoscaling.held, s.autoscaling.reconciled = e.held, e.groupReconciled
	return e
}

func notFound(format string, args ...any) error {
	return errorStatus(http.StatusNotFound, "ResourceNotFoundException", format, args...)
}

func inUse(format string, args ...any) error {
	return errorStatus(http.StatusConflict, "ResourceInUseException", format, args...)
}

func invalidParameter(format string, args ...any) error {
	return errorf("InvalidParameterException", format, args...)
}

func (e *eksService) createCluster(_ *call, in *eks.CreateClusterInput) (*eks.CreateClusterOutput, error) {
	name := aws.ToString(in.Name)
	if _, exists := e.clusters.get(name); exists {
		return nil, inUse("Cluster already exists with name: %s", name)
	}
	id := strings.ToUpper(stableHex("cluster"+name, 32))
	vpc, err := e.clusterNetwork(name, in.ResourcesVpcConfig)
	if err != nil {
		return nil, err
	}
	c := types.Cluster{
		Name: in.Name, Arn: aws.String(e.arn("cluster/" + name)), RoleArn: in.RoleArn, Version: aws.String(or(in.Version, "1.34")), PlatformVersion: aws.String("eks.1"),
		Status: types.ClusterStatusActive, CreatedAt: aws.Time(e.s.now()), Tags: in.Tags, ResourcesVpcConfig: vpc, Health: &types.ClusterHealth{Issues: []types.ClusterIssue{}},
		AccessConfig:            &types.AccessConfigResponse{AuthenticationMode: types.AuthenticationModeConfigMap},
		KubernetesNetworkConfig: &types.KubernetesNetworkConfigResponse{IpFamily: types.IpFamilyIpv4, ServiceIpv4Cidr: aws.String("10.100.0.0/16")},
		ComputeConfig:           &types.ComputeConfigResponse{Enabled: aws.Bool(false)},
		Identity:                &types.Identity{Oidc: &types.OIDC{Issuer: aws.String("https://oidc.eks." + e.s.options.Region + ".amazonaws.com/id/" + id)}},
	}
	if a := in.AccessConfig; a != nil && a.AuthenticationMode != "" {
		c.AccessConfig.AuthenticationMode = a.AuthenticationMode
	}
	if n := in.KubernetesNetworkConfig; n != nil && n.ServiceIpv4Cidr != nil {
		c.KubernetesNetworkConfig.ServiceIpv4Cidr = n.ServiceIpv4Cidr
	}
	if m := in.ComputeConfig; m != nil {
		c.ComputeConfig = &types.ComputeConfigResponse{Enabled: aws.Bool(or(m.Enabled, false)), NodePools: m.NodePools, NodeRoleArn: m.NodeRoleArn}
	}
	place(&c, e.s.options.Region)
	e.clusters.put(name, c)
	e.addAddon(name, podIdentityAddon)
	return &eks.CreateClusterOutput{Cluster: &c}, nil
}

// place sets a cluster's endpoint and certificate authority from its tags, or to what leads nowhere.
func place(c *types.Cluster, region string) {
	endpoint, ok := c.Tags[tagEndpoint]
	if !ok {
		endpoint = "https://" + strings.ToUpper(stableHex("cluster"+aws.ToString(c.Name), 32)) + ".gr7." + region + ".eks.amazonaws.com"
	}
	ca, ok := c.Tags[tagCA]
	if !ok {
		ca = "Y2E="
	}
	c.Endpoint, c.CertificateAuthority = aws.String(endpoint), &types.Certificate{Data: aws.String(ca)}
}

// clusterNetwork makes the cluster's security group beside what the request names.
func (e *eksService) clusterNetwork(name string, in *types.VpcConfigRequest) (*types.VpcConfigResponse, error) {
	if in == nil || len(in.SubnetIds) == 0 {
		return nil, invalidParameter("Subnets must be specified for cluster %s", name)
	}
	var vpc *string
	for _, id := range in.SubnetIds {
		sn, ok := e.s.ec2.subnets.get(id)
		if !ok {
			return nil, invalidParameter("The subnet ID '%s' does not exist", id)
		}
		vpc = sn.VpcId
	}
	group := e.s.newID("sg")
	e.s.ec2.securityGroups.put(group, ec2types.SecurityGroup{
		GroupId: aws.String(group), GroupName: aws.String("eks-cluster-sg-" + name), VpcId: vpc, OwnerId: aws.String(accountID), Description: aws.String("EKS created security group"),
		Tags: []ec2types.Tag{{Key: aws.String("kubernetes.io/cluster/" + name), Value: aws.String("owned")}, {Key: aws.String("aws:eks:cluster-name"), Value: aws.String(name)}},
	})
	return &types.VpcConfigResponse{
		VpcId: vpc, SubnetIds: in.SubnetIds, SecurityGroupIds: in.SecurityGroupIds, ClusterSecurityGroupId: aws.String(group),
		EndpointPublicAccess: or(in.EndpointPublicAccess, true), EndpointPrivateAccess: or(in.EndpointPrivateAccess, false),
	}, nil
}

func (e *eksService) arn(resource string) string {
	return e.s.arn("eks", resource)
}

func (e *eksService) cluster(name *string) (types.Cluster, error) {
	return clusterIn(e.clusters.truth(), name)
}

func clusterIn(v view[types.Cluster], name *string) (types.Cluster, error) {
	c, ok := v.get(aws.ToString(name))
	if !ok {
		return c, notFound("No cluster found for name: %s.", aws.ToString(name))
	}
	return c, nil
}

func (e *eksService) describeCluster(c *call, in *eks.DescribeClusterInput) (*eks.DescribeClusterOutput, error) {
	cl, err := clusterIn(e.clusters.asOf(c.readTime()), in.Name)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeClusterOutput{Cluster: &cl}, nil
}

func (e *eksService) listClusters(c *call, in *eks.ListClustersInput) (*eks.ListClustersOutput, error) {
	list, next, err := listNames(e.clusters.asOf(c.readTime()), "", in.MaxResults, in.NextToken, func(c types.Cluster) string { return aws.ToString(c.Name) })
	return &eks.ListClustersOutput{Clusters: list, NextToken: next}, err
}

// listNames pages through the names of a cluster's things.
func listNames[T any](v view[T], cluster string, limit *int32, token *string, name func(T) string) ([]string, *string, error) {
	names := []string{}
	for _, x := range under(v, cluster) {
		names = append(names, name(x))
	}
	slices.Sort(names)
	return pageOf(v.t.s, names, limit, 100, token)
}

// under lists the rows of a cluster, or all when it is empty.
func under[T any](v view[T], cluster string) (rows []T) {
	for _, key := range v.t.keys {
		if cluster == "" || strings.HasPrefix(key, cluster+"/") {
			if x, ok := v.get(key); ok {
				rows = append(rows, x)
			}
		}
	}
	return rows
}

func (e *eksService) deleteCluster(_ *call, in *eks.DeleteClusterInput) (*eks.DeleteClusterOutput, error) {
	c, err := e.cluster(in.Name)
	if err != nil {
		return nil, err
	}
	if len(under(e.nodeGroups.truth(), *in.Name)) > 0 {
		return nil, inUse("Cluster has nodegroups attached")
	}
	e.clusters.delete(*in.Name)
	c.Status = types.ClusterStatusDeleting
	return &eks.DeleteClusterOutput{Cluster: &c}, nil
}

// tagged finds the tags of whatever has that ARN, and how to replace them.
func (e *eksService) tagged(arn *string) (tags map[string]string, store func(map[string]string), err error) {
	want := aws.ToString(arn)
	for _, c := range e.clusters.list() {
		if aws.ToString(c.Arn) == want {
			return c.Tags, func(t map[string]string) {
				c.Tags = t
				place(&c, e.s.options.Region)
				e.clusters.put(aws.ToString(c.Name), c)
			}, nil
		}
	}
	for _, n := range e.nodeGroups.list() {
		if aws.ToString(n.NodegroupArn) == want {
			return n.Tags, func(t map[string]string) { n.Tags = t; e.nodeGroups.put(n.key(), n) }, nil
		}
	}
	for _, a := range e.associations.list() {
		if aws.ToString(a.AssociationArn) == want {
			return a.Tags, func(t map[string]string) { a.Tags = t; e.associations.put(associationKey(a), a) }, nil
		}
	}
	for _, x := range e.entries.list() {
		if aws.ToString(x.AccessEntryArn) == want {
			return x.Tags, func(t map[string]string) { x.Tags = t; e.entries.put(x.key(), x) }, nil
		}
	}
	return nil, nil, errorStatus(http.StatusNotFound, "NotFoundException", "The resource %s does not exist", want)
}

func (e *eksService) tagResource(_ *call, in *eks.TagResourceInput) (*eks.TagResourceOutput, error) {
	tags, store, err := e.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	maps.Copy(all, tags)
	maps.Copy(all, in.Tags)
	store(all)
	return &eks.TagResourceOutput{}, nil
}

func (e *eksService) untagResource(_ *call, in *eks.UntagResourceInput) (*eks.UntagResourceOutput, error) {
	tags, store, err := e.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	for _, k := range in.TagKeys {
		delete(tags, k)
	}
	store(tags)
	return &eks.UntagResourceOutput{}, nil
}

func (e *eksService) listTagsForResource(_ *call, in *eks.ListTagsForResourceInput) (*eks.ListTagsForResourceOutput, error) {
	tags, _, err := e.tagged(in.ResourceArn)
	return &eks.ListTagsForResourceOutput{Tags: tags}, err
}

// annotate tells the node bridge what EKS knows of an instance.
func (e *eksService) annotate(i *simapi.Instance) {
	if n, ok := e.nodeGroups.get(i.Cluster + "/" + i.NodeGroup); ok && i.NodeGroup != "" {
		i.Labels, i.Taints = n.nodeLabels(), n.nodeTaints()
	}
	if _, known := e.clusters.get(i.Cluster); known {
		i.RoleAuthorised = e.authorised(i.Cluster, i.RoleARN)
	}
}

// announce shows the node bridge the instances that a change concerns.
func (e *eksService) announce(concerned func(simapi.Instance) bool) {
	for _, i := range e.s.ec2.instances.truth().where(func(i *instance) bool { return i.live() }) {
		if concerned(e.s.ec2.sideInstance(i)) {
			e.s.ec2.announce(i.id())
		}
	}
}

// soon does something after the time that EKS takes to act.
func (e *eksService) soon(f func()) { e.s.after(max(e.s.settings.ScalingDelay, time.Millisecond), f) }
