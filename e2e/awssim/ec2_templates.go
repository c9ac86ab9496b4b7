package awssim

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// launchTemplate is a launch template with all its versions, oldest first.
type launchTemplate struct {
	types.LaunchTemplate
	Versions []types.LaunchTemplateVersion
}

func (e *ec2Service) registerTemplates() {
	on(e.s, "ec2.CreateLaunchTemplate", e.createLaunchTemplate)
	on(e.s, "ec2.CreateLaunchTemplateVersion", e.createLaunchTemplateVersion)
	on(e.s, "ec2.ModifyLaunchTemplate", e.modifyLaunchTemplate)
	on(e.s, "ec2.DescribeLaunchTemplates", e.describeLaunchTemplates)
	on(e.s, "ec2.DescribeLaunchTemplateVersions", e.describeLaunchTemplateVersions)
	on(e.s, "ec2.DeleteLaunchTemplate", e.deleteLaunchTemplate)
}

// maxUserData is how much base64 text a launch template takes, https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html.
const maxUserData = 21848

func (e *ec2Service) createLaunchTemplate(c *call, in *ec2.CreateLaunchTemplateInput) (*ec2.CreateLaunchTemplateOutput, error) {
	return once(e, c, in.ClientToken, func() (*ec2.CreateLaunchTemplateOutput, error) { return e.newLaunchTemplate(c, in) })
}

func (e *ec2Service) newLaunchTemplate(c *call, in *ec2.CreateLaunchTemplateInput) (*ec2.CreateLaunchTemplateOutput, error) {
	name := aws.ToString(in.LaunchTemplateName)
	if _, err := e.findTemplate("", name); err == nil {
		return nil, errorf("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	if in.LaunchTemplateData == nil {
		return nil, errorf("MissingParameter", "The request must contain the parameter LaunchTemplateData")
	}
	if len(aws.ToString(in.LaunchTemplateData.UserData)) > maxUserData {
		return nil, errorf("InvalidUserData.Malformed", "User data is limited to 16384 bytes")
	}
	t := launchTemplate{LaunchTemplate: types.LaunchTemplate{
		LaunchTemplateId: aws.String(e.s.newID("lt")), LaunchTemplateName: in.LaunchTemplateName,
		CreateTime: aws.Time(e.s.now().UTC()), CreatedBy: aws.String(c.identity),
		DefaultVersionNumber: aws.Int64(1), LatestVersionNumber: aws.Int64(0),
		Tags: specTags(in.TagSpecifications, types.ResourceTypeLaunchTemplate),
	}}
	t.addVersion(c, in.VersionDescription, convert[types.ResponseLaunchTemplateData](in.LaunchTemplateData))
	e.templates.put(*t.LaunchTemplateId, t)
	return &ec2.CreateLaunchTemplateOutput{LaunchTemplate: &t.LaunchTemplate}, nil
}

func (t *launchTemplate) addVersion(c *call, description *string, data types.ResponseLaunchTemplateData) types.LaunchTemplateVersion {
	number := aws.ToInt64(t.LatestVersionNumber) + 1
	t.LatestVersionNumber = aws.Int64(number)
	v := types.LaunchTemplateVersion{
		LaunchTemplateId: t.LaunchTemplateId, LaunchTemplateName: t.LaunchTemplateName, LaunchTemplateData: &data,
		VersionNumber: aws.Int64(number), VersionDescription: description, CreateTime: aws.Time(c.s.now().UTC()), CreatedBy: aws.String(c.identity),
	}
	t.Versions = append(t.Versions, v)
	return v
}

func (e *ec2Service) createLaunchTemplateVersion(c *call, in *ec2.CreateLaunchTemplateVersionInput) (*ec2.CreateLaunchTemplateVersionOutput, error) {
	return once(e, c, in.ClientToken, func() (*ec2.CreateLaunchTemplateVersionOutput, error) { return e.newLaunchTemplateVersion(c, in) })
}

func (e *ec2Service) newLaunchTemplateVersion(c *call, in *ec2.CreateLaunchTemplateVersionInput) (*ec2.CreateLaunchTemplateVersionOutput, error) {
	t, err := e.findTemplate(aws.ToString(in.LaunchTemplateId), aws.ToString(in.LaunchTemplateName))
	if err != nil {
		return nil, err
	}
	var data types.ResponseLaunchTemplateData
	if in.SourceVersion != nil {
		source, err := t.version(*in.SourceVersion)
		if err != nil {
			return nil, err
		}
		data = *source.LaunchTemplateData
	}
	v := t.addVersion(c, in.VersionDescription, overlay(data, convert[types.ResponseLaunchTemplateData](in.LaunchTemplateData)))
	e.templates.put(*t.LaunchTemplateId, t)
	return &ec2.CreateLaunchTemplateVersionOutput{LaunchTemplateVersion: &v}, nil
}

func (e *ec2Service) modifyLaunchTemplate(_ *call, in *ec2.ModifyLaunchTemplateInput) (*ec2.ModifyLaunchTemplateOutput, error) {
	t, err := e.findTemplate(aws.ToString(in.LaunchTemplateId), aws.ToString(in.LaunchTemplateName))
	if err != nil {
		return nil, err
	}
	v, err := t.version(aws.ToString(in.DefaultVersion))
	if err != nil {
		return nil, err
	}
	t.DefaultVersionNumber = v.VersionNumber
	e.templates.put(*t.LaunchTemplateId, t)
	return &ec2.ModifyLaunchTemplateOutput{LaunchTemplate: &t.LaunchTemplate}, nil
}

var templateFilters = filterable[launchTemplate]{
	tags: func(t *launchTemplate) []types.Tag { return t.Tags },
	values: map[string]func(*launchTemplate) []string{
		"launch-template-name": func(t *launchTemplate) []string { return one(t.LaunchTemplateName) },
	},
}

func (e *ec2Service) describeLaunchTemplates(c *call, in *ec2.DescribeLaunchTemplatesInput) (*ec2.DescribeLaunchTemplatesOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]launchTemplate, error) {
		world := e.templates.asOf(c.readTime())
		rows, err := selectRows(world, in.LaunchTemplateIds, "InvalidLaunchTemplateId.NotFound", templateFilters, in.Filters)
		if err != nil || len(in.LaunchTemplateNames) == 0 {
			return rows, err
		}
		for _, name := range in.LaunchTemplateNames {
			if !slices.ContainsFunc(world.where(nil), func(t launchTemplate) bool { return aws.ToString(t.LaunchTemplateName) == name }) {
				return nil, errorf("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist.")
			}
		}
		return slices.DeleteFunc(rows, func(t launchTemplate) bool {
			return !slices.Contains(in.LaunchTemplateNames, aws.ToString(t.LaunchTemplateName))
		}), nil
	})
	out := &ec2.DescribeLaunchTemplatesOutput{NextToken: next}
	for _, t := range rows {
		out.LaunchTemplates = append(out.LaunchTemplates, t.LaunchTemplate)
	}
	return out, err
}

func (e *ec2Service) describeLaunchTemplateVersions(c *call, in *ec2.DescribeLaunchTemplateVersionsInput) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.LaunchTemplateVersion, error) {
		return e.templateVersions(e.templates.asOf(c.readTime()), in)
	})
	return &ec2.DescribeLaunchTemplateVersionsOutput{LaunchTemplateVersions: rows, NextToken: next}, err
}

// templateVersions lists the versions asked for, the newest first; without a template, those of all templates.
func (e *ec2Service) templateVersions(world view[launchTemplate], in *ec2.DescribeLaunchTemplateVersionsInput) ([]types.LaunchTemplateVersion, error) {
	id, name := aws.ToString(in.LaunchTemplateId), aws.ToString(in.LaunchTemplateName)
	templates := world.where(func(t *launchTemplate) bool {
		return (id == "" || aws.ToString(t.LaunchTemplateId) == id) && (name == "" || aws.ToString(t.LaunchTemplateName) == name)
	})
	if len(templates) == 0 && id+name != "" {
		return nil, notFoundTemplate(id, name)
	}
	var rows []types.LaunchTemplateVersion
	for _, t := range templates {
		for i := range t.Versions {
			v := &t.Versions[i]
			v.DefaultVersion = aws.Bool(aws.ToInt64(v.VersionNumber) == aws.ToInt64(t.DefaultVersionNumber))
		}
		if len(in.Versions) == 0 {
			slices.Reverse(t.Versions)
			rows = append(rows, t.Versions...)
		}
		for _, n := range in.Versions {
			v, err := t.version(n)
			if err != nil {
				return nil, err
			}
			rows = append(rows, v)
		}
	}
	return rows, nil
}

func (e *ec2Service) deleteLaunchTemplate(_ *call, in *ec2.DeleteLaunchTemplateInput) (*ec2.DeleteLaunchTemplateOutput, error) {
	t, err := e.findTemplate(aws.ToString(in.LaunchTemplateId), aws.ToString(in.LaunchTemplateName))
	if err != nil {
		return nil, err
	}
	e.templates.delete(aws.ToString(t.LaunchTemplateId))
	return &ec2.DeleteLaunchTemplateOutput{LaunchTemplate: &t.LaunchTemplate}, nil
}

// templateData resolves a launch template by ID or name and version: a number, $Latest, $Default, or empty for the default.
func (e *ec2Service) templateData(id, name, version string) (types.ResponseLaunchTemplateData, error) {
	t, err := e.findTemplate(id, name)
	if err != nil {
		return types.ResponseLaunchTemplateData{}, err
	}
	v, err := t.version(version)
	if err != nil {
		return types.ResponseLaunchTemplateData{}, err
	}
	return *v.LaunchTemplateData, nil
}

func (e *ec2Service) findTemplate(id, name string) (launchTemplate, error) {
	if id != "" {
		if t, ok := e.templates.get(id); ok {
			return t, nil
		}
		return launchTemplate{}, notFoundTemplate(id, name)
	}
	named := e.templates.truth().where(func(t *launchTemplate) bool { return aws.ToString(t.LaunchTemplateName) == name })
	if len(named) == 0 {
		return launchTemplate{}, notFoundTemplate(id, name)
	}
	return named[0], nil
}

func notFoundTemplate(id, name string) error {
	if id != "" {
		return errorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	}
	return errorf("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

// version finds a version by number, $Latest or $Default; empty is the default.
func (t *launchTemplate) version(version string) (types.LaunchTemplateVersion, error) {
	number := version
	switch version {
	case "$Latest":
		number = fmt.Sprint(aws.ToInt64(t.LatestVersionNumber))
	case "$Default", "":
		number = fmt.Sprint(aws.ToInt64(t.DefaultVersionNumber))
	}
	n, err := strconv.ParseInt(number, 10, 64)
	for _, v := range t.Versions {
		if err == nil && aws.ToInt64(v.VersionNumber) == n && v.LaunchTemplateData != nil {
			return v, nil
		}
	}
	return types.LaunchTemplateVersion{}, errorf("InvalidLaunchTemplateId.VersionNotFound",
		"Could not find the specified version %s for the launch template with ID %s.", version, aws.ToString(t.LaunchTemplateId))
}
