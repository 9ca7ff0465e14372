//go:build !linux

package proc

import "time"

// Unhurried does nothing: timers cannot be told here that they may come late.
func Unhurried(time.Duration) error { return nil }

// Prompt runs start.
func Prompt(start func() error) error { return start() }
