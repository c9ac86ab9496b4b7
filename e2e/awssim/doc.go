// Package awssim simulates the part of AWS that a Kubernetes cluster's node groups touch: EC2, Auto Scaling, EKS,
// IAM, STS, SQS, EventBridge, SSM, Pricing, CloudWatch and Service Quotas. Real SDK clients and the aws command line
// talk to it over HTTP. It behaves (instances boot and end, queues wait, rules deliver), lags (Describe calls show the
// past) and fails on demand; package simapi is its side door for tests.
//
// # How to add an operation
//
// Write a method on the service's struct and register it in the service's constructor:
//
//	on(s, "ec2.DescribeVpcs", e.describeVpcs)
//	func (e *ec2Service) describeVpcs(c *call, in *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error)
//
// The name is the service's signing name, a dot, and the SDK's name of the operation; onREST also takes the operation's
// schema (package schemas of the SDK service), for its HTTP route. Decoding, encoding, DryRun, faults, the call log and
// the lock around the state are done by the framework: a handler runs alone and never blocks, except in call.wait.
// Run go generate in codec after adding an EC2 operation.
//
// State lives in tables made with newTable. Handlers that read for a Describe call use table.asOf(c.readTime()), which
// lags; everything that decides or writes uses table.get, table.list, table.put, table.delete: the truth. Values go in
// and come out as deep copies, so they may be changed at will. For time use Server.now, Server.after and Server.at; for
// errors errorf and errorStatus with the code AWS documents. Nothing may panic on nil pointers of an input: use
// aws.ToString and its like.
//
// A new service is a constructor in services.go. What one service must learn from another goes through the extensions.
package awssim
