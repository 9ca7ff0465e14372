package lock

import (
	"context"
	"time"

	"github.com/livhana/steward/protocol"
)

// Mirror shows steward's locks in the state file, for agents that know only the files of their protocol (protocol 001,
// Lock Protocol). A Rival is an agent's own lock on the same resource; with a rival nothing is entered. In a project
// without a state file the methods do nothing and return no error. One goroutine at a time uses a Mirror.
type Mirror interface {
	Claim(ctx context.Context, k protocol.Lock, now time.Time) (*protocol.Rival, error)
	Renew(ctx context.Context, k protocol.Lock, now time.Time) (*protocol.Rival, error)
	Drop(ctx context.Context, k protocol.Lock, now time.Time) error
	Break(ctx context.Context, k protocol.Lock, why string, now time.Time) error
	Locks(ctx context.Context, now time.Time) ([]protocol.Rival, error)
	// Settle merges late writes into a replaced state file; more: call it again.
	Settle(ctx context.Context, now time.Time) (more bool)
	Close()
}

// noMirror is the Mirror of a project without one.
type noMirror struct{}

func (noMirror) Claim(context.Context, protocol.Lock, time.Time) (*protocol.Rival, error) {
	return nil, nil
}
func (noMirror) Renew(context.Context, protocol.Lock, time.Time) (*protocol.Rival, error) {
	return nil, nil
}
func (noMirror) Drop(context.Context, protocol.Lock, time.Time) error          { return nil }
func (noMirror) Break(context.Context, protocol.Lock, string, time.Time) error { return nil }
func (noMirror) Locks(context.Context, time.Time) ([]protocol.Rival, error)    { return nil, nil }
func (noMirror) Settle(context.Context, time.Time) bool                        { return false }
func (noMirror) Close()                                                        {}
