// Package agentstatus implements protocol 000: tasks, heartbeats, registry and log under tmp/agent_status.
package agentstatus

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Name is the adapter's name in config, status and metrics.
const Name = "agentstatus"

// Base is the protocol's folder inside a project (protocol 000, File Locations).
const Base = "tmp/agent_status"

// The paths inside Base. Files under own belong to steward.
const (
	tasksDir    = "codex_tasks"
	archiveDir  = "codex_tasks/.processed" // some clients move ended tasks here
	sharedDir   = "shared"
	registry    = "shared/agent_registry.json"
	logFile     = "shared/coordination_log.jsonl"
	own         = "steward"
	attemptsDir = "steward/attempts"
	agentsDir   = "steward/agents"
	capacityDoc = "steward/" + folder.CapacityFile
)

// maxFile is the size limit for reading a file. A larger file is a Fault.
const maxFile = 1 << 20

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Sources lists further files per agent, absolute or relative to the project. A change to such a file is a sign
	// of life.
	Sources map[string][]string
}

// state is what an adapter or a Client has read of one project. The functions that carry out changes work on it.
type state struct {
	*files
	dir      string // the project
	attempts *attempts
	tasks    *taskTable
	agents   *agentDirs
	log      *sharedLog
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct{ *state }

var (
	_ protocol.Adapter = (*Project)(nil)
	_ protocol.Batcher = (*Project)(nil)
)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	f := &files{}
	s := &state{files: f, dir: dir, attempts: &attempts{files: f}, log: &sharedLog{files: f}, agents: &agentDirs{files: f, project: dir, sources: opts.Sources}}
	s.tasks = &taskTable{files: f, attempts: s.attempts, log: s.log, project: dir}
	f.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Rooms: []string{attemptsDir}, Guard: opts.Guard,
		Sweep: []string{sharedDir, agentsDir, attemptsDir, claimsDir, own}, Forget: s.forget,
		Tidy: s.attempts.prune})
	return &Project{s}
}

// forget drops all cached state. Folder calls it when the protocol's folder was recreated.
func (s *state) forget() {
	s.Listings.Reset()
	s.attempts.forget()
	s.tasks.forget()
	s.agents.forget()
	s.log.forget()
}

// Detect reports whether the project at dir speaks protocol 000. A symbolic link in place of the folder counts, so
// that its rejection is reported as a Fault.
func Detect(dir string) bool { return folder.Is(dir, Base) }

// Dirs lists the folders to watch. It leaves out the agents' own folders: a hundred agents that write heartbeats
// would wake steward all the time, and no heartbeat is more urgent than the next scan. See docs/decisions.md, "Agents' own folders are not watched".
func (p *Project) Dirs() []string {
	dirs := []string{Base}
	for _, d := range []string{tasksDir, archiveDir, claimsDir, sharedDir, agentsDir} {
		dirs = append(dirs, path.Join(Base, d))
	}
	return dirs
}

// Publish writes the capacity document where agents may read it.
func (p *Project) Publish(doc []byte) error {
	if err := p.Open(); err != nil {
		return err
	}
	if _, err := p.MakeOwn(); err != nil {
		return err
	}
	return p.Replace(capacityDoc, doc, jsonfile.Any, jsonfile.Volatile)
}

// OwnDir returns the folder of steward's own files for the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, filepath.FromSlash(Base), own) }

// Reads reports whether the last scan read the file (relative to the project), and returns the findings about its own
// fields.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	if !inside {
		return nil, false
	}
	if id, _, ok := parseTaskFile(path.Base(rel)); ok && p.tasks.open[id] != nil {
		e := p.tasks.open[id]
		issues, ok := map[string][]protocol.Finding{e.request.path: e.request.Value.issues, e.held.path: e.held.Value.issues,
			e.archived.path: e.archived.Value.issues, e.result.path: e.result.Value.issues, e.archivedResult.path: e.archivedResult.Value.issues,
			e.progress.path: e.progress.Value.issues, e.notice.path: nil}[rel]
		return findingsAbout(protocol.Subject{Kind: protocol.KindTask, ID: id}, file, issues), ok
	}
	return nil, p.agents.reads(rel) || rel == registry || rel == logFile
}

// changes carry out one change each. The guard lock is held, and the folders are probed.
var changes = map[protocol.Verb]func(*state, protocol.Change) error{
	protocol.VerbHold:     hold,
	protocol.VerbRelease:  release,
	protocol.VerbRenew:    renew,
	protocol.VerbRetry:    retry,
	protocol.VerbBury:     bury,
	protocol.VerbConclude: conclude,
	protocol.VerbCancel:   cancel,
	protocol.VerbFile:     fileLate,
	protocol.VerbRecord:   record,
	protocol.VerbMark:     mark,
	protocol.VerbLog:      logIfNew,
	protocol.VerbPause:    func(s *state, c protocol.Change) error { return setHeld(s, c.Subject.ID, c.Why) },
	protocol.VerbResume:   func(s *state, c protocol.Change) error { return setHeld(s, c.Subject.ID, "") },
	protocol.VerbAnswer:   answer,
}

// Apply carries out one change. It compares every file with what was judged before it moves or replaces the file.
// After a crash, applying the same change again ends in the same files.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	return p.ApplyAll(ctx, []protocol.Change{c}, now)[0]
}

// batchSize is how many changes are made per acquisition of the guard lock: workers and other steward commands wait
// for that lock. The log lines of one batch must fit into the queue of unwritten lines (mostQueued).
const batchSize = 200

// ApplyAll carries out changes of one verb. Many holds, releases, renewals or log events wait for the disk once per
// batch; after a crash, each of them is made or not made. Other changes are carried out one by one.
func (p *Project) ApplyAll(ctx context.Context, list []protocol.Change, now time.Time) []error {
	errs := make([]error, len(list))
	for i, n := 0, 0; i < len(list); i += n {
		switch n = 1; list[i].Verb {
		case protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew, protocol.VerbLog:
			n = min(batchSize, len(list)-i)
		}
		p.applyBatch(ctx, list[i:i+n], errs[i:i+n], now)
	}
	return errs
}

// applyBatch carries out changes under one guard lock, and sets the error of each.
func (p *Project) applyBatch(ctx context.Context, list []protocol.Change, errs []error, now time.Time) {
	accepted := false
	for i, c := range list {
		errs[i] = accepts(c)
		accepted = accepted || errs[i] == nil
	}
	if !accepted {
		return
	}
	err := ctx.Err()
	if err == nil {
		err = p.Change(ctx, now, func() error { return p.makeAll(list, errs) })
	}
	for i := range errs {
		errs[i] = cmp.Or(errs[i], err)
	}
}

// makeAll makes the accepted changes, and writes their log lines.
func (s *state) makeAll(list []protocol.Change, errs []error) (err error) {
	for _, c := range list { // the next scan reads their subjects, with or without a hint
		if c.Subject.Kind == protocol.KindTask {
			s.tasks.dirty[c.Subject.ID] = true
		}
	}
	s.probeAll()
	if len(list) > 1 {
		s.waits = []jsonfile.Option{jsonfile.Volatile}
	}
	for i, c := range list {
		if errs[i] == nil {
			errs[i] = folder.Conflict(changes[c.Verb](s, c))
		}
	}
	s.waits = nil
	if len(list) > 1 {
		err = s.Root.SyncFolder(tasksDir)
	}
	s.log.flush()
	return err
}

// accepts rejects a change that this protocol does not support, and a subject whose name cannot be a file name.
func accepts(c protocol.Change) error {
	switch {
	case changes[c.Verb] == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Subject.Kind == protocol.KindTask && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	case c.Subject.Kind == protocol.KindAgent && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a name for an agent", c.Verb, c.Subject.ID)
	}
	return nil
}

// setHeld records or removes the operator's hold of an agent (VerbPause, VerbResume).
func setHeld(s *state, agent, why string) error {
	return s.agents.editRecord(agent, func(r *agentRecord) { r.Held = why })
}
