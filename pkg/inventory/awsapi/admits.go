package awsapi

import (
	"path"
	"slices"
	"strings"
)

// Admits says whether a statement lets the service do the action, under whatever conditions: of a document that somebody else
// wrote castoff cannot tell whether they hold.
func (d Document) Admits(service, action string) bool {
	return slices.ContainsFunc(d.Statement, func(s Statement) bool {
		who := principals(s.Principal)
		named := slices.Contains(who["Service"], service) || slices.Contains(who["*"], "*") || slices.Contains(who["AWS"], "*")
		return s.Effect == "Allow" && named && s.does(action)
	})
}

// AdmitsWebIdentity says whether a statement lets a federated identity of that subject assume the role, as EKS's IAM roles for
// service accounts do: system:serviceaccount:NAMESPACE:NAME (EKS user guide).
func (d Document) AdmitsWebIdentity(subject string) bool {
	return slices.ContainsFunc(d.Statement, func(s Statement) bool {
		return s.Effect == "Allow" && len(principals(s.Principal)["Federated"]) > 0 &&
			s.does("sts:AssumeRoleWithWebIdentity") && s.admitsSubject(subject)
	})
}

func (s Statement) admitsSubject(subject string) bool {
	for _, keys := range s.Condition {
		for key, values := range keys {
			if strings.HasSuffix(key, ":sub") && !slices.ContainsFunc(values, func(v string) bool { return matches(v, subject) }) {
				return false
			}
		}
	}
	return true
}

func (s Statement) does(action string) bool {
	return slices.ContainsFunc(s.Action, func(pattern string) bool { return matches(strings.ToLower(pattern), strings.ToLower(action)) })
}

// matches takes * and ? as IAM does. Neither actions nor subjects have a slash, at which path.Match would stop.
func matches(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return err == nil && ok
}
