package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/envelope"
	"github.com/livhana/steward/protocol/handoffs"
	"github.com/livhana/steward/protocol/mailbox"
	"github.com/livhana/steward/protocol/ralph"
	"github.com/livhana/steward/supervisor"
)

// adapter is one line of wiring per protocol.
type adapter struct {
	name   string
	detect func(dir string, cfg config.Config) bool
	own    func(dir string) string // steward's folder inside the protocol's
	open   func(dir string, cfg config.Config, guard guard) speaking
}

// speaking is an adapter in use.
type speaking interface {
	protocol.Adapter
	Close()
	// Reads reports whether the last look read the file (relative to the project), and what is wrong with its own fields.
	Reads(file string) (fields []protocol.Finding, read bool)
}

// beater is an adapter whose protocol has heartbeats that steward can keep for an agent.
type beater interface {
	Keep(agents map[string]time.Duration, now time.Time) error
}

// publisher is an adapter with a place for the capacity document.
type publisher interface{ Publish([]byte) error }

var adapters = []adapter{
	{agentstatus.Name, always(agentstatus.Detect), agentstatus.OwnDir, func(dir string, cfg config.Config, g guard) speaking {
		sources := map[string][]string{}
		for name, l := range cfg.Heartbeat.Agents {
			sources[name] = l.Sources
		}
		return agentstatus.New(dir, agentstatus.Options{Guard: g, Sources: sources})
	}},
	{handoffs.Name, always(handoffs.Detect), handoffs.OwnDir, func(dir string, _ config.Config, g guard) speaking {
		return openHandoffs(dir, g)
	}},
	{ralph.Name, always(ralph.Detect), ralph.OwnDir, func(dir string, cfg config.Config, g guard) speaking {
		return ralph.New(dir, ralph.Options{Guard: g, Flock: flock, NoWatch: !cfg.Ralph.Violations, Grace: cfg.Ralph.Grace, Resume: cfg.Ralph.Resume})
	}},
	{mailbox.Name, always(mailbox.Detect), mailbox.OwnDir, func(dir string, cfg config.Config, g guard) speaking {
		m := cfg.Mailbox
		return mailbox.New(dir, mailbox.Options{Guard: g, Lead: m.Lead, Developer: m.Developer, Review: m.Review})
	}},
	{envelope.Name, func(dir string, cfg config.Config) bool {
		return envelope.Detect(dir, cfg.Envelope.Messages, cfg.Envelope.Log)
	}, envelope.OwnDir, func(dir string, cfg config.Config, g guard) speaking {
		e := cfg.Envelope
		return envelope.New(dir, envelope.Options{Guard: g, Messages: e.Messages, Log: e.Log, Acknowledge: e.Acknowledge,
			Clarify: e.Clarify, Escalate: e.Escalate, CallsPerDay: e.CallsPerDay, Deployers: e.Deployers})
	}},
}

// always is a detection that no setting changes.
func always(detect func(dir string) bool) func(string, config.Config) bool {
	return func(dir string, _ config.Config) bool { return detect(dir) }
}

// flock takes the kernel's lock on an open file of another program's, which stays where it is.
func flock(ctx context.Context, f *os.File) (release func(), err error) {
	lock, err := platform.LockOpenWait(ctx, f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

func adapterNamed(name string) (adapter, bool) {
	i := slices.IndexFunc(adapters, func(a adapter) bool { return a.name == name })
	if i < 0 {
		return adapter{}, false
	}
	return adapters[i], true
}

// projectOf describes a project to the supervisor. alone takes the project's lock, so that one steward at a time
// acts there; plan looks without it.
func projectOf(ref config.ProjectRef, cfg config.Config, alone bool) supervisor.Project {
	return supervisor.Project{
		Name: ref.Name, Path: ref.Path,
		Detect: func() []string {
			var found []string
			for _, ad := range adapters {
				wanted := len(ref.Protocols) == 0 || slices.Contains(ref.Protocols, ad.name)
				if wanted && ad.detect(ref.Path, cfg) {
					found = append(found, ad.name)
				}
			}
			return found
		},
		Identify: func() (supervisor.Folder, error) { return folderOf(ref.Path) },
		Missing: func() error {
			info, err := os.Stat(ref.Path)
			if err == nil && !info.IsDir() {
				err = fmt.Errorf("%s is not a folder", ref.Path)
			}
			return err
		},
		Open: func(name string) (supervisor.Speaker, error) {
			ad, ok := adapterNamed(name)
			if !ok {
				return supervisor.Speaker{}, fmt.Errorf("protocol %s is not spoken by this version", name)
			}
			return ad.speak(ref, cfg, alone)
		},
	}
}

// folderOf says which folder a path leads to.
func folderOf(dir string) (supervisor.Folder, error) {
	path, id, err := platform.IdentifyFolder(dir)
	return supervisor.Folder{Path: path, Device: id.Device, Inode: id.Inode, Born: id.Born}, err
}

func (ad adapter) speak(ref config.ProjectRef, cfg config.Config, alone bool) (supervisor.Speaker, error) {
	act := ref.Mode(ad.name) != "observe"
	guard, only := guard(guardLock), &sole{dir: ref.Path, own: ad.own(ref.Path)}
	if act && alone {
		guard = only.guarded
	}
	a := ad.open(ref.Path, cfg, guard)
	s := supervisor.Speaker{Adapter: a, Act: act, Close: a.Close}
	if !act {
		s.Why = fmt.Sprintf("%s is only observed; repairs wait for: [project.mode] %s = \"act\"", ad.name, ad.name)
	}
	if p, ok := a.(publisher); ok {
		s.Publish = p.Publish
	}
	if b, ok := a.(beater); ok {
		s.Keep = b.Keep
	}
	if !act || !alone {
		return s, nil
	}
	if err := only.ready(); errors.Is(err, platform.ErrLocked) {
		only.close()
		a.Close()
		return supervisor.Speaker{}, err
	}
	s.Ready = only.ready
	s.Close = func() {
		a.Close()
		only.close()
	}
	return s, nil
}
