package agentstatus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The errors that callers of a Client distinguish.
var (
	ErrTaken  = errors.New("somebody else has it")
	ErrNoTask = errors.New("no such task")
	ErrEnded  = errors.New("it has ended already")
)

// ClientOptions configures a Client.
type ClientOptions struct {
	Guard folder.Guard // may be nil
	// Alive returns false only on proof that the process is dead. If Alive is nil, every process counts as alive.
	Alive func(protocol.Identity) bool
}

// Client acts for agents: it submits, claims, reports and ends tasks as protocol 000 requires, with files that every
// other client of the protocol understands. Steward's processes exclude each other by the guard lock. Only one
// goroutine at a time may use a Client.
type Client struct {
	p      *Project
	alive  func(protocol.Identity) bool
	offers offers
}

// Connect returns a Client for the project at dir (absolute). It reads nothing yet.
func Connect(dir string, o ClientOptions) *Client {
	if o.Alive == nil {
		o.Alive = func(protocol.Identity) bool { return true }
	}
	return &Client{p: New(dir, Options{Guard: o.Guard}), alive: o.Alive}
}

// Close closes the open files.
func (c *Client) Close() { c.p.Close() }

// open starts an operation: the protocol's folder must exist.
func (c *Client) open(now time.Time) error {
	c.p.Begin(now)
	err := c.p.Open()
	if folder.Missing(err) {
		return ErrNotInitialized
	}
	return err
}

// guarded runs act under the guard lock, after a new probe of the folders.
func (c *Client) guarded(ctx context.Context, now time.Time, act func() error) error {
	if err := c.open(now); err != nil {
		return err
	}
	return c.p.Guarded(ctx, func() error {
		c.p.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir, agentsDir, sharedDir)
		return act()
	})
}

// dead reports whether the process is proved dead. An identity that proves nothing does not count as dead.
func (c *Client) dead(id protocol.Identity) bool { return id.Proves() && !c.alive(id) }

// NewTaskID returns a random UUID v4 (protocol 000, Task Request Schema).
func NewTaskID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// put writes a whole file, over any previous content.
func (p *Project) put(file string, v any, opts ...jsonfile.Option) error {
	doc, err := jsonfile.Encode(v)
	if err != nil {
		return err
	}
	late, err := p.Root.Replace(file, doc, jsonfile.Any, opts...)
	_ = late.Close()
	return err
}

// say appends a client's own line to the shared log (protocol 000, Coordination Log Schema). It ignores a failed
// write: a log that cannot be written must not stop a task.
func (p *Project) say(event, task, source, target, message string) {
	_ = p.write(logLine{Timestamp: jsonfile.FormatTime(p.Now), EventType: event, TaskID: task, Source: source, Target: target,
		Message: folder.Line(message, 500)})
}
