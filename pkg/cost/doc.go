// Package cost estimates what a cluster's nodes cost today and after the move, with one price list for both, and says whether
// the move is worth it. It is pure: the same cluster and the same prices give the same answer. Start reading at Estimate.
package cost
