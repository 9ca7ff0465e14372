// Package handoffs speaks protocol 001: handoff messages and the shared state file under .claude.
package handoffs

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Name is the adapter's name in config, status and metrics.
const Name = "handoffs"

// Base is the protocol's folder inside a project (protocol 001, Handoff Storage). Other tools keep files there too.
const Base = ".claude"

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Granted returns the lock that steward itself granted on a resource: the newest Fence, and the Holder, Acquired,
	// Expires (the end of the whole lease, regardless of renewals of the entry) and Process of that grant, even if it has
	// ended. Kernel: the lock is still held, or steward cannot tell. A nil func means that steward grants no locks.
	Granted func(resource string) (l protocol.Lock, ok bool)
}

// Project is one project's adapter. Only one goroutine may use it at a time. The readers turn files into values, a view
// turns the values into a snapshot.
type Project struct {
	*source
	grants     grants
	state      *stateReader
	boxes      *boxes
	attempts   *folder.Attempts
	log        *eventLog
	releases   *releases
	claims     *claims
	tracker    *tracker
	signs      *signs
	conditions map[string]time.Time // start of each condition that must persist before it is reported
}

var _ protocol.Adapter = (*Project)(nil)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	p := &Project{source: &source{}, grants: opts.Granted}
	p.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Guard: opts.Guard,
		Sweep: []string{".", boxDir, own, attemptsDir, claimsDir}, Forget: p.forget})
	return p
}

// forget drops everything read so far, after the folder was replaced.
func (p *Project) forget() {
	p.began, p.conditions = time.Time{}, map[string]time.Time{}
	p.state, p.attempts = &stateReader{source: p.source}, folder.NewAttempts(attemptsDir)
	p.log, p.releases, p.signs = newEventLog(p.source), newReleases(p.source), newSigns()
	p.claims = &claims{source: p.source, records: map[string]claimRecord{}}
	p.tracker = newTracker(p.source, p.log, p.attempts)
	p.boxes = newBoxes(p.source, p.tracker, p.signs)
}

// OwnDir returns the folder for steward's own files in the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }

// Detect reports whether the project at dir uses protocol 001: it has a folder for handoffs, or a state file with locks
// or agents. A symbolic link in the folder's place also counts, so that its rejection is reported as a Fault.
func Detect(dir string) bool {
	if folder.Is(dir, Base+"/"+boxDir) {
		return true
	}
	root, err := jsonfile.Open(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	o, _, err := root.Load(Base+"/"+stateFile, maxFile)
	return err == nil && isOurs(o)
}

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	dirs := []string{Base}
	for _, at := range places {
		dirs = append(dirs, Base+"/"+at.dir())
	}
	return dirs
}

// Reads reports whether this protocol reads the file (relative to the project), and returns the findings about its own
// fields. It reads even a message that ended long ago.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	at, _, ok := placeOf(rel)
	if !inside || !ok || p.Root == nil {
		return nil, inside && (rel == stateFile && p.state.Good && p.state.Value.ours || rel == logFile)
	}
	h := p.boxes.listed[rel]
	if h == nil {
		h = p.boxes.newHandoff(at, rel)
		p.boxes.load(h)
	}
	for _, f := range h.Value.findings {
		f.Subject, f.Path = protocol.Subject{Kind: protocol.KindTask, ID: h.Value.id}, file
		fields = append(fields, f)
	}
	return fields, h.Good && !h.foreign()
}
