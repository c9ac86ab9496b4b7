package inventory

import "errors"

// Class is what a failed call asks of the caller. There are three, and nothing is final because it failed once.
type Class string

// The classes of errors.
const (
	// ClassRetry: try again later, with back-off.
	ClassRetry Class = "Retry"
	// ClassThrottled: the other side asked to slow down; it does not count as a failure.
	ClassThrottled Class = "Throttled"
	// ClassTerminal: it cannot work until a human changes the spec, a permission or the object that the error names.
	ClassTerminal Class = "Terminal"
)

type classError struct {
	class Class
	err   error
}

func (e *classError) Error() string { return e.err.Error() }
func (e *classError) Unwrap() error { return e.err }

// Throttled marks err as throttling. Nil stays nil.
func Throttled(err error) error { return classify(ClassThrottled, err) }

// Terminal marks err as one that a human has to mend. Nil stays nil.
func Terminal(err error) error { return classify(ClassTerminal, err) }

func classify(c Class, err error) error {
	if err == nil {
		return nil
	}
	return &classError{class: c, err: err}
}

// ClassOf tells the class of an error: the outermost mark in its chain, else ClassRetry.
func ClassOf(err error) Class {
	if ce, ok := errors.AsType[*classError](err); ok {
		return ce.class
	}
	return ClassRetry
}
