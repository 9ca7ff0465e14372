//go:build !windows

package service

import "context"

// Run runs f. Only the Windows service manager wants to be answered meanwhile.
func Run(ctx context.Context, f func(context.Context) error) error { return f(ctx) }
