package provisioner

import (
	"fmt"
	"strings"
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

// InUseError says that an object was not deleted because others go by it. Looking again helps once they are gone.
type InUseError struct {
	// Object is kind and name.
	Object string
	// Users are kind and name each.
	Users []string
}

// Error names the object and at most three that use it.
func (e *InUseError) Error() string {
	const shown = 3
	users := strings.Join(e.Users[:min(shown, len(e.Users))], ", ")
	if more := len(e.Users) - shown; more > 0 {
		users += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s is in use by %s and was not deleted; castoff deletes it once they are gone or use another", e.Object, users)
}
