//go:build !linux

package proc

import "errors"

// pidfds is the set of no process: this system is polled.
type pidfds struct{}

func openPidfds() (*pidfds, error) { return nil, errors.ErrUnsupported }

func (*pidfds) add(Identity) error           { return errors.ErrUnsupported }
func (*pidfds) take(uint64) (Identity, bool) { return Identity{}, false }
func (*pidfds) remove(Identity)              {}
func (*pidfds) found() <-chan []uint64       { return nil }
func (*pidfds) broken() <-chan error         { return nil }
func (*pidfds) close()                       {}
