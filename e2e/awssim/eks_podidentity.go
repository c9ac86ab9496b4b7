package awssim

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

func associationKey(a types.PodIdentityAssociation) string {
	return aws.ToString(a.ClusterName) + "/" + aws.ToString(a.AssociationId)
}

// associationFor finds the association of a ServiceAccount.
func associationFor(list []types.PodIdentityAssociation, namespace, serviceAccount string) (types.PodIdentityAssociation, bool) {
	for _, a := range list {
		if aws.ToString(a.Namespace) == namespace && aws.ToString(a.ServiceAccount) == serviceAccount {
			return a, true
		}
	}
	return types.PodIdentityAssociation{}, false
}

// podIdentityRole is the role of a ServiceAccount, whichever cluster it is in: the simulator's agents serve one.
func (e *eksService) podIdentityRole(namespace, serviceAccount string) (string, bool) {
	a, ok := associationFor(e.associations.list(), namespace, serviceAccount)
	return aws.ToString(a.RoleArn), ok
}

func (e *eksService) createAssociation(_ *call, in *eks.CreatePodIdentityAssociationInput) (*eks.CreatePodIdentityAssociationOutput, error) {
	if _, err := e.cluster(in.ClusterName); err != nil {
		return nil, err
	}
	if old, exists := associationFor(under(e.associations.truth(), *in.ClusterName), aws.ToString(in.Namespace), aws.ToString(in.ServiceAccount)); exists {
		return nil, inUse("Association already exists: %s", aws.ToString(old.AssociationId))
	}
	if err := e.checkRole(in.RoleArn); err != nil {
		return nil, err
	}
	id := e.s.newID("a")
	a := types.PodIdentityAssociation{
		AssociationId: aws.String(id), AssociationArn: aws.String(e.arn("podidentityassociation/" + *in.ClusterName + "/" + id)), ClusterName: in.ClusterName,
		Namespace: in.Namespace, ServiceAccount: in.ServiceAccount, RoleArn: in.RoleArn, TargetRoleArn: in.TargetRoleArn, DisableSessionTags: in.DisableSessionTags,
		Policy: in.Policy, Tags: in.Tags, CreatedAt: aws.Time(e.s.now()), ModifiedAt: aws.Time(e.s.now()),
	}
	e.associations.put(associationKey(a), a)
	return &eks.CreatePodIdentityAssociationOutput{Association: &a}, nil
}

func (e *eksService) checkRole(arn *string) error {
	if _, ok := e.s.iam.roles.get(lastSegment(aws.ToString(arn))); !ok {
		return invalidParameter("Role provided in the request does not exist: %s", aws.ToString(arn))
	}
	return nil
}

func (e *eksService) association(v view[types.PodIdentityAssociation], cluster, id *string) (types.PodIdentityAssociation, error) {
	if _, err := e.cluster(cluster); err != nil {
		return types.PodIdentityAssociation{}, err
	}
	a, ok := v.get(aws.ToString(cluster) + "/" + aws.ToString(id))
	if !ok {
		return a, notFound("The specified association could not be found: %s", aws.ToString(id))
	}
	return a, nil
}

func (e *eksService) describeAssociation(c *call, in *eks.DescribePodIdentityAssociationInput) (*eks.DescribePodIdentityAssociationOutput, error) {
	a, err := e.association(e.associations.asOf(c.readTime()), in.ClusterName, in.AssociationId)
	if err != nil {
		return nil, err
	}
	return &eks.DescribePodIdentityAssociationOutput{Association: &a}, nil
}

func (e *eksService) listAssociations(c *call, in *eks.ListPodIdentityAssociationsInput) (*eks.ListPodIdentityAssociationsOutput, error) {
	if _, err := e.cluster(in.ClusterName); err != nil {
		return nil, err
	}
	list := []types.PodIdentityAssociationSummary{}
	for _, a := range under(e.associations.asOf(c.readTime()), *in.ClusterName) {
		if or(in.Namespace, aws.ToString(a.Namespace)) == aws.ToString(a.Namespace) && or(in.ServiceAccount, aws.ToString(a.ServiceAccount)) == aws.ToString(a.ServiceAccount) {
			list = append(list, types.PodIdentityAssociationSummary{AssociationId: a.AssociationId, AssociationArn: a.AssociationArn, ClusterName: a.ClusterName, Namespace: a.Namespace, ServiceAccount: a.ServiceAccount})
		}
	}
	list, next, err := pageOf(e.s, list, in.MaxResults, 100, in.NextToken)
	return &eks.ListPodIdentityAssociationsOutput{Associations: list, NextToken: next}, err
}

func (e *eksService) updateAssociation(_ *call, in *eks.UpdatePodIdentityAssociationInput) (*eks.UpdatePodIdentityAssociationOutput, error) {
	a, err := e.association(e.associations.truth(), in.ClusterName, in.AssociationId)
	if err != nil {
		return nil, err
	}
	if in.RoleArn != nil {
		if err := e.checkRole(in.RoleArn); err != nil {
			return nil, err
		}
	}
	set(&a.RoleArn, in.RoleArn)
	set(&a.TargetRoleArn, in.TargetRoleArn)
	set(&a.DisableSessionTags, in.DisableSessionTags)
	set(&a.Policy, in.Policy)
	a.ModifiedAt = aws.Time(e.s.now())
	e.associations.put(associationKey(a), a)
	return &eks.UpdatePodIdentityAssociationOutput{Association: &a}, nil
}

func (e *eksService) deleteAssociation(_ *call, in *eks.DeletePodIdentityAssociationInput) (*eks.DeletePodIdentityAssociationOutput, error) {
	a, err := e.association(e.associations.truth(), in.ClusterName, in.AssociationId)
	if err != nil {
		return nil, err
	}
	e.associations.delete(associationKey(a))
	return &eks.DeletePodIdentityAssociationOutput{Association: &a}, nil
}
