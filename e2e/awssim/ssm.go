package awssim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// ssmService simulates the parameter store, which above all says what the images of a Kubernetes version are.
type ssmService struct {
	s          *Server
	parameters *table[types.Parameter] // by name
}

func newSSM(s *Server) *ssmService {
	p := &ssmService{s: s, parameters: newTable[types.Parameter](s)}
	on(s, "ssm.GetParameter", p.getParameter)
	on(s, "ssm.GetParameters", p.getParameters)
	on(s, "ssm.GetParametersByPath", p.getParametersByPath)
	on(s, "ssm.PutParameter", p.putParameter)
	p.publishImages()
	return p
}

// Releases of the images, the newest last. Pinned aliases (al2023@v20260204) name one, "latest" the last.
var (
	al2023Releases       = []string{"20260107", "20260204"}
	bottlerocketReleases = []string{"1.51.0", "1.52.0"}
)

// Kubernetes versions that there are images for: 1.30 to 1.36.
const oldestMinor, newestMinor = 30, 36

// publishImages makes the images of every Kubernetes version and architecture, and the parameters that name them.
func (p *ssmService) publishImages() {
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		for _, arch := range []ec2types.ArchitectureValues{ec2types.ArchitectureValuesX8664, ec2types.ArchitectureValuesArm64} {
			p.publishAL2023(fmt.Sprintf("1.%d", minor), arch)
			p.publishBottlerocket(fmt.Sprintf("1.%d", minor), arch)
		}
	}
}

func (p *ssmService) publishAL2023(version string, arch ec2types.ArchitectureValues) {
	dir := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/standard/", version, arch)
	for _, release := range al2023Releases {
		name := fmt.Sprintf("amazon-eks-node-al2023-%s-standard-%s-v%s", arch, version, release)
		id := p.s.ec2.addImage(name, arch, release[:4]+"-"+release[4:6]+"-"+release[6:]+"T00:00:00.000Z")
		for _, alias := range []string{name, "recommended"} { // the last release stays recommended
			p.set(dir+alias+"/image_id", id)
			p.set(dir+alias+"/image_name", name)
			p.set(dir+alias+"/release_version", version+".0-"+release)
		}
	}
}

func (p *ssmService) publishBottlerocket(version string, arch ec2types.ArchitectureValues) {
	dir := fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s/%s/", version, arch)
	for i, release := range bottlerocketReleases {
		name := fmt.Sprintf("bottlerocket-aws-k8s-%s-%s-v%s", version, strings.Replace(string(arch), "arm64", "aarch64", 1), release)
		id := p.s.ec2.addImage(name, arch, fmt.Sprintf("2026-%02d-15T00:00:00.000Z", i+1))
		for _, alias := range []string{release, "latest"} {
			p.set(dir+alias+"/image_id", id)
			p.set(dir+alias+"/image_version", release)
		}
	}
}

func (p *ssmService) set(name, value string) {
	version := int64(1)
	if old, ok := p.parameters.get(name); ok {
		version = old.Version + 1
	}
	p.parameters.put(name, types.Parameter{
		Name: aws.String(name), Value: aws.String(value), Type: types.ParameterTypeString, Version: version, DataType: aws.String("text"),
		ARN: aws.String(p.s.arn("ssm", "parameter"+name)), LastModifiedDate: aws.Time(p.s.now().UTC()),
	})
}

func (p *ssmService) getParameter(_ *call, in *ssm.GetParameterInput) (*ssm.GetParameterOutput, error) {
	v, ok := p.parameters.get(aws.ToString(in.Name))
	if !ok {
		return nil, errorf("ParameterNotFound", "Parameter %s not found.", aws.ToString(in.Name))
	}
	return &ssm.GetParameterOutput{Parameter: &v}, nil
}

func (p *ssmService) getParameters(_ *call, in *ssm.GetParametersInput) (*ssm.GetParametersOutput, error) {
	out := &ssm.GetParametersOutput{}
	for _, name := range in.Names {
		if v, ok := p.parameters.get(name); ok {
			out.Parameters = append(out.Parameters, v)
		} else {
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}

func (p *ssmService) getParametersByPath(_ *call, in *ssm.GetParametersByPathInput) (*ssm.GetParametersByPathOutput, error) {
	dir := strings.TrimSuffix(aws.ToString(in.Path), "/") + "/"
	rows, next, err := paged(p.s, in.NextToken, pageSize(in.MaxResults, 10), func() ([]types.Parameter, error) {
		return p.parameters.truth().where(func(v *types.Parameter) bool {
			rest, ok := strings.CutPrefix(aws.ToString(v.Name), dir)
			return ok && (aws.ToBool(in.Recursive) || !strings.Contains(rest, "/"))
		}), nil
	})
	return &ssm.GetParametersByPathOutput{Parameters: rows, NextToken: next}, err
}

func (p *ssmService) putParameter(_ *call, in *ssm.PutParameterInput) (*ssm.PutParameterOutput, error) {
	name := aws.ToString(in.Name)
	if slices.ContainsFunc([]string{"/aws/", "aws/", "ssm/"}, func(reserved string) bool { return strings.HasPrefix(strings.ToLower(name), reserved) }) && !aws.ToBool(in.Overwrite) {
		return nil, errorf("ValidationException", "Parameter name: can't be prefixed with \"aws\" or \"ssm\" (case-insensitive).")
	}
	if _, ok := p.parameters.get(name); ok && !aws.ToBool(in.Overwrite) {
		return nil, errorf("ParameterAlreadyExists", "The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")
	}
	p.set(name, aws.ToString(in.Value))
	v, _ := p.parameters.get(name)
	return &ssm.PutParameterOutput{Version: v.Version}, nil
}
