package config

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/livhana/steward/escalate/rules"
)

// flaw is an invalid value, with the places that may be the cause, the likeliest first.
type flaw struct {
	at   []keyPath
	text string
}

// flaws lists every invalid value except in the retry rows.
func (c Config) flaws() []flaw {
	var all []flaw
	if c.Human.Name != "" && !speakable(c.Human.Name) {
		all = append(all, wrong("human.name", "%q must be a name that can be spoken", c.Human.Name))
	}
	// With an interval above one minute the loop would take each of its own scans for a machine that slept.
	all = append(all, between("supervisor.look_every", c.Supervisor.LookEvery, 100*time.Millisecond, time.Minute)...)
	all = append(all, absolute("supervisor.state_dir", c.Supervisor.StateDir)...)
	all = append(all, projectFlaws(c.Projects)...)
	all = append(all, c.joinFlaws()...)
	all = append(all, c.heartbeatFlaws()...)
	all = append(all, policyFlaws("capacity", "", c.Capacity.Validate())...)
	all = append(all, c.taskFlaws()...)
	all = append(all, policyFlaws("", "", c.Locks.Validate())...)
	all = append(all, c.protocolFlaws()...)
	all = append(all, policyFlaws("escalate", "escalate.", c.Escalate.Validate())...)
	all = append(all, absolute("status.socket", c.Status.Socket)...)
	return append(all, listenFlaws(c.Status.MetricsListen)...)
}

func wrong(key keyPath, format string, args ...any) flaw {
	return flaw{at: []keyPath{key}, text: fmt.Sprintf("%s: %s", key, fmt.Sprintf(format, args...))}
}

func speakable(name string) bool {
	return strings.TrimSpace(name) != "" && len(name) <= 64 && !strings.ContainsFunc(name, unicode.IsControl)
}

func between(key keyPath, d, least, most time.Duration) []flaw {
	if d >= least && d <= most {
		return nil
	}
	return []flaw{wrong(key, "%v must be from %v to %v", d, least, most)}
}

// absolute rejects a path that would depend on where the daemon was started.
func absolute(key keyPath, path string) []flaw {
	if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "~/") {
		return nil
	}
	return []flaw{wrong(key, "%q must be an absolute path, or begin with ~/", path)}
}

func listenFlaws(address string) []flaw {
	if address == "" {
		return nil
	}
	const key = keyPath("status.metrics_listen")
	_, port, err := net.SplitHostPort(address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return []flaw{wrong(key, `%q must be host:port, like "127.0.0.1:9478"`, address)}
	}
	return nil
}

func (c Config) heartbeatFlaws() []flaw {
	all := policyFlaws("", "", c.Heartbeat.Validate())
	for _, name := range slices.Sorted(maps.Keys(c.Heartbeat.Protocols)) {
		key := keyPath("heartbeat.protocols").key(name)
		if why := unspoken(name); why != "" {
			all = append(all, wrong(key, "%s", why))
		}
		if len(c.Heartbeat.Protocols[name].Sources) > 0 {
			all = append(all, wrong(key.key("sources"), "a file is the sign of life of one agent; name it in [heartbeat.agents.…]"))
		}
	}
	return all
}

func (c Config) taskFlaws() []flaw {
	const week = 7 * 24 * time.Hour
	t := c.Tasks
	all := slices.Concat(
		between("tasks.timeout", t.Timeout, time.Second, week),
		between("tasks.max_timeout", t.MaxTimeout, time.Second, week),
		between("tasks.judge", t.Judge, 100*time.Millisecond, time.Minute),
		between("tasks.lease", t.Lease, time.Second, time.Hour),
		between("tasks.history", t.History, time.Minute, week),
	)
	if t.Timeout > t.MaxTimeout {
		all = append(all, flaw{[]keyPath{"tasks.timeout", "tasks.max_timeout"},
			fmt.Sprintf("tasks.timeout: %v must be at most tasks.max_timeout, %v", t.Timeout, t.MaxTimeout)})
	}
	// A hold is renewed when half of its lease is over; one or two scans may be late.
	if least := 4 * c.Supervisor.LookEvery; t.Lease < least {
		all = append(all, flaw{[]keyPath{"tasks.lease", "supervisor.look_every"},
			fmt.Sprintf("tasks.lease: %v must be at least four times supervisor.look_every, %v", t.Lease, least)})
	}
	return slices.Concat(all, positive("tasks.retries_per_hour", t.RetriesPerHour), positive("tasks.max_attempts", t.MaxAttempts))
}

// protocolFlaws checks the settings of single protocols.
func (c Config) protocolFlaws() []flaw {
	const day = 24 * time.Hour
	all := slices.Concat(
		between("mailbox.lead", c.Mailbox.Lead, time.Second, day),
		between("mailbox.developer", c.Mailbox.Developer, time.Second, day),
		between("mailbox.review", c.Mailbox.Review, time.Second, day),
		between("envelope.acknowledge", c.Envelope.Acknowledge, time.Second, day),
		between("envelope.clarify", c.Envelope.Clarify, 0, day),
		between("envelope.escalate", c.Envelope.Escalate, 0, day),
	)
	return slices.Concat(all, inside("envelope.messages", c.Envelope.Messages), inside("envelope.log", c.Envelope.Log))
}

// inside rejects a path that leads out of the project or is not in its clean form.
func inside(key keyPath, path string) []flaw {
	if path == filepath.ToSlash(filepath.Clean(path)) && filepath.IsLocal(path) && path != "." {
		return nil
	}
	return []flaw{wrong(key, "%q must be a plain path inside the project", path)}
}

func positive(key keyPath, n int) []flaw {
	if n > 0 {
		return nil
	}
	return []flaw{wrong(key, "%d must be at least 1", n)}
}

// rowFlaws checks each retry row; the last place of each flaw is its row.
func rowFlaws(rows []rules.Rule) []flaw {
	var all []flaw
	seen := map[string]bool{}
	for i, r := range rows {
		row, lead := keyPath("retry").entry(i), "retry rule "+r.Name()+": "
		err := r.Validate()
		switch {
		case err == nil && r.Protocol != "" && unspoken(r.Protocol) != "":
			err = fmt.Errorf("%sprotocol: %s", lead, unspoken(r.Protocol))
		case err == nil && seen[r.Name()]:
			err = fmt.Errorf("%sstands there twice, the second can never match", lead)
		}
		if seen[r.Name()] = true; err != nil {
			at := mentioned(row, strings.TrimPrefix(err.Error(), lead))
			all = append(all, flaw{append(at, row), err.Error()})
		}
	}
	return all
}

// policyFlaws splits a policy's error about its Config into flaws, one per line. prefix completes its keys.
func policyFlaws(table keyPath, prefix string, err error) []flaw {
	if err == nil {
		return nil
	}
	var all []flaw
	for text := range strings.SplitSeq(err.Error(), "\n") {
		all = append(all, flaw{mentioned(table, text), prefix + text})
	}
	return all
}

var (
	keyWord    = lazily(`(?:[\w-]+|"(?:[^"\\]|\\.)*")(?:\.(?:[\w-]+|"(?:[^"\\]|\\.)*"))*`)
	needlessly = lazily(`"([\w-]+)"`)
)

// lazily compiles an expression on first use; otherwise every start of the program would pay for it.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// mentioned returns the keys named in a policy's error text, in order. Most words of the text are not keys; they do no
// harm because the file has no lines for them.
func mentioned(table keyPath, text string) []keyPath {
	var at []keyPath
	for _, word := range keyWord().FindAllString(text, -1) {
		key := keyPath(needlessly().ReplaceAllString(word, "$1"))
		if table != "" {
			key = table + "." + key
		}
		at = append(at, key)
	}
	return at
}
