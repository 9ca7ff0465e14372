//go:build !unix

package ralph

import "context"

// flock locks nothing: there is none here.
func flock(context.Context, string) (func(), error) { return func() {}, nil }
