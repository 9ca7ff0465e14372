package daemon

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// Options say how a command starts the daemon.
type Options struct {
	// Dirs are the projects that the command names; if there are none, those of the configuration.
	Dirs []string
	// Once: scan, decide and apply a single time, and leave no hold behind.
	Once bool
	// Manager is the service manager that started this process, "" if started by hand. Line sends messages to it.
	Manager string
	Line    *service.Line
	// Settings reads the configuration and returns the paths of this user's files.
	Settings func() (config.Config, platform.Paths, error)
	Log      *slog.Logger
	Out, Err io.Writer
	Version  string
}

// settings are the configuration in force and the projects to supervise. A reload replaces them while other goroutines
// read them.
type settings struct{ atomic.Pointer[inForce] }

type inForce struct {
	cfg  config.Config
	refs []config.ProjectRef
}

func (s *settings) set(cfg config.Config, refs []config.ProjectRef) { s.Store(&inForce{cfg, refs}) }
func (s *settings) config() config.Config                           { return s.Load().cfg }
func (s *settings) projects() []config.ProjectRef                   { return s.Load().refs }
func (s *settings) escalation() escalate.Config                     { return s.Load().cfg.Escalate }

// reports records what happens: incidents in the ledger, from where the dispatcher delivers them, and entries in the
// journal.
type reports struct {
	ledger   *escalate.Incidents
	journal  *supervisor.Journal
	settings *settings
	log      *slog.Logger
}

// tell records an alert in the ledger.
func (r *reports) tell(a rules.Alert) error {
	a.Options = r.settings.escalation().Mark(a.Options)
	i, outcome, err := r.ledger.Raise(a, time.Now())
	if outcome == rules.OutcomeNew || outcome == rules.OutcomeReopened {
		r.log.Warn("incident", "key", i.Key, "severity", i.Severity, "summary", i.Summary)
	}
	return err
}

// raise is tell for an alert that can be lost: a failed write is logged.
func (r *reports) raise(a rules.Alert) {
	if err := r.tell(a); err != nil {
		r.log.Error("write incident", "error", err)
	}
}

// resolve ends the incident of an alert, if there is one.
func (r *reports) resolve(a rules.Alert, why string) {
	a.Resolve, a.Detail = true, why
	r.raise(a)
}

// note writes an entry into the journal.
func (r *reports) note(e supervisor.Entry) {
	if err := r.journal.Write(e); err != nil {
		r.log.Error("journal", "error", err)
	}
}

// ownAlert is an alert about steward itself: about the part of it with that name.
func ownAlert(kind string, severity protocol.Severity, part string) rules.Alert {
	return rules.Alert{Kind: kind, Severity: severity, Foreign: true, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: part}}
}

// wakeup is a channel of capacity 1: wake leaves a token in it, unless one is there already.
type wakeup chan struct{}

func newWakeup() wakeup { return make(wakeup, 1) }

func (s wakeup) wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}
