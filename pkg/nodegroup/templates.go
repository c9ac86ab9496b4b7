package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"golang.org/x/sync/errgroup"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// The versions that are not numbers.
const (
	versionLatest  = "$Latest"
	versionDefault = "$Default"
)

// missingTemplate are EC2's codes for a launch template or version that does not exist (EC2 API error codes).
var missingTemplate = []string{
	"InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.NotFoundException", "InvalidLaunchTemplateId.Malformed",
	"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.VersionNotFound", "InvalidLaunchTemplateName.VersionNotFound",
}

// resolveTemplates fills in what the groups launch: template, image, role, and the types of instance requirements.
func (c *Client) resolveTemplates(ctx context.Context, all []found, out []inventory.NodeGroup) error {
	numbers, err := c.movingVersions(ctx, all)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, f := range all {
		if f.group == nil {
			continue
		}
		group.Go(func() error { return c.resolveTemplate(groupCtx, *f.group, numbers, &out[i]) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.resolveImages(ctx, out); err != nil {
		return err
	}
	for i, f := range all {
		if f.group == nil {
			continue
		}
		if err := c.resolveRequirements(ctx, *f.group, &out[i]); err != nil {
			return err
		}
	}
	return c.resolveSizes(ctx, out)
}

// specificationOf is the template in force; nil for a group with a launch configuration. A mixed instances policy's
// template takes the place of the group's own.
func specificationOf(g astypes.AutoScalingGroup) *astypes.LaunchTemplateSpecification {
	if p := g.MixedInstancesPolicy; p != nil && p.LaunchTemplate != nil && p.LaunchTemplate.LaunchTemplateSpecification != nil {
		return p.LaunchTemplate.LaunchTemplateSpecification
	}
	return g.LaunchTemplate
}

// asked is the version as the group names it; Auto Scaling takes a missing one for the default.
func asked(s *astypes.LaunchTemplateSpecification) string {
	if v := aws.ToString(s.Version); v != "" {
		return v
	}
	return versionDefault
}

func moving(version string) bool { return strings.HasPrefix(version, "$") }

// movingVersions are the numbers behind $Latest and $Default, by template ID and version. They are read at every look,
// all in one call; templates that are gone are left out.
func (c *Client) movingVersions(ctx context.Context, all []found) (map[string]string, error) {
	var ids []string
	for _, f := range all {
		if f.group == nil {
			continue
		}
		if s := specificationOf(*f.group); s != nil && moving(asked(s)) && s.LaunchTemplateId != nil {
			ids = append(ids, *s.LaunchTemplateId)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	numbers := map[string]string{}
	if len(ids) == 0 {
		return numbers, nil
	}
	templates, err := c.launchTemplates(ctx, ids)
	if awsapi.Is(err, missingTemplate...) { // one that is gone fails the call for all
		for _, id := range ids {
			one, err := c.launchTemplates(ctx, []string{id})
			if err != nil && !awsapi.Is(err, missingTemplate...) {
				return nil, err
			}
			templates = append(templates, one...)
		}
	} else if err != nil {
		return nil, err
	}
	for _, t := range templates {
		id := aws.ToString(t.LaunchTemplateId)
		numbers[id+":"+versionLatest] = strconv.FormatInt(aws.ToInt64(t.LatestVersionNumber), 10)
		numbers[id+":"+versionDefault] = strconv.FormatInt(aws.ToInt64(t.DefaultVersionNumber), 10)
	}
	return numbers, nil
}

func (c *Client) launchTemplates(ctx context.Context, ids []string) ([]ec2types.LaunchTemplate, error) {
	out, err := c.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: ids})
	if err != nil {
		return nil, awsapi.Wrap(err, "ec2:DescribeLaunchTemplates", "launch templates "+strings.Join(ids, ", "))
	}
	return out.LaunchTemplates, nil
}

// resolveTemplate reads the template of one group. A template that does not exist is the group's launch error, not the
// look's: the other groups can still be read.
func (c *Client) resolveTemplate(ctx context.Context, g astypes.AutoScalingGroup, numbers map[string]string, out *inventory.NodeGroup) (err error) {
	spec := specificationOf(g)
	if spec == nil {
		if name := aws.ToString(g.LaunchConfigurationName); name != "" {
			out.LaunchTemplate, err = c.launchConfiguration(ctx, name)
		}
	} else {
		err = c.fillTemplate(ctx, spec, numbers, out)
	}
	if err != nil {
		return err
	}
	addGroupSettings(&out.LaunchTemplate, g)
	if out.Managed != nil {
		out.LaunchTemplate.Role = out.Managed.NodeRole
		return nil
	}
	out.LaunchTemplate.Role, err = c.roleOf(ctx, out.LaunchTemplate.InstanceProfile)
	return err
}

func (c *Client) fillTemplate(ctx context.Context, spec *astypes.LaunchTemplateSpecification, numbers map[string]string, out *inventory.NodeGroup) error {
	id, name, version := aws.ToString(spec.LaunchTemplateId), aws.ToString(spec.LaunchTemplateName), asked(spec)
	number := version
	if moving(version) {
		number = numbers[id+":"+version]
	}
	identity := inventory.LaunchTemplate{ID: id, Name: name, Asked: version}
	var data *ec2types.ResponseLaunchTemplateData
	if number != "" {
		var err error
		if data, err = c.templateVersion(ctx, id, name, number); err != nil {
			return err
		}
	}
	if data == nil {
		out.LaunchTemplate = identity
		out.LaunchError = fmt.Sprintf("launch template %s (%s) has no version %s: the group can launch nothing until it names one that exists", id, name, version)
		return nil
	}
	out.LaunchTemplate = launchTemplate(*data)
	out.LaunchTemplate.ID, out.LaunchTemplate.Name, out.LaunchTemplate.Version, out.LaunchTemplate.Asked = id, name, number, version
	return nil
}

// templateVersion is the contents of a numbered version, or nil when there is none.
func (c *Client) templateVersion(ctx context.Context, id, name, number string) (*ec2types.ResponseLaunchTemplateData, error) {
	key := id + name + ":" + number
	if data, ok := c.cache.templates.get(key); ok {
		return data, nil
	}
	in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{number}}
	if id != "" {
		in.LaunchTemplateId = aws.String(id)
	} else {
		in.LaunchTemplateName = aws.String(name)
	}
	out, err := c.ec2.DescribeLaunchTemplateVersions(ctx, in)
	if awsapi.Is(err, missingTemplate...) {
		return nil, nil
	}
	if err != nil {
		return nil, awsapi.Wrap(err, "ec2:DescribeLaunchTemplateVersions", fmt.Sprintf("launch template %s (%s) version %s", id, name, number))
	}
	for _, v := range out.LaunchTemplateVersions {
		if v.LaunchTemplateData != nil && strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10) == number {
			c.cache.templates.put(key, v.LaunchTemplateData)
			return v.LaunchTemplateData, nil
		}
	}
	return nil, nil
}

func (c *Client) launchConfiguration(ctx context.Context, name string) (inventory.LaunchTemplate, error) {
	if config, ok := c.cache.configs.get(name); ok {
		return launchConfiguration(config), nil
	}
	out, err := c.asg.DescribeLaunchConfigurations(ctx, &autoscaling.DescribeLaunchConfigurationsInput{LaunchConfigurationNames: []string{name}})
	if err != nil {
		return inventory.LaunchTemplate{}, awsapi.Wrap(err, "autoscaling:DescribeLaunchConfigurations", "launch configuration "+name)
	}
	if len(out.LaunchConfigurations) == 0 {
		return inventory.LaunchTemplate{Configuration: name}, nil
	}
	c.cache.configs.put(name, out.LaunchConfigurations[0])
	return launchConfiguration(out.LaunchConfigurations[0]), nil
}

// roleOf is the name of the role in the instance profile; empty when there is no such profile or it holds no role.
func (c *Client) roleOf(ctx context.Context, profile string) (string, error) {
	if profile == "" {
		return "", nil
	}
	if role, ok := c.cache.roles.get(profile); ok {
		return role, nil
	}
	out, err := c.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(profile)})
	if awsapi.Is(err, "NoSuchEntity") {
		return "", nil
	}
	if err != nil {
		return "", awsapi.Wrap(err, "iam:GetInstanceProfile", "instance profile "+profile)
	}
	if out.InstanceProfile == nil || len(out.InstanceProfile.Roles) == 0 {
		return "", nil
	}
	role := aws.ToString(out.InstanceProfile.Roles[0].RoleName)
	c.cache.roles.put(profile, role)
	return role, nil
}

// resolveImages reads the images not known yet in one call. It filters by ID, since naming an image that was
// deregistered would fail the call for all; such an image stays nil. So does one that is an SSM parameter
// ("resolve:ssm:…"), which no image ID stands behind for good.
func (c *Client) resolveImages(ctx context.Context, groups []inventory.NodeGroup) error {
	var unknown []string
	for _, g := range groups {
		id := g.LaunchTemplate.ImageID
		if _, ok := c.cache.images.get(id); !ok && strings.HasPrefix(id, "ami-") {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		if err := c.readImages(ctx, slices.Compact(unknown)); err != nil {
			return err
		}
	}
	for i := range groups {
		if image, ok := c.cache.images.get(groups[i].LaunchTemplate.ImageID); ok {
			groups[i].LaunchTemplate.Image = &image
		}
	}
	return nil
}

func (c *Client) readImages(ctx context.Context, ids []string) error {
	pages := ec2.NewDescribeImagesPaginator(c.ec2, &ec2.DescribeImagesInput{
		IncludeDeprecated: aws.Bool(true), Filters: []ec2types.Filter{{Name: aws.String("image-id"), Values: ids}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return awsapi.Wrap(err, "ec2:DescribeImages", "images "+strings.Join(ids, ", "))
		}
		for _, i := range page.Images {
			c.cache.images.put(aws.ToString(i.ImageId), inventory.Image{
				ID: aws.ToString(i.ImageId), Name: aws.ToString(i.Name), Owner: aws.ToString(i.OwnerId),
				Architecture: string(i.Architecture), RootDevice: aws.ToString(i.RootDeviceName),
			})
		}
	}
	return nil
}
