// Package autoscaler finds Cluster Autoscaler in the cluster, reads its flags, its Lease and its own word on what it manages,
// stops it, keeps it stopped, and starts it again or deletes it; and with it aws-node-termination-handler.
package autoscaler
