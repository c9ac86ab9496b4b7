package bridge

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
)

// TestDeletedNodeGroupLosesItsRow goes all the way, from eks:DeleteNodegroup to the cluster's aws-auth: the row stays while
// another managed group has the role, and goes with the last one. Rows of other roles keep their bytes.
func TestDeletedNodeGroupLosesItsRow(t *testing.T) {
	g := NewWithT(t)
	sim := simtest.Start(t)
	api := eks.NewFromConfig(sim.Config)
	subnet := clusterHarbor(t, sim, api)
	for _, name := range []string{"one", "two"} {
		_, err := api.CreateNodegroup(t.Context(), &eks.CreateNodegroupInput{
			ClusterName: aws.String("harbor"), NodegroupName: aws.String(name), NodeRole: aws.String(nodesRole), Subnets: []string{subnet},
			ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(1), DesiredSize: aws.Int32(0)},
		})
		simtest.Check(t, err)
	}
	sim.Sim.Advance(time.Minute)

	client := fake.NewClientset(awsAuthWith(karpentersRow + nodesRow))
	address, following := followed(t, *sim.Config.BaseEndpoint)
	b := New(Config{Client: client, Simulator: address, JoinedFile: filepath.Join(t.TempDir(), "joined"), Log: slog.New(slog.DiscardHandler)})
	run(t, b)
	<-following
	roles := func(g Gomega) string {
		got, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "aws-auth", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return got.Data["mapRoles"]
	}
	remove := func(name string) {
		_, err := api.DeleteNodegroup(t.Context(), &eks.DeleteNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: aws.String(name)})
		simtest.Check(t, err)
		sim.Sim.Advance(time.Minute)
	}
	remove("one")
	g.Expect(roles(g)).To(Equal(karpentersRow + nodesRow))
	remove("two")
	g.Eventually(roles, patience, "20ms").Should(Equal(karpentersRow))
}

// followed is a way to the simulator that tells when its events are being followed: an event before that is told to nobody.
func followed(t *testing.T, simulator string) (address string, following chan struct{}) {
	t.Helper()
	target, err := url.Parse(simulator)
	simtest.Check(t, err)
	following = make(chan struct{})
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path == simapi.PathEvents {
			close(following)
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, following
}

// clusterHarbor makes a cluster that knows aws-auth alone, with the nodes' role, and returns a subnet of it.
func clusterHarbor(t *testing.T, sim simtest.World, api *eks.Client) string {
	t.Helper()
	network := ec2.NewFromConfig(sim.Config)
	vpc, err := network.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	simtest.Check(t, err)
	subnet, err := network.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, AvailabilityZone: aws.String("us-east-1a"), CidrBlock: aws.String("10.0.0.0/24")})
	simtest.Check(t, err)
	_, err = iam.NewFromConfig(sim.Config).CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: aws.String("nodes"), AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[]}`)})
	simtest.Check(t, err)
	_, err = api.CreateCluster(t.Context(), &eks.CreateClusterInput{
		Name: aws.String("harbor"), Version: aws.String("1.34"), RoleArn: aws.String("arn:aws:iam::123456789012:role/cluster"),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{*subnet.Subnet.SubnetId}},
		AccessConfig:       &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeConfigMap},
	})
	simtest.Check(t, err)
	return *subnet.Subnet.SubnetId
}
