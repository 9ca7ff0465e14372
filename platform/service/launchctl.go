package service

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Meanings of launchctl's exit codes: errno values of macOS and a few of launchd's own. They are literals because
// this file is compiled on every system.
const (
	codeNoProcess  = 3   // bootout: not loaded
	codeInOut      = 5   // bootstrap: already loaded, not yet fully unloaded, or any other error
	codeInProgress = 36  // bootout: still ending
	codeAlready    = 37  // kickstart, bootstrap: already starting
	codeNoDomain   = 112 // print: no such domain
	codeNoService  = 113 // print, kickstart: no such service
	codeNoSupport  = 125 // gui/UID without a graphical login
)

// refusal is the error of a failed launchctl command.
type refusal struct {
	command string
	code    int
	words   string // launchctl's own message
	err     error
}

func (r *refusal) Error() string { return r.command + ": " + r.words }
func (r *refusal) Unwrap() error { return r.err }

// Compile the expression on first use, so that program start does not pay for it.
var codeInWords = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`failed: (\d+): `) })

// ctl runs launchctl. It returns failures as *refusal.
func (l *launchd) ctl(ctx context.Context, args ...string) (string, error) {
	out, err := l.run(ctx, append([]string{"launchctl"}, args...)...)
	if err == nil {
		return out, nil
	}
	r := &refusal{command: "launchctl " + strings.Join(args, " "), code: -1, err: err}
	var exit interface{ ExitCode() int }
	if m := codeInWords().FindStringSubmatch(out); m != nil {
		r.code, _ = strconv.Atoi(m[1])
	} else if errors.As(err, &exit) {
		r.code = exit.ExitCode()
	}
	var words []string
	for line := range strings.Lines(out) {
		// launchctl prints this hint for every user; as root it would use another domain.
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Try re-running the command as root") {
			words = append(words, line)
		}
	}
	if r.words = strings.Join(words, "; "); r.words == "" || ctx.Err() != nil {
		r.words = strings.Trim(r.words+"; "+err.Error(), "; ")
	}
	return out, r
}

// refused reports whether launchctl failed with one of these codes.
func refused(err error, codes ...int) bool {
	var r *refusal
	if !errors.As(err, &r) {
		return false
	}
	for _, c := range codes {
		if r.code == c {
			return true
		}
	}
	return false
}

// loadedJob is the service as loaded in launchd.
type loadedJob struct {
	domain  string // "gui/501", "user/501" or "system"; "" if not loaded
	state   string // launchd's state: running, not running, spawn scheduled, …
	program string
	path    string // the plist it was loaded from
	exit    string // "0", "1", "78: EX_CONFIG"; "" if it never ended
	signal  string // "Killed: 9"
	pid     int
	runs    int // number of starts since it was loaded
}

func (j loadedJob) loaded() bool { return j.domain != "" }
func (j loadedJob) target() string {
	return j.domain + "/" + Label
}

// ended describes the end of the last run in launchd's words; "" if no run has ended.
func (j loadedJob) ended() string {
	switch {
	case j.signal != "":
		return "ended by a signal (" + j.signal + ")"
	case j.exit != "":
		return "last exit code " + j.exit
	}
	return ""
}

// print queries launchd for the service in one domain. A domain that does not exist contains no service.
func (l *launchd) print(ctx context.Context, domain string) (loadedJob, error) {
	out, err := l.ctl(ctx, "print", domain+"/"+Label)
	if refused(err, codeNoService, codeNoDomain, codeNoSupport, codeNoProcess) {
		return loadedJob{}, nil
	}
	if err != nil {
		return loadedJob{}, err
	}
	j := decodePrint(out)
	j.domain = domain
	return j, nil
}

// decodePrint parses the output of launchctl print for a service. It reads only keys at brace depth one; the
// service's endpoints use the same keys at a greater depth.
func decodePrint(out string) loadedJob {
	var j loadedJob
	depth := 0
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasSuffix(line, "{") {
			depth++
			continue
		}
		if line == "}" {
			depth--
			continue
		}
		if key, value, ok := strings.Cut(line, " = "); ok && depth == 1 {
			j.set(key, value)
		}
	}
	return j
}

func (j *loadedJob) set(key, value string) {
	switch key {
	case "state":
		j.state = value
	case "program":
		j.program = value
	case "path":
		j.path = value
	case "pid":
		j.pid, _ = strconv.Atoi(value)
	case "runs":
		j.runs, _ = strconv.Atoi(value)
	case "last exit code":
		if value != "(never exited)" {
			j.exit = value
		}
	case "last terminating signal":
		j.signal = value
	}
}

// find searches all domains that may contain the service.
func (l *launchd) find(ctx context.Context) (loadedJob, error) {
	for _, d := range l.domains() {
		if j, err := l.print(ctx, d); err != nil || j.loaded() {
			return j, err
		}
	}
	return loadedJob{}, nil
}

// disabled reads launchd's record of disabled services, which outlives the plist.
func (l *launchd) disabled(ctx context.Context) (bool, error) {
	domains := l.domains()
	out, err := l.ctl(ctx, "print-disabled", domains[len(domains)-1])
	if refused(err, codeNoDomain, codeNoSupport, codeNoService) {
		return false, nil // no user is logged in, so the domain does not exist
	}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " => ")
		if name == `"`+Label+`"` {
			return value == "disabled" || value == "true", err // "true" on macOS 12 and older
		}
	}
	return false, err
}

// bootstrap loads the plist, which starts the service. For some seconds after a bootout (5 s and more were measured)
// launchd fails with an input/output error, so bootstrap retries on that error.
func (l *launchd) bootstrap(ctx context.Context, domain, plist string) error {
	if _, err := l.ctl(ctx, "enable", domain+"/"+Label); err != nil { // an earlier `disable` would make bootstrap fail
		return err
	}
	return l.until(ctx, l.settle, func() (bool, error) {
		_, err := l.ctl(ctx, "bootstrap", domain, plist)
		if !refused(err, codeInOut, codeInProgress, codeAlready) {
			return true, err
		}
		if j, e := l.print(ctx, domain); e == nil && j.loaded() && j.path == plist && j.state != "" && !j.ending() {
			return true, nil // loaded concurrently by a login or a second install
		}
		return false, err
	})
}

// ending reports whether launchd has told the service to stop. The words differ between versions.
func (j loadedJob) ending() bool {
	return strings.Contains(j.state, "stop") || strings.Contains(j.state, "SIG") || strings.Contains(j.state, "exit")
}

// bootout unloads the service from all domains, which ends its process, and waits until launchd has removed it.
func (l *launchd) bootout(ctx context.Context) error {
	for _, d := range l.domains() {
		j, err := l.print(ctx, d)
		if err != nil {
			return err
		}
		if !j.loaded() {
			continue
		}
		_, err = l.ctl(ctx, "bootout", j.target())
		if err != nil && !refused(err, codeNoProcess, codeInProgress, codeNoService) {
			return err
		}
		err = l.until(ctx, l.patience, func() (bool, error) {
			j, err := l.print(ctx, d)
			if err == nil && j.loaded() {
				return false, fmt.Errorf("launchd still has %s (%s, pid %d)", j.target(), j.state, j.pid)
			}
			return true, err
		})
		if err != nil {
			return doing("wait for the end of "+j.target(), err)
		}
	}
	return nil
}

// running waits until the service runs and keeps running. runs is the number of starts before this one.
func (l *launchd) running(ctx context.Context, domain string, runs int) error {
	var since time.Time
	pid := 0
	return l.until(ctx, l.patience, func() (bool, error) {
		j, err := l.print(ctx, domain)
		switch {
		case err != nil:
			return true, err
		case !j.loaded():
			return true, fmt.Errorf("launchd has dropped %s/%s", domain, Label)
		case j.pid == 0 && j.runs > runs && j.ended() != "", j.pid != 0 && pid != 0 && j.pid != pid:
			return true, fmt.Errorf("it started and ended: %s%s", strings.TrimSuffix(j.ended()+"; ", "; "), l.seeLog())
		case j.pid == 0 || j.state != "running":
			return false, fmt.Errorf("it does not run (%s)%s", j.state, l.seeLog())
		case j.pid != pid:
			pid, since = j.pid, time.Now()
		}
		return time.Since(since) >= l.steady, nil
	})
}

// until polls ask for at most the given time. On timeout it returns the last error of ask.
func (l *launchd) until(ctx context.Context, most time.Duration, ask func() (done bool, err error)) error {
	for end := time.Now().Add(most); ; {
		done, err := ask()
		if done {
			return err
		}
		if time.Now().After(end) {
			return doing(fmt.Sprintf("after %s", most), err)
		}
		select {
		case <-ctx.Done():
			return both(err, ctx.Err())
		case <-time.After(l.pace):
		}
	}
}

// fill copies launchd's data about a loaded service into s.
func (j loadedJob) fill(s *Status) {
	s.PID, s.Restarts = j.pid, max(0, j.runs-1)
	if j.program != "" {
		s.Binary = j.program // the running program, even if the file has changed since
	}
	s.Detail = j.state
	if end := j.ended(); end != "" && j.state != "running" {
		s.Detail += ", " + end
	}
	switch failed := j.signal != "" || j.exit != "" && j.exit != "0"; {
	case j.state == "running":
		s.State = "active"
	case j.ending():
		s.State = "inactive"
	case j.pid != 0 || j.state == "spawn scheduled":
		s.State = "activating"
	case j.state == "":
		s.State = "unknown"
	case failed:
		s.State = "failed"
	}
}

// both joins two errors in one line.
func both(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}
