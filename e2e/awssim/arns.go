package awssim

import "strings"

// partition of the region: aws, aws-cn or aws-us-gov.
func (s *Server) partition() string {
	switch {
	case strings.HasPrefix(s.options.Region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(s.options.Region, "us-gov-"):
		return "aws-us-gov"
	default:
		return "aws"
	}
}

// arn of a regional resource.
func (s *Server) arn(service, resource string) string {
	return "arn:" + s.partition() + ":" + service + ":" + s.options.Region + ":" + accountID + ":" + resource
}

// globalARN of a resource of IAM or STS.
func (s *Server) globalARN(service, resource string) string {
	return "arn:" + s.partition() + ":" + service + "::" + accountID + ":" + resource
}

// splitRegion cuts us-east-1 or us-gov-west-1 into area, direction and number.
func splitRegion(region string) [3]string {
	parts := strings.Split(region, "-")
	if len(parts) < 3 || parts[len(parts)-2] == "" {
		return [3]string{region, "x", "1"}
	}
	return [3]string{strings.Join(parts[:len(parts)-2], ""), parts[len(parts)-2], parts[len(parts)-1]}
}
