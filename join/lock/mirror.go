package lock

import (
	"context"
	"sync"
	"time"

	"github.com/livhana/steward/protocol"
)

// Mirror shows steward's locks in the state file, for agents that know only the files of their protocol (protocol 001,
// Lock Protocol). A Rival is an agent's own lock on the same resource; with a rival nothing is entered. In a project
// without a state file the methods do nothing and return no error.
type Mirror interface {
	Claim(ctx context.Context, k protocol.Lock, now time.Time) (*protocol.Rival, error)
	Renew(ctx context.Context, k protocol.Lock, now time.Time) (*protocol.Rival, error)
	Drop(ctx context.Context, k protocol.Lock, now time.Time) error
	Break(ctx context.Context, k protocol.Lock, why string, now time.Time) error
	Locks(ctx context.Context, now time.Time) ([]protocol.Rival, error)
	Settle(ctx context.Context, now time.Time) (more bool)
	Close()
}

// mirror serializes the calls of a Mirror, which may be nil: then nothing is called.
type mirror struct {
	mu sync.Mutex
	m  Mirror
}

func (m *mirror) call(act func(Mirror) (*protocol.Rival, error)) (*protocol.Rival, error) {
	if m.m == nil {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return act(m.m)
}

func (m *mirror) list(ctx context.Context, now time.Time) (all []protocol.Rival, err error) {
	_, _ = m.call(func(m Mirror) (*protocol.Rival, error) {
		all, err = m.Locks(ctx, now)
		return nil, nil
	})
	return all, err
}

func (m *mirror) drop(ctx context.Context, k protocol.Lock, now time.Time) error {
	_, err := m.call(func(m Mirror) (*protocol.Rival, error) { return nil, m.Drop(ctx, k, now) })
	return err
}

// settle merges late writes into a replaced state file; more: call it again.
func (m *mirror) settle(ctx context.Context, now time.Time) (more bool) {
	_, _ = m.call(func(m Mirror) (*protocol.Rival, error) {
		more = m.Settle(ctx, now)
		return nil, nil
	})
	return more
}

// The longest time that close waits, and how often it looks meanwhile.
const (
	closeWait  = 200 * time.Millisecond
	closeLooks = 8
)

// close waits briefly for clients that had the state file open when it was replaced, so that no write is lost.
func (m *mirror) close(now func() time.Time) {
	if m.m == nil {
		return
	}
	for looks := 0; looks < closeLooks && m.settle(context.Background(), now()); looks++ {
		pause(context.Background(), closeWait/closeLooks)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m.Close()
}
