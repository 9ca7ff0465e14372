package config

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/escalate/rules"
)

// flaw is an invalid value, with the places that may be the cause, the likeliest first.
type flaw struct {
	at   []keyPath
	text string
}

// flawList collects flaws. The methods add one if the value is not what they demand.
type flawList []flaw

func (l *flawList) wrong(key keyPath, format string, args ...any) {
	l.wrongAt([]keyPath{key}, format, args...)
}

// wrongAt adds a flaw whose cause may stand at several places. Its text begins with the first one.
func (l *flawList) wrongAt(at []keyPath, format string, args ...any) {
	*l = append(*l, flaw{at, at[0].String() + ": " + fmt.Sprintf(format, args...)})
}

func (l *flawList) between(key keyPath, d, least, most time.Duration) {
	if d < least || d > most {
		l.wrong(key, "%v must be from %v to %v", d, least, most)
	}
}

func (l *flawList) positive(key keyPath, n int) {
	if n < 1 {
		l.wrong(key, "%d must be at least 1", n)
	}
}

func (l *flawList) oneOf(key keyPath, word string, words ...string) {
	if !slices.Contains(words, word) {
		l.wrong(key, "%q must be one of %s", word, strings.Join(words, ", "))
	}
}

// absolute rejects paths that would depend on where the daemon was started.
func (l *flawList) absolute(key keyPath, path string) {
	if path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") {
		l.wrong(key, "%q must be an absolute path, or begin with ~/", path)
	}
}

// inside rejects a path that leads out of the project or is not in its clean form.
func (l *flawList) inside(key keyPath, path string) {
	if path != filepath.ToSlash(filepath.Clean(path)) || !filepath.IsLocal(path) || path == "." {
		l.wrong(key, "%q must be a plain path inside the project", path)
	}
}

// policy splits a policy's error about its Config into flaws, one per line. prefix completes its keys.
func (l *flawList) policy(table keyPath, prefix string, err error) {
	if err == nil {
		return
	}
	for text := range strings.SplitSeq(err.Error(), "\n") {
		*l = append(*l, flaw{mentioned(table, text), prefix + text})
	}
}

const (
	hour = time.Hour
	day  = 24 * hour
	week = 7 * day
)

// flaws lists every invalid value except in the retry rows.
func (c Config) flaws() []flaw {
	var l flawList
	if name := c.Human.Name; name != "" && (strings.TrimSpace(name) == "" || len(name) > 64 || strings.ContainsFunc(name, unicode.IsControl)) {
		l.wrong("human.name", "%q must be a name that can be spoken", name)
	}
	// With an interval above one minute the loop would take each of its own scans for a machine that slept.
	l.between("supervisor.look_every", c.Supervisor.LookEvery, 100*time.Millisecond, time.Minute)
	l.absolute("supervisor.state_dir", c.Supervisor.StateDir)
	l.projects(c.Projects)
	l.agents(c)
	l.keep(c.Keep)
	l.worker(c.Worker)
	l.heartbeat(c)
	l.policy("capacity", "", c.Capacity.Validate())
	l.tasks(c)
	l.policy("", "", c.Locks.Validate())
	l.protocols(c)
	l.policy("escalate", "escalate.", c.Escalate.Validate())
	l.absolute("status.socket", c.Status.Socket)
	if address := c.Status.MetricsListen; address != "" {
		_, port, err := net.SplitHostPort(address)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			l.wrong("status.metrics_listen", `%q must be host:port, like "127.0.0.1:9478"`, address)
		}
	}
	return l
}

func (l *flawList) heartbeat(c Config) {
	l.policy("", "", c.Heartbeat.Validate())
	for _, name := range slices.Sorted(maps.Keys(c.Heartbeat.Protocols)) {
		key := keyPath("heartbeat.protocols").key(name)
		if why := unspoken(name); why != "" {
			l.wrong(key, "%s", why)
		}
		if len(c.Heartbeat.Protocols[name].Sources) > 0 {
			l.wrong(key.key("sources"), "a file is the sign of life of one agent; name it in [heartbeat.agents.…]")
		}
	}
}

func (l *flawList) tasks(c Config) {
	t := c.Tasks
	l.between("tasks.timeout", t.Timeout, time.Second, week)
	l.between("tasks.max_timeout", t.MaxTimeout, time.Second, week)
	l.between("tasks.settle", t.Settle, 0, time.Minute)
	l.between("tasks.presume", t.Presume, time.Second, hour)
	l.between("tasks.judge", t.Judge, 100*time.Millisecond, time.Minute)
	l.between("tasks.lease", t.Lease, time.Second, hour)
	l.between("tasks.history", t.History, time.Minute, week)
	if t.Timeout > t.MaxTimeout {
		l.wrongAt([]keyPath{"tasks.timeout", "tasks.max_timeout"}, "%v must be at most tasks.max_timeout, %v", t.Timeout, t.MaxTimeout)
	}
	// A hold is renewed when half of its lease is over; one or two scans may be late.
	if least := 4 * c.Supervisor.LookEvery; t.Lease < least {
		l.wrongAt([]keyPath{"tasks.lease", "supervisor.look_every"}, "%v must be at least four times supervisor.look_every, %v", t.Lease, least)
	}
	l.positive("tasks.retries_per_hour", t.RetriesPerHour)
	l.positive("tasks.max_attempts", t.MaxAttempts)
}

// protocols checks the settings of single protocols.
func (l *flawList) protocols(c Config) {
	l.between("ralph.grace", c.Ralph.Grace, time.Second, day)
	l.oneOf("ralph.violation_action", c.Ralph.ViolationAction, "tell", "mark", "end")
	l.between("mailbox.lead", c.Mailbox.Lead, time.Second, day)
	l.between("mailbox.developer", c.Mailbox.Developer, time.Second, day)
	l.between("mailbox.review", c.Mailbox.Review, time.Second, day)
	l.between("envelope.clarify", c.Envelope.Clarify, 0, day)
	l.between("envelope.escalate", c.Envelope.Escalate, 0, day)
	l.inside("envelope.messages", c.Envelope.Messages)
	l.inside("envelope.log", c.Envelope.Log)
}

func (l *flawList) keep(k Keep) {
	l.oneOf("keep.place", k.Place, "auto", "session", "service")
	l.between("keep.backoff", k.Backoff, 10*time.Millisecond, hour)
	l.between("keep.max_backoff", k.MaxBackoff, 10*time.Millisecond, day)
	if k.MaxBackoff < k.Backoff {
		l.wrongAt([]keyPath{"keep.max_backoff", "keep.backoff"}, "%v must be at least keep.backoff, %v", k.MaxBackoff, k.Backoff)
	}
	l.positive("keep.burst", k.Burst)
	l.between("keep.within", k.Within, time.Second, day)
	l.between("keep.stop", k.Stop, 0, 10*time.Minute)
}

func (l *flawList) worker(w Worker) {
	l.between("worker.poll", w.Poll, 100*time.Millisecond, 10*time.Minute)
	l.between("worker.stop", w.Stop, 0, 10*time.Minute)
	l.between("worker.keep", w.Keep, time.Minute, 10*365*day)
	if w.Output < 0 || w.Output > 256<<10 {
		l.wrong("worker.output", "%d must be from 0 to %d bytes: it stands in the result, and every reader reads all of it", w.Output, 256<<10)
	}
	for _, list := range []struct {
		key   keyPath
		paths []string
	}{{"worker.paths", w.Paths}, {"worker.programs", w.Programs}, {"worker.writable", w.Writable}} {
		for i, path := range list.paths {
			l.absolute(list.key.entry(i), path)
		}
	}
	for i, name := range w.Environment {
		if strings.Trim(strings.TrimSuffix(name, "*"), nameChars) != "" {
			l.wrong(keyPath("worker.environment").entry(i), "%q must be the name of a variable; * may stand at its end", name)
		}
	}
}

// nameChars are the characters allowed in the names of environment variables.
const nameChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

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
			err = fmt.Errorf("%sis listed twice; the second one can never match", lead)
		}
		if seen[r.Name()] = true; err != nil {
			at := mentioned(row, strings.TrimPrefix(err.Error(), lead))
			all = append(all, flaw{append(at, row), err.Error()})
		}
	}
	return all
}

var (
	keyWord    = lazily(`(?:[\w-]+|"(?:[^"\\]|\\.)*")(?:\.(?:[\w-]+|"(?:[^"\\]|\\.)*"))*`)
	needlessly = lazily(`"([\w-]+)"`)
)

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
