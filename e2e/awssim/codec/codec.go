// Package codec is the server side of the AWS wire protocols: it decodes requests into the SDK's XxxInput
// structs and encodes its XxxOutput structs as replies.
//
// It stands on what the pinned SDK knows of itself: the public schemas of aws-sdk-go-v2 services say how an
// output is named on the wire, and smithy-go's client protocols run backwards write JSON and CBOR. Inputs are
// filled by reflection, because their wire names are the field names. EC2 is still classic generated code
// without schemas: its irregular names are generated from the SDK's source into zz_generated.ec2names.go.
package codec

//go:generate go run ./gen -ops .. -out zz_generated.ec2names.go

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/encoding/cbor"
)

// Protocol is one of the AWS wire protocols, see https://smithy.io/2.0/aws/protocols.
type Protocol int

// The protocols that the pinned SDK clients and the aws command line speak.
const (
	Query    Protocol = iota // awsQuery: Auto Scaling, IAM, STS
	EC2                      // ec2Query: EC2
	JSON                     // awsJson1_0 and awsJson1_1: SQS, EventBridge, SSM, Pricing, Service Quotas
	RESTJSON                 // restJson1: EKS
	CBOR                     // rpcv2Cbor: CloudWatch
)

// Request is the part of an HTTP request that carries an operation's input.
type Request struct {
	Form url.Values // of Query and EC2; of RESTJSON the path labels and query parameters
	Body []byte     // of JSON, RESTJSON and CBOR
}

// Decode fills in, a pointer to an XxxInput, from the request. It fails on a value that does not fit its field;
// unknown members are ignored, as AWS does.
func (p Protocol) Decode(r Request, in any) error {
	v := reflect.ValueOf(in)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decoding needs a pointer to an input struct, got %T", in)
	}
	d := decoder{ec2: p == EC2}
	if p == JSON || p == RESTJSON || p == CBOR {
		x, err := p.parse(r.Body)
		if err != nil {
			return err
		}
		if err := d.fill(v.Elem(), x); err != nil {
			return err
		}
	}
	if len(r.Form) == 0 {
		return nil
	}
	if p == RESTJSON {
		return d.fillParameters(v.Elem(), r.Form)
	}
	return d.fill(v.Elem(), formTree(r.Form))
}

// parse turns a body into the maps, slices, strings, numbers and bools of encoding/json.
func (p Protocol) parse(body []byte) (any, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	if p == CBOR {
		x, err := cbor.Decode(body)
		if err != nil {
			return nil, fmt.Errorf("parsing the CBOR body: %w", err)
		}
		return fromCBOR(x), nil
	}
	var x any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&x); err != nil {
		return nil, fmt.Errorf("parsing the JSON body: %w", err)
	}
	return x, nil
}

// Encode renders out, a pointer to an XxxOutput, as the reply to the operation.
func (p Protocol) Encode(operation, requestID string, out any) ([]byte, error) {
	if p == EC2 {
		return encodeEC2(operation, requestID, out)
	}
	s, ok := out.(smithy.Serializable)
	if !ok {
		return nil, fmt.Errorf("encoding %s: %T has no schema", operation, out)
	}
	if p == Query {
		return encodeQuery(operation, requestID, s)
	}
	return p.encodeBody(s)
}

// ContentType of a reply.
func (p Protocol) ContentType() string {
	switch p {
	case JSON:
		return "application/x-amz-json-1.1"
	case RESTJSON:
		return "application/json"
	case CBOR:
		return "application/cbor"
	default:
		return "text/xml;charset=UTF-8"
	}
}

// EncodeError renders an error reply. Only a service fault (5xx) is blamed on the receiver.
func (p Protocol) EncodeError(requestID, code, message string, status int) []byte {
	switch p {
	case EC2:
		return fmt.Appendf(nil, `<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>%s</RequestID></Response>`,
			escape(code), escape(message), requestID)
	case Query:
		blame := "Sender"
		if status >= 500 {
			blame = "Receiver"
		}
		return fmt.Appendf(nil, `<ErrorResponse><Error><Type>%s</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>`,
			blame, escape(code), escape(message), requestID)
	case CBOR:
		return cbor.Encode(cbor.Map{"__type": cbor.String(code), "message": cbor.String(message)})
	default:
		b, _ := json.Marshal(map[string]string{"__type": code, "message": message}) // strings always marshal
		return b
	}
}
