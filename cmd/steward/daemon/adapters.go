package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/lock"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/envelope"
	"github.com/livhana/steward/protocol/handoffs"
	"github.com/livhana/steward/protocol/mailbox"
	"github.com/livhana/steward/protocol/ralph"
	"github.com/livhana/steward/supervisor"
)

// adapter describes how steward detects and opens one protocol.
type adapter struct {
	Name   string
	detect func(dir string, cfg config.Config) bool
	Own    func(dir string) string // returns steward's folder inside the protocol's folder
	Open   func(dir string, cfg config.Config, guard guard) Speaker
	// participate opens the protocol for a participant in the work; nil for protocol 000, whose client is Connect.
	participate func(dir string, cfg config.Config, guard guard) protocol.Participant
}

// Speaker is a protocol's adapter in use.
type Speaker interface {
	protocol.Adapter
	Close()
	// Reads reports whether the last scan read the file (relative to the project), and returns the findings about its
	// fields.
	Reads(file string) (fields []protocol.Finding, read bool)
}

// beater is an adapter whose protocol has heartbeats that steward can keep for an agent.
type beater interface {
	Keep(agents map[string]time.Duration, now time.Time) error
}

// publisher is an adapter that can publish the capacity document.
type publisher interface{ Publish([]byte) error }

var Adapters = []adapter{
	{agentstatus.Name, always(agentstatus.Detect), agentstatus.OwnDir, func(dir string, cfg config.Config, g guard) Speaker {
		sources := map[string][]string{}
		for name, l := range cfg.Heartbeat.Agents {
			sources[name] = l.Sources
		}
		return agentstatus.New(dir, agentstatus.Options{Guard: g, Sources: sources})
	}, nil},
	{handoffs.Name, always(handoffs.Detect), handoffs.OwnDir, func(dir string, _ config.Config, g guard) Speaker {
		return openHandoffs(dir, g)
	}, func(dir string, _ config.Config, g guard) protocol.Participant {
		return handoffs.Connect(dir, handoffs.Options{Guard: g})
	}},
	{ralph.Name, always(ralph.Detect), ralph.OwnDir, func(dir string, cfg config.Config, g guard) Speaker {
		return ralph.New(dir, ralph.Options{Guard: g, Flock: flock, NoWatch: !cfg.Ralph.Violations, Violation: cfg.Ralph.ViolationAction, Grace: cfg.Ralph.Grace, Resume: cfg.Ralph.Resume})
	}, func(dir string, cfg config.Config, g guard) protocol.Participant {
		return ralph.Connect(dir, ralph.Options{Guard: g, Flock: flock, Grace: cfg.Ralph.Grace, Resume: cfg.Ralph.Resume})
	}},
	{mailbox.Name, always(mailbox.Detect), mailbox.OwnDir, func(dir string, cfg config.Config, g guard) Speaker {
		return mailbox.New(dir, mailboxOptions(cfg, g))
	}, func(dir string, cfg config.Config, g guard) protocol.Participant {
		return mailbox.Connect(dir, mailboxOptions(cfg, g))
	}},
	{envelope.Name, func(dir string, cfg config.Config) bool {
		return envelope.Detect(dir, cfg.Envelope.Messages, cfg.Envelope.Log)
	}, envelope.OwnDir, func(dir string, cfg config.Config, g guard) Speaker {
		return envelope.New(dir, envelopeOptions(dir, cfg, g))
	}, func(dir string, cfg config.Config, g guard) protocol.Participant {
		return envelope.Connect(dir, envelopeOptions(dir, cfg, g))
	}},
}

func envelopeOptions(dir string, cfg config.Config, g guard) envelope.Options {
	e := cfg.Envelope
	return envelope.Options{Guard: g, Messages: e.Messages, Log: e.Log, Acknowledge: e.Acknowledge,
		Clarify: e.Clarify, Escalate: e.Escalate, CallsPerDay: e.CallsPerDay, Deployers: e.Deployers, Alive: MayLive,
		Validate: Directs(dir, envelope.Name, cfg)}
}

// Directs reports whether steward plays the orchestrator of a protocol in the project at dir: a [[role]] row says so.
func Directs(dir, name string, cfg config.Config) bool {
	home, _ := os.UserHomeDir()
	return slices.ContainsFunc(cfg.Roles, func(r config.Role) bool {
		project, err := config.Expand(r.Project, home, "/")
		return err == nil && r.Acts() && (r.Protocol == name || r.Protocol == "") && platform.SameFolder(project, dir)
	})
}

func mailboxOptions(cfg config.Config, g guard) mailbox.Options {
	m := cfg.Mailbox
	return mailbox.Options{Guard: g, Lead: m.Lead, Developer: m.Developer, Review: m.Review}
}

// always wraps a detection that does not depend on the configuration.
func always(detect func(dir string) bool) func(string, config.Config) bool {
	return func(dir string, _ config.Config) bool { return detect(dir) }
}

// flock takes the kernel's lock on an open file that belongs to another program. The file stays in place.
func flock(ctx context.Context, f *os.File) (release func(), err error) {
	lock, err := platform.LockOpenWait(ctx, f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

// Spoken lists the protocols that the project at dir speaks.
func Spoken(dir string, cfg config.Config) (names []string) {
	for _, ad := range Adapters {
		if ad.detect(dir, cfg) {
			names = append(names, ad.Name)
		}
	}
	return names
}

// Names lists all protocols.
func Names() (names []string) {
	for _, ad := range Adapters {
		names = append(names, ad.Name)
	}
	return names
}

// Participate opens a protocol of the project at dir for a participant in its work. ok is false for protocol 000, which
// has a client of its own: see Connect.
func Participate(dir, name string, cfg config.Config) (p protocol.Participant, ok bool) {
	ad, found := AdapterNamed(name)
	if !found || ad.participate == nil {
		return nil, false
	}
	return ad.participate(dir, cfg, GuardLock), true
}

// Folders are the absolute paths of the folders to watch for changes of a protocol's files.
func Folders(dir, name string, cfg config.Config) (folders []string) {
	if ad, found := AdapterNamed(name); found {
		s := ad.Open(dir, cfg, GuardLock)
		defer s.Close()
		for _, rel := range s.Dirs() {
			folders = append(folders, filepath.Join(dir, filepath.FromSlash(rel)))
		}
	}
	return folders
}

// Returns precedes the keys that a run prints at its end, in the message of a protocol that reports them.
func Returns(name string) string {
	if name == handoffs.Name {
		return "payload."
	}
	return ""
}

func AdapterNamed(name string) (adapter, bool) {
	i := slices.IndexFunc(Adapters, func(a adapter) bool { return a.Name == name })
	if i < 0 {
		return adapter{}, false
	}
	return Adapters[i], true
}

// OpenProject describes a project to the supervisor. alone: take the project's lock, so that only one steward acts in the
// project; `steward plan` reads without it.
func OpenProject(ref config.ProjectRef, cfg config.Config, alone bool) supervisor.Project {
	return supervisor.Project{
		Name: ref.Name, Path: ref.Path,
		Detect: func() []string {
			var found []string
			for _, ad := range Adapters {
				wanted := len(ref.Protocols) == 0 || slices.Contains(ref.Protocols, ad.Name)
				if wanted && ad.detect(ref.Path, cfg) {
					found = append(found, ad.Name)
				}
			}
			return found
		},
		Identify: func() (supervisor.Folder, error) { return FolderOf(ref.Path) },
		Missing: func() error {
			info, err := os.Stat(ref.Path)
			if err == nil && !info.IsDir() {
				err = fmt.Errorf("%s is not a folder", ref.Path)
			}
			return err
		},
		Open: func(name string, mode protocol.Mode) (supervisor.Speaker, error) {
			ad, ok := AdapterNamed(name)
			if !ok {
				return supervisor.Speaker{}, fmt.Errorf("this version does not support protocol %s", name)
			}
			return ad.Speak(ref, cfg, alone, cmp.Or(mode, protocol.Mode(ref.Mode(name))))
		},
	}
}

func openProjects(refs []config.ProjectRef, cfg config.Config) []supervisor.Project {
	var projects []supervisor.Project
	for _, ref := range refs {
		projects = append(projects, OpenProject(ref, cfg, true))
	}
	return projects
}

// FolderOf returns the identity of the folder that the path leads to.
func FolderOf(dir string) (supervisor.Folder, error) {
	path, id, err := platform.IdentifyFolder(dir)
	return supervisor.Folder{Path: path, Device: id.Device, Inode: id.Inode, Born: id.Born}, err
}

// Speak opens the adapter. Where steward only observes, it takes the project's guard lock for the time of a person's order, and
// no other lock.
func (ad adapter) Speak(ref config.ProjectRef, cfg config.Config, alone bool, mode protocol.Mode) (supervisor.Speaker, error) {
	guard, only := guard(GuardLock), &ProjectLock{Dir: ref.Path, Own: ad.Own(ref.Path)}
	observe := mode == protocol.ModeObserve
	if !observe && alone {
		guard = only.Guarded
	}
	a := ad.Open(ref.Path, cfg, guard)
	s := supervisor.Speaker{Adapter: a, Mode: mode, Close: a.Close}
	switch mode {
	case protocol.ModeObserve:
		s.Why = fmt.Sprintf("%s is only observed; to be asked before each repair: steward mode %s %[1]s ask", ad.Name, ref.Name)
	case protocol.ModeAsk:
		s.Why = fmt.Sprintf("steward asks before each repair of %s; to let it repair: steward mode %s %[1]s act", ad.Name, ref.Name)
	}
	if p, ok := a.(publisher); ok {
		s.Publish = p.Publish
	}
	if b, ok := a.(beater); ok {
		s.Keep = b.Keep
	}
	if observe || !alone {
		return s, nil
	}
	if err := only.Ready(); errors.Is(err, platform.ErrLocked) {
		only.Close()
		a.Close()
		return supervisor.Speaker{}, err
	}
	s.Ready = only.Ready
	s.Close = func() {
		a.Close()
		only.Close()
	}
	return s, nil
}

// lockLister is the adapter of a protocol that lists locks in a file, with the kernel locks that back some of them.
type lockLister struct {
	*handoffs.Project
	place *lock.Locks
}

func openHandoffs(dir string, g guard) Speaker {
	place := lock.Open(dir, lock.Options{Now: time.Now})
	return lockLister{handoffs.New(dir, handoffs.Options{Guard: g, Granted: place.Granted}), place}
}

func (l lockLister) Close() {
	l.Project.Close()
	l.place.Close()
}
