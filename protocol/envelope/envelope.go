// Package envelope speaks protocol 004: JSON messages between agents, one per file or one per line of a log.
package envelope

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Name is the adapter's name in config, status and metrics.
const Name = "envelope"

// Steward's own folders and files.
const (
	own       = ".agents/steward"
	holdsDir  = own + "/holds"
	auditFile = own + "/audit.jsonl"
)

// maxFile bounds the size of one message. A larger file is a Fault.
const maxFile = 8 << 20

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Messages is the folder with one message per file. Log is the file with one message per line. Both are relative
	// to the project and use slashes. The document names no location for either.
	Messages, Log string
	// Acknowledge is how long an assignment may go without a TASK_ACKNOWLEDGMENT; 0 means no limit.
	Acknowledge time.Duration
	// Clarify is how long other agents have to answer a clarification. Escalate is how long they have to resolve a
	// blocker that is not addressed to a human. After that the operator is asked.
	Clarify, Escalate time.Duration
	// CallsPerDay is how many escalations to a human a day the project's own rules accept; 0 means no limit.
	CallsPerDay int
	// Validate: steward plays the ORCHESTRATOR of this project, so a completion counts only once it is approved. Another
	// orchestrator has no message that approves: its completions count when they are done.
	Validate bool
	// Alive returns false only on proof that the process is dead; nil: every process counts as alive. Only a Client uses it.
	Alive func(protocol.Identity) bool
	// Deployers are the agents whose tasks are all deployments.
	Deployers []string
}

// Project is one project's adapter. Only one goroutine may use it at a time. The readers turn files into messages, the
// board turns messages into tasks, and a view turns tasks into a snapshot.
type Project struct {
	*folder.Folder
	opts    Options
	board   *board
	audit   *auditLog
	source  *source
	inbox   *inbox
	log     *messageLog
	notices *notices
	works   *works
}

var _ protocol.Adapter = (*Project)(nil)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	opts.Messages, opts.Log = path.Clean(opts.Messages), path.Clean(opts.Log)
	p := &Project{opts: opts}
	p.Folder = folder.New(folder.Options{Dir: dir, Own: own, Home: homeOf(opts), Guard: opts.Guard,
		Sweep: []string{opts.Messages, own, holdsDir}, Forget: p.forget})
	p.forget() // now with the Folder
	return p
}

// homeOf returns the protocol's folder. Steward creates none of its own folders while that folder is missing.
func homeOf(opts Options) string {
	if ours := path.Dir(own); opts.Messages != ours && !strings.HasPrefix(opts.Messages, ours+"/") {
		return opts.Messages
	}
	return path.Dir(own)
}

// forget drops everything read so far, after the folder was replaced.
func (p *Project) forget() {
	p.board, p.audit, p.notices = newBoard(), newAuditLog(p.Folder), newNotices(p.Folder)
	p.source = &source{Folder: p.Folder, deployers: p.opts.Deployers, board: p.board, audit: p.audit}
	p.works = newWorks(p.Folder, p.board)
	p.board.validate = p.opts.Validate
	p.inbox, p.log = newInbox(p.source, p.opts.Messages), newMessageLog(p.source, p.opts.Log)
}

// Detect reports whether the project at dir has the message folder or the log (both relative to dir). A symbolic link
// in either place also counts, so that its rejection is reported as a Fault.
func Detect(dir, messages, log string) bool {
	root, err := jsonfile.Open(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	for file, isFolder := range map[string]bool{messages: true, log: false} {
		if st, err := root.Stat(file); errors.Is(err, jsonfile.ErrHostile) || err == nil && st.Mode.IsDir() == isFolder {
			return true
		}
	}
	return false
}

// OwnDir returns the folder for steward's own files in the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, filepath.FromSlash(own)) }

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	dirs := []string{p.opts.Messages, path.Dir(p.opts.Log), holdsDir, workDir}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Prepare creates the message folder and steward's own folders (boot). It writes no message: agents write messages.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.Begin(b.Now)
	if !plain(b.Agent) {
		return fmt.Errorf("boot: %q is not a valid agent name: it cannot be used as a file name", b.Agent)
	}
	err := p.Open()
	if err == nil {
		err = p.Root.MkdirAll(p.opts.Messages, 0o755)
	}
	if err == nil {
		err = p.Guarded(ctx, func() error { return nil })
	}
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	return nil
}

// Reads reports whether the last scan read the file (relative to the project), and returns the findings about the
// fields of its messages.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	list := p.log.messages
	if file != p.opts.Log {
		f := p.inbox.files[path.Base(file)]
		if f == nil || path.Dir(file) != p.opts.Messages {
			return nil, false
		}
		if list = nil; f.message != nil {
			list = []*message{f.message}
		}
	}
	for _, m := range list {
		for _, f := range m.findings {
			f.Subject, f.Path = p.subject(m.task), file
			fields = append(fields, f)
		}
	}
	return fields, true
}

// subject returns the subject of a finding or an event: the task, or the message folder if none exists.
func (p *Project) subject(task string) protocol.Subject {
	if task == "" {
		return protocol.Subject{Kind: protocol.KindProject, ID: p.opts.Messages}
	}
	return protocol.Subject{Kind: protocol.KindTask, ID: task}
}

// changes carry out the verbs that this protocol supports.
var changes = map[protocol.Verb]func(*Project, protocol.Change) error{
	protocol.VerbHold: (*Project).hold, protocol.VerbRelease: (*Project).release, protocol.VerbRenew: (*Project).renew,
	protocol.VerbLog: (*Project).writeEvent, protocol.VerbAnswer: (*Project).answer, protocol.VerbRequeue: (*Project).requeue,
}

// Apply carries out one change: hold, release, renew, log (Event "audit") or answer. Every file is compared with the
// judged version before it is moved, except by a release. Repeating a change after a crash leaves the same files as an
// uninterrupted change.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	carryOut := changes[c.Verb]
	switch {
	case carryOut == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Verb != protocol.VerbLog && c.Verb != protocol.VerbAnswer && !plain(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	}
	return p.Change(ctx, now, func() error {
		p.sweepNotices()
		return carryOut(p, c)
	})
}

// fresh reads new messages, rereads the task's own files, and reads the notices; it returns nil for an unknown task.
func (p *Project) fresh(id string) *task {
	p.notices.read()
	return p.update(id)
}

// update is fresh for the messages only. The next scan rereads the task's files too, so it sees the change that follows
// without a hint.
func (p *Project) update(id string) *task {
	p.inbox.list()
	p.inbox.reread(p.board.tasks[id])
	p.inbox.readUnsettled()
	p.log.read()
	p.works.read()
	p.board.settle(p.Now)
	p.inbox.reread(p.board.tasks[id])
	return p.board.tasks[id]
}

// sweepNotices removes notices whose held message is gone. It runs under the guard, so no steward process is in the
// middle of a hold. While the task of a held file is unknown, because the file cannot be read, all notices stay.
func (p *Project) sweepNotices() {
	held := func(id string) bool { t := p.board.tasks[id]; return t != nil && t.anyHeld() }
	for id, n := range p.notices.byTask {
		if !n.Good || held(id) {
			continue
		}
		p.update(id)
		unknown := p.Patience.Has(p.opts.Messages)
		for name, f := range p.inbox.files {
			unknown = unknown || f.message == nil && strings.HasSuffix(name, heldExt)
		}
		if !held(id) && !unknown && p.notices.remove(id) == nil { // a failed removal is retried
			delete(p.notices.byTask, id)
		}
	}
}
