// Package provisioner observes Karpenter, makes the EC2NodeClasses and NodePools that take the node groups' place, and deletes
// them again. A canary proves each EC2NodeClass with one node before any user's pod depends on it.
package provisioner
