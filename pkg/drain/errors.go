package drain

import (
	"fmt"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// NotBegunError refuses to evict from a node whose drain has not begun: nothing would keep the evicted pods away from it.
type NotBegunError struct{ Node string }

// Error says which node and what it lacks.
func (e *NotBegunError) Error() string {
	return fmt.Sprintf("node %s does not carry the annotation %s, so no pod was evicted; begin its drain first",
		e.Node, v1alpha1.AnnotationDraining)
}
