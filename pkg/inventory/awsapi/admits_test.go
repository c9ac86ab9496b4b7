package awsapi

import "testing"

func TestAdmits(t *testing.T) {
	cases := map[string]struct {
		reason   string
		document string
		want     bool
	}{
		"Plain":        {"as Karpenter's template writes it", `{"Statement":[{"Effect":"Allow","Principal":{"Service":["sqs.amazonaws.com","events.amazonaws.com"]},"Action":"sqs:SendMessage"}]}`, true},
		"Wildcard":     {"a wider action covers it", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":["SQS:Send*"]}]}`, true},
		"Conditioned":  {"their rules' ARNs: castoff believes it", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"sqs:SendMessage","Condition":{"ArnEquals":{"aws:SourceArn":"arn:aws:events:x:1:rule/y"}}}]}`, true},
		"Everybody":    {"the account is narrowed by a condition", `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*"}]}`, true},
		"EverybodyAWS": {"the same", `{"Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"sqs:*"}]}`, true},
		"Deny":         {"a Deny admits nobody", `{"Statement":[{"Effect":"Deny","Principal":"*","Action":"sqs:*"}]}`, false},
		"OtherService": {"SNS is not EventBridge", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage"}]}`, false},
		"OtherAction":  {"reading is not sending", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"sqs:ReceiveMessage"}]}`, false},
		"BadPattern":   {"no pattern at all", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"sqs:[SendMessage"}]}`, false},
		"Nothing":      {"a queue without a policy", `{}`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := ParseDocument(tc.document)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Admits("events.amazonaws.com", "sqs:SendMessage"); got != tc.want {
				t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestAdmitsWebIdentity(t *testing.T) {
	const federated = `"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::1:oidc-provider/oidc.eks.x/id/A"},"Action":"sts:AssumeRoleWithWebIdentity"`
	cases := map[string]struct {
		reason   string
		document string
		want     bool
	}{
		"Exact":     {"as eksctl writes it", `{"Statement":[{` + federated + `,"Condition":{"StringEquals":{"oidc.eks.x/id/A:aud":"sts.amazonaws.com","oidc.eks.x/id/A:sub":"system:serviceaccount:kube-system:karpenter"}}}]}`, true},
		"Pattern":   {"any of a namespace", `{"Statement":[{` + federated + `,"Condition":{"StringLike":{"oidc.eks.x/id/A:sub":"system:serviceaccount:kube-system:*"}}}]}`, true},
		"Other":     {"another ServiceAccount", `{"Statement":[{` + federated + `,"Condition":{"StringEquals":{"oidc.eks.x/id/A:sub":"system:serviceaccount:default:karpenter"}}}]}`, false},
		"Anybody":   {"no subject asked for", `{"Statement":[{` + federated + `}]}`, true},
		"PodTrust":  {"Pod Identity is another way", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`, false},
		"OnlyDeny":  {"a Deny admits nobody", `{"Statement":[{"Effect":"Deny","Principal":{"Federated":"x"},"Action":"sts:AssumeRoleWithWebIdentity"}]}`, false},
		"NoAnyRole": {"nothing in it", `{}`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := ParseDocument(tc.document)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.AdmitsWebIdentity("system:serviceaccount:kube-system:karpenter"); got != tc.want {
				t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}
