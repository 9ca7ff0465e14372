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

// What a Client's callers tell apart.
var (
	ErrTaken  = errors.New("somebody else has it")
	ErrNoTask = errors.New("no such task")
	ErrEnded  = errors.New("it has ended already")
)

// ClientOptions are what a Client needs of the machine.
type ClientOptions struct {
	Guard folder.Guard // may be nil
	// Alive is false only with proof of the process's death; nil: everybody lives.
	Alive func(protocol.Identity) bool
}

// Client acts for agents: it submits, claims, reports and ends tasks as the document asks of them, with files that any
// other client of the protocol understands. Processes of ours exclude each other by the guard lock. It is used by one
// goroutine at a time.
type Client struct {
	p      *Project
	alive  func(protocol.Identity) bool
	offers offers
}

// Connect makes a Client for the project at dir (absolute). Nothing is read yet.
func Connect(dir string, o ClientOptions) *Client {
	if o.Alive == nil {
		o.Alive = func(protocol.Identity) bool { return true }
	}
	return &Client{p: New(dir, Options{Guard: o.Guard}), alive: o.Alive}
}

// Close releases what is open.
func (c *Client) Close() { c.p.Close() }

// open begins a piece of work: the protocol's folder must be there.
func (c *Client) open(now time.Time) error {
	c.p.Begin(now)
	err := c.p.Open()
	if folder.Missing(err) {
		return ErrNotInitialized
	}
	return err
}

// guarded runs act alone among our own processes, with the folders looked at anew.
func (c *Client) guarded(ctx context.Context, now time.Time, act func() error) error {
	if err := c.open(now); err != nil {
		return err
	}
	return c.p.Guarded(ctx, func() error {
		c.p.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir, agentsDir, sharedDir)
		return act()
	})
}

// dead reports that a process is proved to be gone. One that proves nothing is not.
func (c *Client) dead(id protocol.Identity) bool { return id.Proves() && !c.alive(id) }

// NewTaskID gives a UUID v4 (protocol 000, Task Request Schema).
func NewTaskID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// put writes a file of ours or of the protocol's whole, over whatever is there.
func (p *Project) put(file string, v any, opts ...jsonfile.Option) error {
	doc, err := jsonfile.Encode(v)
	if err != nil {
		return err
	}
	late, err := p.Root.Replace(file, doc, jsonfile.Any, opts...)
	_ = late.Close()
	return err
}

// say appends a client's own line to the shared log (protocol 000, Coordination Log Schema). A task is not stopped by a
// log that cannot be written.
func (p *Project) say(event, task, source, target, message string) {
	_ = p.write(logLine{Timestamp: jsonfile.FormatTime(p.Now), EventType: event, TaskID: task, Source: source, Target: target,
		Message: folder.Line(message, 500)})
}
