package plan

import (
	"fmt"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// CheckForeignSize is a size that is neither the recorded one nor castoff's: somebody set it since.
const CheckForeignSize = "ForeignSize"

// sizesBack are the sizes to go back to. A min or max that is neither recorded nor castoff's is somebody's own, and stays,
// unless spec.acceptedRisks names it. Desired is never lowered: that would let AWS choose whom to end.
func sizesBack(o *outcome, l look, g, recorded inventory.NodeGroup) (minimum, maximum, desired int32) {
	minimum, maximum = recorded.Min, recorded.Max
	if !acceptsForeignSize(l, g) {
		if foreignMin(g, recorded) {
			minimum = g.Min
			foreignSetting(o, g, fmt.Sprintf("its min is %d, and was %d", g.Min, recorded.Min))
		}
		if foreignMax(g, recorded) {
			maximum = g.Max
			foreignSetting(o, g, fmt.Sprintf("its max is %d, and was %d", g.Max, recorded.Max))
		}
	}
	maximum = max(maximum, minimum, g.Desired)
	return minimum, maximum, min(max(g.Desired, recorded.Desired, minimum), maximum)
}

// foreignMin: castoff only ever sets 0.
func foreignMin(g, recorded inventory.NodeGroup) bool { return g.Min != recorded.Min && g.Min != 0 }

// foreignMax: castoff only ever sets the end size, or at least 1 where min is lowered.
func foreignMax(g, recorded inventory.NodeGroup) bool {
	return g.Max != recorded.Max && g.Max != endMax(g) && g.Max != max(recorded.Max, 1)
}

func acceptsForeignSize(l look, g inventory.NodeGroup) bool {
	return l.covers(CheckForeignSize, "nodegroup/"+g.Name)
}

// foreignSetting tells of somebody's own change, which castoff leaves: of all that concerns a group in one.
func foreignSetting(o *outcome, g inventory.NodeGroup, what string) {
	object := "nodegroup/" + g.Name
	for i := range o.blockers {
		if b := &o.blockers[i]; b.Reason == CheckForeignSize && b.Object == object && b.Severity == v1alpha1.SeverityWarn {
			b.Message = strings.TrimSuffix(b.Message, left) + "; " + what + left
			return
		}
	}
	o.warn(CheckForeignSize, object, "Somebody changed the group since the snapshot: "+what+left)
}

// left ends what foreignSetting says.
const left = ". castoff leaves that as it is."
