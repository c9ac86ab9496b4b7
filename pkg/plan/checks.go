package plan

// Checks are those that are made here rather than in the preflight's own package, some of them only while castoff is at work:
// accepted risks may name them, too.
var Checks = []string{
	CheckBudgetOverride,
	CheckCapacity,
	CheckChangedBefore,
	CheckExistingKarpenter,
	CheckForeignSize,
	CheckGroupInTwoPools,
	CheckHealthFloor,
	CheckHeavierNodePool,
	CheckHomeInPool,
	CheckNameTaken,
	CheckNoHome,
	CheckNoNodeGroup,
	CheckNoScaler,
	CheckNodeGroupNotFound,
	CheckNodeRoleLacks,
	CheckNodeRoleShared,
	CheckPoolsNotNamed,
	CheckQueueConflict,
	CheckRefreshHeld,
	CheckTwoWaves,
}
