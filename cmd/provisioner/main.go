// Command provisioner is castoff's built-in engine: Karpenter with its AWS provider, linked as libraries so that no foreign
// image registry is needed. It understands Karpenter's own environment variables and flags, and adds --version.
//
// It has to be a process of its own: Karpenter parses os.Args, owns the process's logger, and ends the process on a bad start.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	"github.com/aws/karpenter-provider-aws/pkg/cloudprovider/registrationhooks"
	awscontrollers "github.com/aws/karpenter-provider-aws/pkg/controllers"
	awsoperator "github.com/aws/karpenter-provider-aws/pkg/operator"
	corecloudprovider "sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/metrics"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

func main() {
	if versionAsked(os.Args[1:]) {
		fmt.Println(version(debug.ReadBuildInfo()))
		return
	}
	ctx, op := awsoperator.NewOperator(operator.NewOperator())
	// The provider keeps this gate in a package variable that nothing but main sets.
	awsv1.CapacityReservationsEnabled = options.FromContext(ctx).FeatureGates.ReservedCapacity

	measured := metrics.Decorate(cloudprovider.New(op.InstanceTypesProvider, op.InstanceProvider, op.EventRecorder, op.GetClient(),
		op.AMIProvider, op.SecurityGroupProvider, op.CapacityReservationProvider, op.PlacementGroupProvider, op.InstanceTypeStore, op.CABundle))
	overlaid := overlay.Decorate(measured, op.GetClient(), op.InstanceTypeStore)
	addCoreControllers(ctx, op, measured, overlaid)
	addAWSControllers(ctx, op, overlaid)
	op.Start(ctx)
}

// addCoreControllers adds what decides: provisioning, disruption, termination. The overlay controller needs prices that no
// overlay has changed yet, hence both clouds.
func addCoreControllers(ctx context.Context, op *awsoperator.Operator, measured, overlaid corecloudprovider.CloudProvider) {
	cluster := state.NewCluster(op.Clock, op.GetClient(), overlaid)
	placement := controllers.WithRegistrationHook(registrationhooks.NewPlacementGroupRegistrationHook(op.InstanceProvider))
	op.WithControllers(ctx, controllers.NewControllers(ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder,
		overlaid, measured, cluster, op.InstanceTypeStore, placement)...)
}

// addAWSControllers adds what keeps EC2NodeClasses, prices, images and interruption messages up to date.
func addAWSControllers(ctx context.Context, op *awsoperator.Operator, cloud corecloudprovider.CloudProvider) {
	op.WithControllers(ctx, awscontrollers.NewControllers(ctx, op.Manager, op.Config, op.Clock, op.EC2API, op.GetClient(),
		op.EventRecorder, op.UnavailableOfferingsCache, op.SSMCache, op.ValidationCache, op.RecreationCache, cloud,
		op.SubnetProvider, op.SecurityGroupProvider, op.InstanceProfileProvider, op.InstanceProvider, op.PricingProvider,
		op.AMIProvider, op.LaunchTemplateProvider, op.VersionProvider, op.InstanceTypesProvider, op.CapacityReservationProvider,
		op.PlacementGroupProvider, op.AMIResolver, op.ZonalShiftProvider, op.InstanceStatusProvider, op.CABundle)...)
}

func versionAsked(args []string) bool {
	return len(args) == 1 && (args[0] == "--version" || args[0] == "-version")
}

// version names castoff's own version and those of the two Karpenter modules in the binary: an engine is judged by the latter.
func version(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "provisioner (built without module information)"
	}
	text := "provisioner " + info.Main.Version
	for _, dep := range info.Deps {
		switch dep.Path {
		case "sigs.k8s.io/karpenter", "github.com/aws/karpenter-provider-aws":
			text += fmt.Sprintf("\n%s %s", dep.Path, dep.Version)
		}
	}
	return text
}
