package awssim

import (
	"fmt"
	"maps"
	"math/rand"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// clientsFor makes the real SDK client of every service, by signing name.
func clientsFor(cfg aws.Config) map[string]any {
	return map[string]any{
		"autoscaling": autoscaling.NewFromConfig(cfg), "ec2": ec2.NewFromConfig(cfg), "eks": eks.NewFromConfig(cfg), "iam": iam.NewFromConfig(cfg),
		"sts": sts.NewFromConfig(cfg), "events": eventbridge.NewFromConfig(cfg), "ssm": ssm.NewFromConfig(cfg), "pricing": pricing.NewFromConfig(cfg),
		"monitoring": cloudwatch.NewFromConfig(cfg), "servicequotas": servicequotas.NewFromConfig(cfg),
		// The bodies here are random, their checksums do not match.
		"sqs": sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.DisableMessageChecksumValidation = true }),
	}
}

// unordered lists the operations whose lists may arrive in another order, and why.
var unordered = map[string]string{
	"eks.ListClusters": "its include parameter is a repeated query parameter, and signing (SigV4) sorts those",
}

// unsent names the members that get no random value: what never travels, and what is part of the host's name.
var unsent = map[string]bool{"ResultMetadata": true, "EndpointId": true}

// TestEveryOperationRoundTrips sends random values through the real SDK client of every registered operation: what
// the simulator decodes must be what was sent, and what the client decodes must be what the simulator answered. It is
// the guard for SDK upgrades.
func TestEveryOperationRoundTrips(t *testing.T) {
	s := New(Options{})
	h := httptest.NewServer(s)
	defer h.Close()
	clients := clientsFor(configFor(h.URL, "tester"))
	exact := 0
	for _, name := range slices.Sorted(maps.Keys(s.operations)) {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(3) {
				if diff := roundTrip(t, clients, s.operations[name], seed); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
			}
			exact++
		})
	}
	t.Logf("%d of %d operations round-trip exactly", exact, len(s.operations))
}

// roundTrip returns how what arrived differs from what was sent, on either way.
func roundTrip(t *testing.T, clients map[string]any, op *operation, seed int64) string {
	t.Helper()
	client, ok := clients[op.service]
	if !ok {
		t.Fatalf("no SDK client for the service %q", op.service)
	}
	method := reflect.ValueOf(client).MethodByName(op.name)
	if !method.IsValid() {
		t.Fatalf("the SDK has no operation %s.%s", op.service, op.name)
	}
	r := rand.New(rand.NewSource(seed))
	in, out := randomValue(r, op.input), randomValue(r, op.output)
	if f := in.Elem().FieldByName("DryRun"); f.IsValid() && f.Kind() == reflect.Pointer {
		f.SetZero() // would be answered by the framework
	}
	var got any
	op.run = func(_ *call, x any) (any, error) { got = x; return out.Interface(), nil }
	results := method.Call([]reflect.Value{reflect.ValueOf(t.Context()), in})
	if err, _ := results[1].Interface().(error); err != nil {
		return fmt.Sprintf("the client fails: %v", err)
	}
	options := cmp.Options{exportedOnly}
	if _, ok := unordered[op.service+"."+op.name]; ok {
		options = append(options, cmpopts.SortSlices(func(a, b string) bool { return a < b }))
	}
	if diff := cmp.Diff(in.Interface(), got, options); diff != "" {
		return "the request differs (-sent +decoded):\n" + diff
	}
	if diff := cmp.Diff(out.Interface(), results[0].Interface(), exportedOnly); diff != "" {
		return "the reply differs (-answered +decoded):\n" + diff
	}
	return ""
}

// exportedOnly leaves out what never travels.
var exportedOnly = cmp.FilterPath(func(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && (f.Name() == "ResultMetadata" || strings.ToLower(f.Name()[:1]) == f.Name()[:1])
}, cmp.Ignore())

// maxDepth keeps the values of recursive types finite.
const maxDepth = 6

func randomValue(r *rand.Rand, t reflect.Type) reflect.Value {
	p := reflect.New(t)
	randomise(r, p.Elem(), 0)
	return p
}

func randomise(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if nested := v.Type().Elem(); depth <= maxDepth || nested.Kind() != reflect.Struct || nested == reflect.TypeFor[time.Time]() {
			v.Set(reflect.New(nested))
			randomise(r, v.Elem(), depth+1)
		}
	case reflect.Struct:
		randomiseStruct(r, v, depth)
	case reflect.Slice:
		randomiseSlice(r, v, depth)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range 1 + r.Intn(2) {
			e := reflect.New(v.Type().Elem()).Elem()
			randomise(r, e, depth+1)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key-%d", i)).Convert(v.Type().Key()), e)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("s-%d <&\"'> é/", r.Intn(1e6)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(1 + r.Intn(1000)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(r.Intn(1000)) + 0.5)
	}
}

func randomiseStruct(r *rand.Rand, v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1700000000+int64(r.Intn(1e6)), 0).UTC()))
		return
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !unsent[f.Name] {
			randomise(r, v.Field(i), depth)
		}
	}
}

func randomiseSlice(r *rand.Rand, v reflect.Value, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte{0, 255, byte(r.Intn(256))})
		return
	}
	if v.Type().Elem().Kind() == reflect.Interface { // unions: nothing that the simulator reads has one
		return
	}
	if depth > maxDepth+2 { // deeper than structs, or those whose only member is a list would be empty: forms cannot say that
		return
	}
	for range 1 + r.Intn(2) {
		e := reflect.New(v.Type().Elem()).Elem()
		randomise(r, e, depth+1)
		v.Set(reflect.Append(v, e))
	}
}
