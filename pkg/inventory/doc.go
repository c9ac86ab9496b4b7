// Package inventory holds the pure types that every other package may import: what castoff saw of the cluster and of
// AWS, in castoff's own words. Ports fill them, pure packages decide on them. No type here has behaviour beyond
// looking at itself, and none holds a client.
package inventory
