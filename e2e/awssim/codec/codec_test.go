package codec

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/schemas"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/encoding/cbor"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func form(t *testing.T, s string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDecode(t *testing.T) {
	cases := map[string]struct {
		reason   string
		protocol Protocol
		form     string
		body     string
		in, want any
	}{
		"EC2Lists": {"EC2 names lists in the singular and numbers them", EC2, "InstanceId.1=i-1&InstanceId.2=i-2&Filter.1.Name=a&Filter.1.Value.1=x&MaxResults=5", "",
			&ec2.DescribeInstancesInput{}, &ec2.DescribeInstancesInput{
				InstanceIds: []string{"i-1", "i-2"}, MaxResults: aws.Int32(5),
				Filters: []ec2types.Filter{{Name: aws.String("a"), Values: []string{"x"}}},
			}},
		"EC2TenItems": {"numbers are no strings: ten comes after nine", EC2, "InstanceId.1=1&InstanceId.2=2&InstanceId.3=3&InstanceId.4=4&InstanceId.5=5&InstanceId.6=6&InstanceId.7=7&InstanceId.8=8&InstanceId.9=9&InstanceId.10=10", "",
			&ec2.DescribeInstancesInput{}, &ec2.DescribeInstancesInput{InstanceIds: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}}},
		"QueryMembers": {"awsQuery wraps lists in member", Query, "AutoScalingGroupNames.member.1=g", "",
			&autoscaling.DescribeAutoScalingGroupsInput{}, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"g"}}},
		"QueryTime": {"forms carry date-times", Query, "StartTime=2026-03-01T12%3A00%3A00Z&DesiredCapacity=2", "",
			&autoscaling.PutScheduledUpdateGroupActionInput{}, &autoscaling.PutScheduledUpdateGroupActionInput{StartTime: aws.Time(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), DesiredCapacity: aws.Int32(2)}},
		"JSONMaps": {"maps and enum keys", JSON, "", `{"QueueName":"q","Attributes":{"Policy":"{}"},"tags":{"a":"1"}}`,
			&sqs.CreateQueueInput{}, &sqs.CreateQueueInput{QueueName: aws.String("q"), Attributes: map[string]string{"Policy": "{}"}, Tags: map[string]string{"a": "1"}}},
		"JSONNull": {"null is nothing", JSON, "", `{"QueueName":null}`, &sqs.CreateQueueInput{}, &sqs.CreateQueueInput{}},
		"NoBody":   {"no body is an empty input", JSON, "", ` `, &sqs.ListQueuesInput{}, &sqs.ListQueuesInput{}},
		"RESTLabels": {"labels, query parameters and body together", RESTJSON, "name=c&nodegroupName=n", `{"scalingConfig":{"minSize":1}}`,
			&eks.DescribeNodegroupInput{}, &eks.DescribeNodegroupInput{NodegroupName: aws.String("n")}},
		"Unknown": {"unknown members are ignored", EC2, "Colour=red&InstanceId.1=i-1", "", &ec2.DescribeInstancesInput{}, &ec2.DescribeInstancesInput{InstanceIds: []string{"i-1"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.protocol.Decode(Request{Form: form(t, tc.form), Body: []byte(tc.body)}, tc.in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.in, ignoreUnexported); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

var ignoreUnexported = cmpopts.IgnoreUnexported(ec2.DescribeInstancesInput{}, ec2types.Filter{}, autoscaling.DescribeAutoScalingGroupsInput{},
	autoscaling.PutScheduledUpdateGroupActionInput{}, sqs.CreateQueueInput{}, sqs.ListQueuesInput{}, eks.DescribeNodegroupInput{})

func TestDecodeRefuses(t *testing.T) {
	cases := map[string]struct {
		reason   string
		protocol Protocol
		form     string
		body     string
		in       any
	}{
		"NoNumber":      {"text for a number", EC2, "MaxResults=many", "", &ec2.DescribeInstancesInput{}},
		"TooLarge":      {"a number over 32 bits", EC2, "MaxResults=4294967296", "", &ec2.DescribeInstancesInput{}},
		"NoBool":        {"text for a bool", EC2, "DryRun=perhaps", "", &ec2.DescribeInstancesInput{}},
		"NoList":        {"text for a list", EC2, "InstanceId=i-1", "", &ec2.DescribeInstancesInput{}},
		"NoStruct":      {"text for a structure", EC2, "Filter.1=x", "", &ec2.DescribeInstancesInput{}},
		"NoTime":        {"text for a time", Query, "StartTime=soon", "", &autoscaling.PutScheduledUpdateGroupActionInput{}},
		"NoText":        {"a structure for text", EC2, "NextToken.a=x", "", &ec2.DescribeInstancesInput{}},
		"NoMap":         {"text for a map", JSON, "", `{"Attributes":"x"}`, &sqs.CreateQueueInput{}},
		"NoObject":      {"a list for the input", JSON, "", `[1]`, &sqs.CreateQueueInput{}},
		"BoolForText":   {"a bool for text", JSON, "", `{"QueueName":true}`, &sqs.CreateQueueInput{}},
		"BrokenJSON":    {"no JSON", JSON, "", `{`, &sqs.CreateQueueInput{}},
		"BrokenCBOR":    {"no CBOR", CBOR, "", "\xff\xff", &sqs.CreateQueueInput{}},
		"NotAPointer":   {"an input that cannot be filled", JSON, "", `{}`, sqs.CreateQueueInput{}},
		"NilPointer":    {"an input that is nil", JSON, "", `{}`, (*sqs.CreateQueueInput)(nil)},
		"NotAStructure": {"an input that is no structure", JSON, "", `{}`, new(string)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.protocol.Decode(Request{Form: form(t, tc.form), Body: []byte(tc.body)}, tc.in); err == nil {
				t.Errorf("%s must be refused", tc.reason)
			}
		})
	}
}

// FuzzDecode: whatever a client sends, decoding answers an error at worst.
func FuzzDecode(f *testing.F) {
	f.Add("Filter.1.Value.1=x&InstanceId.member.1.2=3&DryRun=true", `{"Attributes":{"a":[1,{"b":null}]}}`)
	f.Add("a..b=1&.=2&InstanceId.1.1.1.1=x", `[[[[1]]]]`)
	f.Add("Tag.1.Key=a&Tags.member.1.Key=b", "\xbf\x61a\xff")
	f.Fuzz(func(t *testing.T, query, body string) {
		values, _ := url.ParseQuery(query) // what parses is enough
		r := Request{Form: values, Body: []byte(body)}
		for _, p := range []Protocol{Query, EC2, JSON, RESTJSON, CBOR} {
			for _, in := range []any{&ec2.RunInstancesInput{}, &sqs.CreateQueueInput{}, &eks.CreateNodegroupInput{}, &autoscaling.CreateAutoScalingGroupInput{}} {
				if err := p.Decode(r, in); err != nil && err.Error() == "" {
					t.Error("an error must say something")
				}
			}
		}
	})
}

func TestEncodeRefuses(t *testing.T) {
	if _, err := EC2.Encode("X", "r", "text"); err == nil {
		t.Error("EC2: an output that is no structure must be refused")
	}
	if _, err := EC2.Encode("X", "r", (*ec2.DescribeInstancesOutput)(nil)); err == nil {
		t.Error("EC2: an output that is nil must be refused")
	}
	for _, p := range []Protocol{Query, JSON, RESTJSON, CBOR} {
		if _, err := p.Encode("X", "r", &struct{}{}); err == nil {
			t.Errorf("protocol %d: an output without a schema must be refused", p)
		}
	}
}

func TestEncodeEscapes(t *testing.T) {
	evil := `</x><y a="b">&amp;`
	b, err := EC2.Encode("DescribeInstances", "r", &ec2.DescribeInstancesOutput{NextToken: &evil})
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		NextToken string `xml:"nextToken"`
	}
	if err := xml.Unmarshal(b, &reply); err != nil || reply.NextToken != evil {
		t.Errorf("EC2: %q, %v", reply.NextToken, err)
	}
	b, err = Query.Encode("ListRoles", "r", &iam.ListRolesOutput{Marker: &evil})
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Marker string `xml:"ListRolesResult>Marker"`
	}
	if err := xml.Unmarshal(b, &result); err != nil || result.Marker != evil {
		t.Errorf("awsQuery: %q, %v", result.Marker, err)
	}
}

func TestEncodeError(t *testing.T) {
	const code, message = "Some.Code", `it is "<wrong>" & bad`
	cases := map[string]struct {
		protocol Protocol
		status   int
		read     func(*testing.T, []byte) []string
		want     []string
	}{
		"EC2": {EC2, 400, func(t *testing.T, b []byte) []string {
			var x struct {
				Code    string `xml:"Errors>Error>Code"`
				Message string `xml:"Errors>Error>Message"`
			}
			unmarshal(t, xml.Unmarshal(b, &x))
			return []string{x.Code, x.Message}
		}, []string{code, message}},
		"QuerySender": {Query, 400, readQueryError, []string{code, message, "Sender"}},
		"QueryServer": {Query, 500, readQueryError, []string{code, message, "Receiver"}},
		"JSON": {JSON, 400, func(t *testing.T, b []byte) []string {
			var x map[string]string
			unmarshal(t, json.Unmarshal(b, &x))
			return []string{x["__type"], x["message"]}
		}, []string{code, message}},
		"CBOR": {CBOR, 400, func(t *testing.T, b []byte) []string {
			v, err := cbor.Decode(b)
			unmarshal(t, err)
			if diff := cmp.Diff(cbor.Map{"__type": cbor.String(code), "message": cbor.String(message)}, v); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return []string{code, message}
		}, []string{code, message}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.read(t, tc.protocol.EncodeError("r", code, message, tc.status))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func readQueryError(t *testing.T, b []byte) []string {
	var x struct {
		Type    string `xml:"Error>Type"`
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	unmarshal(t, xml.NewDecoder(io.LimitReader(strings.NewReader(string(b)), 1<<20)).Decode(&x))
	return []string{x.Code, x.Message, x.Type}
}

func unmarshal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoutes(t *testing.T) {
	route, ok := RouteOf(schemas.DescribeNodegroup)
	if !ok {
		t.Fatal("DescribeNodegroup has no route")
	}
	cases := map[string]struct {
		reason, method, path string
		want                 url.Values
	}{
		"Match":       {"labels are taken from the path", "GET", "/clusters/prod/node-groups/ng-1", url.Values{"clusterName": {"prod"}, "nodegroupName": {"ng-1"}}},
		"Escaped":     {"a label may hold an escaped slash", "GET", "/clusters/a%2Fb/node-groups/ng-1", url.Values{"clusterName": {"a/b"}, "nodegroupName": {"ng-1"}}},
		"OtherMethod": {"another method is another operation", "DELETE", "/clusters/prod/node-groups/ng-1", nil},
		"Longer":      {"a longer path is another operation", "GET", "/clusters/prod/node-groups/ng-1/update", nil},
		"OtherWord":   {"a word that differs", "GET", "/clusters/prod/addons/ng-1", nil},
		"BadEscape":   {"an escape that is none", "GET", "/clusters/%zz/node-groups/ng-1", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, _ := route.Match(tc.method, tc.path)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	if _, ok := RouteOf(schemas.DescribeClusterRequest); ok {
		t.Error("an input has no route")
	}
}

func TestContentTypes(t *testing.T) {
	want := map[Protocol]string{Query: "text/xml;charset=UTF-8", EC2: "text/xml;charset=UTF-8", JSON: "application/x-amz-json-1.1", RESTJSON: "application/json", CBOR: "application/cbor"}
	for p, w := range want {
		if got := p.ContentType(); got != w {
			t.Errorf("protocol %d: want %s, got %s", p, w, got)
		}
	}
}
