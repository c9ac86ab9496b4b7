package awssim

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// services are the simulated AWS services; each reaches the others through the Server.
type services struct {
	sqs         *sqsService
	events      *eventsService
	iam         *iamService
	ec2         *ec2Service
	ssm         *ssmService
	autoscaling *autoscalingService
	cloudwatch  *cloudwatchService
	quotas      *quotasService
	eks         *eksService
}

// setUp builds the services over an empty world. Every constructor registers its operations; a service may use those
// made before it in its constructor, and all of them in its handlers.
func (s *Server) setUp() {
	s.seeding = true
	defer func() { s.seeding = false }()
	s.registerSTS()
	s.registerPricing()
	s.sqs = newSQS(s)
	s.events = newEvents(s)
	s.iam = newIAM(s)
	s.ec2 = newEC2(s)
	s.ssm = newSSM(s)
	s.cloudwatch = newCloudWatch(s)
	s.autoscaling = newAutoscaling(s)
	s.quotas = newServiceQuotas(s)
	s.eks = newEKS(s)
}

// extensions are what one service lets another contribute. A service sets them in its constructor; all may be nil.
type extensions struct {
	// annotate fills in what Auto Scaling and EKS know of an instance: its group, node group, cluster, labels, taints,
	// and whether its role may join.
	annotate []func(*simapi.Instance)
	// onState runs after an instance changed its state (pending when launched), with what caused it.
	onState []func(i instance, was types.InstanceStateName, by string)
	// groups lists the Auto Scaling groups for the side door.
	groups func() []simapi.Group
	// unhealthy tells Auto Scaling that an instance failed its health check.
	unhealthy func(instanceID string)
	// atRisk tells Auto Scaling that EC2 recommends to rebalance an instance away or warned of its spot interruption.
	atRisk func(instanceID string)
	// podIdentity finds the role that EKS Pod Identity gives a ServiceAccount; false without an association.
	podIdentity func(namespace, serviceAccount string) (roleARN string, ok bool)
	// vCPULimit is the account's quota of vCPUs for running instances of the type; false where there is none.
	vCPULimit func(instanceType string, spot bool) (limit float64, ok bool)
}

// DefaultSettings are the binary's, close to what AWS takes but kind to whoever waits.
var DefaultSettings = simapi.Settings{PendingDelay: time.Second, BootDelay: 5 * time.Second, ShutdownDelay: 2 * time.Second, ScalingDelay: time.Second}
