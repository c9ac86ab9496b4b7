package provisioner

import (
	"fmt"
)

// ForeignError says that an object of that name exists, is not castoff's, and was left alone. It is terminal.
type ForeignError struct {
	// Object is kind and name.
	Object string
	// Mark is the label by which castoff knows its own.
	Mark string
}

// Error says what is in the way and what can be done.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s exists without the label %s, so it is not castoff's and was left alone; rename the pool, or remove the object",
		e.Object, e.Mark)
}
