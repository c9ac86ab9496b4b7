// Package autoscaler finds Cluster Autoscaler in the cluster, reads its flags, its Lease and its own word on what it manages,
// stops it, and keeps it stopped.
package autoscaler
