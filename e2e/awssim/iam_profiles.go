package awssim

import (
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

func (m *iamService) registerProfiles() {
	on(m.s, "iam.CreateInstanceProfile", m.createInstanceProfile)
	on(m.s, "iam.GetInstanceProfile", m.getInstanceProfile)
	on(m.s, "iam.DeleteInstanceProfile", m.deleteInstanceProfile)
	on(m.s, "iam.ListInstanceProfiles", m.listInstanceProfiles)
	on(m.s, "iam.ListInstanceProfilesForRole", m.listInstanceProfilesForRole)
	on(m.s, "iam.AddRoleToInstanceProfile", m.addRoleToInstanceProfile)
	on(m.s, "iam.RemoveRoleFromInstanceProfile", m.removeRoleFromInstanceProfile)
	on(m.s, "iam.TagInstanceProfile", m.tagInstanceProfile)
	on(m.s, "iam.UntagInstanceProfile", m.untagInstanceProfile)
	on(m.s, "iam.ListInstanceProfileTags", m.listInstanceProfileTags)
}

func (m *iamService) profile(name *string) (types.InstanceProfile, error) {
	p, ok := m.profiles.get(aws.ToString(name))
	if !ok {
		return p, noSuchEntity("Instance Profile %s cannot be found.", aws.ToString(name))
	}
	return p, nil
}

func (m *iamService) createInstanceProfile(_ *call, in *iam.CreateInstanceProfileInput) (*iam.CreateInstanceProfileOutput, error) {
	name := aws.ToString(in.InstanceProfileName)
	if _, ok := m.profiles.get(name); ok {
		return nil, entityAlreadyExists("Instance Profile %s already exists.", name)
	}
	path := firstOf(aws.ToString(in.Path), "/")
	p := types.InstanceProfile{
		InstanceProfileName: in.InstanceProfileName, InstanceProfileId: aws.String("AIPA" + strings.ToUpper(stableHex(name, 16))), Path: aws.String(path),
		Arn: aws.String(m.s.globalARN("iam", "instance-profile"+path+name)), CreateDate: aws.Time(m.s.now().UTC()), Roles: []types.Role{}, Tags: in.Tags,
	}
	m.profiles.put(name, p)
	return &iam.CreateInstanceProfileOutput{InstanceProfile: &p}, nil
}

func (m *iamService) getInstanceProfile(_ *call, in *iam.GetInstanceProfileInput) (*iam.GetInstanceProfileOutput, error) {
	p, err := m.profile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	return &iam.GetInstanceProfileOutput{InstanceProfile: &p}, nil
}

func (m *iamService) deleteInstanceProfile(_ *call, in *iam.DeleteInstanceProfileInput) (*iam.DeleteInstanceProfileOutput, error) {
	p, err := m.profile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	if len(p.Roles) > 0 {
		return nil, deleteConflict("Cannot delete entity, must remove roles from instance profile first.")
	}
	m.profiles.delete(aws.ToString(in.InstanceProfileName))
	return &iam.DeleteInstanceProfileOutput{}, nil
}

func (m *iamService) listInstanceProfiles(_ *call, in *iam.ListInstanceProfilesInput) (*iam.ListInstanceProfilesOutput, error) {
	rows, next, err := paged(m.s, in.Marker, pageSize(in.MaxItems, 100), func() ([]types.InstanceProfile, error) {
		return m.profiles.truth().where(func(p *types.InstanceProfile) bool {
			return strings.HasPrefix(aws.ToString(p.Path), aws.ToString(in.PathPrefix))
		}), nil
	})
	return &iam.ListInstanceProfilesOutput{InstanceProfiles: append([]types.InstanceProfile{}, rows...), Marker: next, IsTruncated: next != nil}, err
}

func (m *iamService) profilesOf(roleName string) []types.InstanceProfile {
	return m.profiles.truth().where(func(p *types.InstanceProfile) bool {
		return slices.ContainsFunc(p.Roles, func(r types.Role) bool { return aws.ToString(r.RoleName) == roleName })
	})
}

func (m *iamService) listInstanceProfilesForRole(_ *call, in *iam.ListInstanceProfilesForRoleInput) (*iam.ListInstanceProfilesForRoleOutput, error) {
	rows, next, err := paged(m.s, in.Marker, pageSize(in.MaxItems, 100), func() ([]types.InstanceProfile, error) {
		_, err := m.role(in.RoleName)
		return m.profilesOf(aws.ToString(in.RoleName)), err
	})
	return &iam.ListInstanceProfilesForRoleOutput{InstanceProfiles: append([]types.InstanceProfile{}, rows...), Marker: next, IsTruncated: next != nil}, err
}

func (m *iamService) addRoleToInstanceProfile(_ *call, in *iam.AddRoleToInstanceProfileInput) (*iam.AddRoleToInstanceProfileOutput, error) {
	p, err := m.profile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	r, err := m.role(in.RoleName)
	if err != nil {
		return nil, err
	}
	if len(p.Roles) > 0 {
		return nil, errorStatus(http.StatusConflict, "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	p.Roles = []types.Role{*r.shown()}
	m.profiles.put(aws.ToString(in.InstanceProfileName), p)
	return &iam.AddRoleToInstanceProfileOutput{}, nil
}

func (m *iamService) removeRoleFromInstanceProfile(_ *call, in *iam.RemoveRoleFromInstanceProfileInput) (*iam.RemoveRoleFromInstanceProfileOutput, error) {
	p, err := m.profile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	if len(p.Roles) == 0 || aws.ToString(p.Roles[0].RoleName) != aws.ToString(in.RoleName) {
		return nil, noSuchEntity("The role with name %s cannot be found in the instance profile.", aws.ToString(in.RoleName))
	}
	p.Roles = []types.Role{}
	m.profiles.put(aws.ToString(in.InstanceProfileName), p)
	return &iam.RemoveRoleFromInstanceProfileOutput{}, nil
}

func (m *iamService) changeProfile(name *string, change func(*types.InstanceProfile)) error {
	if !m.profiles.update(aws.ToString(name), change) {
		_, err := m.profile(name)
		return err
	}
	return nil
}

func (m *iamService) tagInstanceProfile(_ *call, in *iam.TagInstanceProfileInput) (*iam.TagInstanceProfileOutput, error) {
	return &iam.TagInstanceProfileOutput{}, m.changeProfile(in.InstanceProfileName, func(p *types.InstanceProfile) { p.Tags = mergeIAMTags(p.Tags, in.Tags) })
}

func (m *iamService) untagInstanceProfile(_ *call, in *iam.UntagInstanceProfileInput) (*iam.UntagInstanceProfileOutput, error) {
	return &iam.UntagInstanceProfileOutput{}, m.changeProfile(in.InstanceProfileName, func(p *types.InstanceProfile) { p.Tags = dropIAMTags(p.Tags, in.TagKeys) })
}

func (m *iamService) listInstanceProfileTags(_ *call, in *iam.ListInstanceProfileTagsInput) (*iam.ListInstanceProfileTagsOutput, error) {
	p, err := m.profile(in.InstanceProfileName)
	return &iam.ListInstanceProfileTagsOutput{Tags: append([]types.Tag{}, p.Tags...)}, err
}

func (m *iamService) registerProviders() {
	on(m.s, "iam.CreateOpenIDConnectProvider", m.createOpenIDConnectProvider)
	on(m.s, "iam.GetOpenIDConnectProvider", m.getOpenIDConnectProvider)
	on(m.s, "iam.ListOpenIDConnectProviders", m.listOpenIDConnectProviders)
	on(m.s, "iam.DeleteOpenIDConnectProvider", m.deleteOpenIDConnectProvider)
}

func (m *iamService) createOpenIDConnectProvider(_ *call, in *iam.CreateOpenIDConnectProviderInput) (*iam.CreateOpenIDConnectProviderOutput, error) {
	issuer := strings.TrimPrefix(aws.ToString(in.Url), "https://")
	p := oidcProvider{ARN: m.s.globalARN("iam", "oidc-provider/"+issuer), URL: issuer, Clients: in.ClientIDList, Thumbprints: in.ThumbprintList, Tags: in.Tags}
	if _, ok := m.providers.get(p.ARN); ok {
		return nil, entityAlreadyExists("Provider with url %s already exists.", aws.ToString(in.Url))
	}
	m.providers.put(p.ARN, p)
	return &iam.CreateOpenIDConnectProviderOutput{OpenIDConnectProviderArn: aws.String(p.ARN), Tags: p.Tags}, nil
}

func (m *iamService) getOpenIDConnectProvider(_ *call, in *iam.GetOpenIDConnectProviderInput) (*iam.GetOpenIDConnectProviderOutput, error) {
	p, ok := m.providers.get(aws.ToString(in.OpenIDConnectProviderArn))
	if !ok {
		return nil, noSuchEntity("OpenIDConnect Provider not found for arn %s", aws.ToString(in.OpenIDConnectProviderArn))
	}
	return &iam.GetOpenIDConnectProviderOutput{Url: aws.String(p.URL), ClientIDList: p.Clients, ThumbprintList: p.Thumbprints, Tags: p.Tags}, nil
}

func (m *iamService) listOpenIDConnectProviders(*call, *iam.ListOpenIDConnectProvidersInput) (*iam.ListOpenIDConnectProvidersOutput, error) {
	out := &iam.ListOpenIDConnectProvidersOutput{OpenIDConnectProviderList: []types.OpenIDConnectProviderListEntry{}}
	for _, p := range m.providers.list() {
		out.OpenIDConnectProviderList = append(out.OpenIDConnectProviderList, types.OpenIDConnectProviderListEntry{Arn: aws.String(p.ARN)})
	}
	return out, nil
}

func (m *iamService) deleteOpenIDConnectProvider(_ *call, in *iam.DeleteOpenIDConnectProviderInput) (*iam.DeleteOpenIDConnectProviderOutput, error) {
	m.providers.delete(aws.ToString(in.OpenIDConnectProviderArn))
	return &iam.DeleteOpenIDConnectProviderOutput{}, nil
}
