package doctor

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
)

// Level is what a finding means for the user.
type Level string

const (
	LevelOK   Level = "ok"
	LevelWarn Level = "warn" // something will not happen that the user may expect
	LevelFail Level = "fail" // steward cannot do its work
)

// Finding is the result of one check.
type Finding struct {
	Area  string `json:"area"`
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do"` // the remedy; "" if the check passed
}

func working(name, format string, args ...any) Finding {
	return Finding{Name: name, Level: LevelOK, Text: fmt.Sprintf(format, args...)}
}

func warning(name, do, format string, args ...any) Finding {
	return Finding{Name: name, Level: LevelWarn, Text: fmt.Sprintf(format, args...), Do: do}
}

func broken(name, do, format string, args ...any) Finding {
	return Finding{Name: name, Level: LevelFail, Text: fmt.Sprintf(format, args...), Do: do}
}

// Time limits of the parts: reading the configuration, asking the daemon, and then all probes in parallel. With a grace
// period after each, the examination ends within 5 s even on a machine on which everything hangs.
const (
	settingsTime = 500 * time.Millisecond
	askTime      = 1200 * time.Millisecond
	probeTime    = 2200 * time.Millisecond
	probeGrace   = 250 * time.Millisecond
)

// within returns f's answer, or false if it does not come in time. A call that hangs in the kernel cannot be ended: it
// is abandoned, and ends with the process.
func within[T any](ctx context.Context, limit time.Duration, f func(context.Context) T) (T, bool) {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := make(chan T, 1)
	go func() { answer <- f(inner) }()
	timer := time.NewTimer(limit + probeGrace)
	defer timer.Stop()
	select {
	case v := <-answer:
		return v, true
	case <-timer.C:
	case <-ctx.Done():
	}
	var none T
	return none, false
}

// facts are what all checks share. They are gathered once.
type facts struct {
	o      Options
	now    time.Time
	uid    int
	who    service.Account
	config configFacts
	cfg    config.Config // the defaults, if the file is rejected
	paths  platform.Paths
	daemon daemonFacts
	beat   daemon.Heartbeat // steward's own; zero if it cannot be read
	// projects are those of the configuration, and others that the daemon supervises.
	projects []projectFacts
}

// Options say what to examine, and for which account.
type Options struct {
	Version string
	// ConfigFile is the configuration named on the command line, "" for the platform's default.
	ConfigFile string
	Settings   func() (config.Config, platform.Paths, error)
	Paths      func() platform.Paths
	// Binary returns the path of this program that survives an upgrade.
	Binary func() (string, error)
	// Account returns the caller's account; with system, the account that the machine's unit of that user runs as.
	Account func(system bool, user string) (service.Account, error)
	// Spec returns the service that would be installed.
	Spec func(system bool, binary string, who service.Account) (service.Spec, error)
	// Reach sends a real test through every channel; Say announces it.
	Reach    bool
	Announce func(text string)
}

// serviceCommand returns the steward command for the user's own service or for the machine's.
func serviceCommand(verb string, system bool) string {
	if system {
		return "sudo steward service " + verb + " --system"
	}
	return "steward service " + verb
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// lazily compiles an expression on first use; otherwise every command would pay for it at its start.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
