package inventory

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestDrainAllowance(t *testing.T) {
	cart := types.NamespacedName{Namespace: "shop", Name: "cart-0"}
	web, all := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "all"}
	everything := DrainAllowance{BarePods: Objects{"*"}, LocalVolumes: Objects{"*"}, DoNotDisrupt: Objects{"*"}, Budgets: Objects{"*"}, Jobs: true}
	cases := map[string]struct {
		reason    string
		allowance DrainAllowance
		blocked   BlockedPod
		allows    bool
		overrides bool
	}{
		"Nothing":              {"the zero value allows nothing", DrainAllowance{}, BlockedPod{Pod: cart, Reason: BlockedBare}, false, false},
		"Bare":                 {"by the pod's name", DrainAllowance{BarePods: Objects{"pod/shop/cart-0"}}, BlockedPod{Pod: cart, Reason: BlockedBare}, true, false},
		"BareNamesake":         {"another namespace's pod is another", DrainAllowance{BarePods: Objects{"pod/test/cart-0"}}, BlockedPod{Pod: cart, Reason: BlockedBare}, false, false},
		"OtherRisk":            {"each risk is accepted for itself", DrainAllowance{BarePods: Objects{"*"}}, BlockedPod{Pod: cart, Reason: BlockedDoNotDisrupt}, false, false},
		"DoNotDisrupt":         {"all of them", DrainAllowance{DoNotDisrupt: Objects{"*"}}, BlockedPod{Pod: cart, Reason: BlockedDoNotDisrupt}, true, false},
		"DoNotDisruptWorkload": {"by the workload, as the preflight names it", DrainAllowance{DoNotDisrupt: Objects{"deployment/shop/cart"}}, BlockedPod{Pod: cart, Workload: "deployment/shop/cart", Reason: BlockedDoNotDisrupt}, true, false},
		"Volume":               {"by the volume's name", DrainAllowance{LocalVolumes: Objects{"persistentvolume/disk"}}, BlockedPod{Pod: cart, Reason: BlockedLocalVolume, Volume: "disk"}, true, false},
		"VolumeByPod":          {"by the pod's name", DrainAllowance{LocalVolumes: Objects{"pod/shop/cart-0"}}, BlockedPod{Pod: cart, Reason: BlockedLocalVolume, Volume: "disk"}, true, false},
		"Job":                  {"when its time is over", DrainAllowance{Jobs: true}, BlockedPod{Pod: cart, Reason: BlockedJob}, true, false},
		"Budget":               {"a budget's word is not the pod's own", DrainAllowance{Budgets: Objects{"poddisruptionbudget/shop/web"}}, BlockedPod{Pod: cart, Reason: BlockedByPDB, PDBs: []types.NamespacedName{web}}, false, true},
		"OneOfTwo":             {"two budgets are two words", DrainAllowance{Budgets: Objects{"poddisruptionbudget/shop/web"}}, BlockedPod{Pod: cart, Reason: BlockedByTwoPDBs, PDBs: []types.NamespacedName{web, all}}, false, false},
		"BothOfTwo":            {"both are overridden", DrainAllowance{Budgets: Objects{"poddisruptionbudget/shop/web", "poddisruptionbudget/shop/all"}}, BlockedPod{Pod: cart, Reason: BlockedByTwoPDBs, PDBs: []types.NamespacedName{web, all}}, false, true},
		"UnknownBudget":        {"a budget that was not seen cannot have been meant", everything, BlockedPod{Pod: cart, Reason: BlockedByPDB}, false, false},
		"Terminating":          {"nothing hurries a pod's end", everything, BlockedPod{Pod: cart, Reason: BlockedTerminating}, false, false},
		"Stuck":                {"nothing forces it, either", everything, BlockedPod{Pod: cart, Reason: BlockedStuck}, false, false},
		"Refused":              {"an error is no policy's to pass", everything, BlockedPod{Pod: cart, Reason: BlockedError}, false, false},
		"BudgetOfOthers":       {"only a budget's refusal is overridden", everything, BlockedPod{Pod: cart, Reason: BlockedTerminating, PDBs: []types.NamespacedName{web}}, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.allowance.Allows(tc.blocked); got != tc.allows {
				t.Errorf("%s: Allows = %t", tc.reason, got)
			}
			if got := tc.allowance.Overrides(tc.blocked); got != tc.overrides {
				t.Errorf("%s: Overrides = %t", tc.reason, got)
			}
		})
	}
}
