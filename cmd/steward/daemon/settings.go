package daemon

import (
	"sync"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
)

// settings are the configuration in force. A reload replaces it while other goroutines read it.
type settings struct {
	mu   sync.Mutex
	cfg  config.Config
	refs []config.ProjectRef
}

func (s *settings) set(cfg config.Config, refs []config.ProjectRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg, s.refs = cfg, refs
}

func (s *settings) config() config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// projects are the projects to supervise.
func (s *settings) projects() []config.ProjectRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refs
}

func (s *settings) escalation() escalate.Config { return s.config().Escalate }

// human is the name of the person who answers.
func (s *settings) human() string { return s.config().Human.Name }
