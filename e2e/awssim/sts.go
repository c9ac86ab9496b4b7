package awssim

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"
)

// registerSTS adds AWS STS. Any role that exists may be assumed; trust policies are not enforced.
func (s *Server) registerSTS() {
	on(s, "sts.GetCallerIdentity", s.getCallerIdentity)
	on(s, "sts.AssumeRole", s.assumeRole)
	on(s, "sts.AssumeRoleWithWebIdentity", s.assumeRoleWithWebIdentity)
}

func (s *Server) getCallerIdentity(c *call, _ *sts.GetCallerIdentityInput) (*sts.GetCallerIdentityOutput, error) {
	return &sts.GetCallerIdentityOutput{
		Account: aws.String(accountID), Arn: aws.String(c.identity), UserId: aws.String("AIDA" + strings.ToUpper(stableHex(c.identity, 16))),
	}, nil
}

func (s *Server) assumeRole(_ *call, in *sts.AssumeRoleInput) (*sts.AssumeRoleOutput, error) {
	credentials, user, err := s.assume(in.RoleArn, in.RoleSessionName)
	return &sts.AssumeRoleOutput{Credentials: credentials, AssumedRoleUser: user}, err
}

// assumeRoleWithWebIdentity is what IAM roles for service accounts use. It is the one call that comes unsigned.
func (s *Server) assumeRoleWithWebIdentity(_ *call, in *sts.AssumeRoleWithWebIdentityInput) (*sts.AssumeRoleWithWebIdentityOutput, error) {
	namespace, name, err := serviceAccountOf(aws.ToString(in.WebIdentityToken))
	if err != nil {
		return nil, errorf("InvalidIdentityToken", "%v", err)
	}
	credentials, user, err := s.assume(in.RoleArn, in.RoleSessionName)
	return &sts.AssumeRoleWithWebIdentityOutput{
		Credentials: credentials, AssumedRoleUser: user, SubjectFromWebIdentityToken: aws.String("system:serviceaccount:" + namespace + ":" + name),
	}, err
}

func (s *Server) assume(roleARN, sessionName *string) (*types.Credentials, *types.AssumedRoleUser, error) {
	name := lastSegment(aws.ToString(roleARN))
	r, ok := s.iam.roles.get(name)
	if !ok || aws.ToString(r.Arn) != aws.ToString(roleARN) {
		return nil, nil, errorStatus(403, "AccessDenied", "Not authorized to perform sts:AssumeRole on %s: there is no such role", aws.ToString(roleARN))
	}
	key, arn := s.newSession(aws.ToString(roleARN), firstOf(aws.ToString(sessionName), "session"))
	return &types.Credentials{
			AccessKeyId: aws.String(key), SecretAccessKey: aws.String("secret"), SessionToken: aws.String("token"),
			Expiration: aws.Time(s.options.Now().Add(sessionDuration).UTC()),
		}, &types.AssumedRoleUser{
			Arn: aws.String(arn), AssumedRoleId: aws.String(aws.ToString(r.RoleId) + ":" + lastSegment(arn)),
		}, nil
}
