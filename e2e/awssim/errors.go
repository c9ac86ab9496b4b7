package awssim

import (
	"errors"
	"fmt"
	"net/http"
)

// apiError is an error that AWS itself would answer.
type apiError struct {
	Code    string
	Message string
	Status  int
	// QueryCode is the code that services which moved away from awsQuery still send beside Code (SQS, CloudWatch).
	QueryCode string
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// errorf is an error in the request (400) with the code that AWS documents for it.
func errorf(code, format string, args ...any) *apiError {
	return errorStatus(http.StatusBadRequest, code, format, args...)
}

// errorStatus is errorf with another HTTP status.
func errorStatus(status int, code, format string, args ...any) *apiError {
	return &apiError{Code: code, Message: fmt.Sprintf(format, args...), Status: status}
}

// asAPIError finds what the caller sees. Whatever is not an apiError is a bug of the simulator: an internal failure.
func asAPIError(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	return errorStatus(http.StatusInternalServerError, "InternalFailure", "%v", err)
}
