package packaging_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestService tries the service in both of its forms, each time on a machine of its own.
func TestService(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: short, and this boots a machine for each form")
	}
	p := build(t)
	for _, c := range []struct {
		name string
		try  func(*site)
	}{
		{"installed", installedOnce},
		{"killed and hung", killedAndHung},
		{"reloaded and stopped", reloadedAndStopped},
		{"upgraded", upgraded},
		{"given up", givenUp},
		{"uninstalled", uninstalled},
		{"rolled back", rolledBack},
		{"without environment", withoutEnvironment},
		{"one project more", oneProjectMore},
	} {
		for form, system := range map[string]bool{"user": false, "machine": true} {
			t.Run(c.name+" "+form, func(t *testing.T) {
				t.Parallel()
				c.try(newSite(t, p, system))
			})
		}
	}
	for name, try := range map[string]func(*testing.T, programs){"refused": refused, "late bus": lateBus, "planted links": plantedLinks, "verified": verified, "powered off": poweredOff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, p)
		})
	}
}

// units are the files of this form.
func (s *site) units() (unit, failed, link, socket, state string) {
	if s.system {
		return systemUnits + "/steward.service", systemUnits + "/steward-failed.service", systemLink, systemSock, systemState
	}
	return userUnits + "/steward.service", userUnits + "/steward-failed.service", userLink, userSocket, userState
}

func installedOnce(s *site) {
	unit, failed, link, socket, state := s.units()
	r := s.must(s.service("install"))
	for _, file := range []string{unit, failed} {
		if !strings.Contains(r.out, file) {
			s.t.Errorf("install does not say that it wrote %s: %q", file, r.all())
		}
	}
	s.up("after the installation")
	for _, file := range []string{unit, failed, link, socket, state + "/run.json", state + "/heartbeat.json"} {
		if !s.has(file) {
			s.t.Errorf("there is no %s", file)
		}
	}
	if got := s.show("UnitFileState"); got != "enabled" {
		s.t.Errorf("the unit is %s", got)
	}
	if got := s.root("stat", "-c", "%u", "/proc/"+strconv.Itoa(s.pid())).out; got != "1000\n" {
		s.t.Errorf("it runs as %q", got)
	}
	s.play()
	s.installedAgain(unit)
	s.seesProcesses()
	for verb, want := range map[string]string{"status": "active", "unit": s.read(unit)} {
		if r := s.service(verb); r.code != 0 || !strings.Contains(r.out, want) {
			s.t.Errorf("service %s: exit %d: %s\nwant %s", verb, r.code, r.all(), want)
		}
	}
	r = s.steward("doctor")
	if !strings.Contains(r.out, unit) || !strings.Contains(r.out, program) {
		s.t.Errorf("doctor does not name the unit and its binary: exit %d: %s", r.code, r.all())
	}
}

// installedAgain expects a second installation to change nothing.
func (s *site) installedAgain(unit string) {
	s.t.Helper()
	stat := func() string { return s.root("stat", "-c", "%n %i %Y", unit).out + strconv.Itoa(s.pid()) }
	before := stat()
	r := s.must(s.service("install", "-o", "json"))
	var o struct{ Changed bool }
	if err := json.Unmarshal([]byte(r.out), &o); err != nil || o.Changed {
		s.t.Errorf("a second installation tells of a change: %v: %s", err, r.all())
	}
	if after := stat(); after != before {
		s.t.Errorf("a second installation changes something:\n%s\n%s", before, after)
	}
}

// seesProcesses has an agent vouched for by its process, and expects its end to be known by that.
func (s *site) seesProcesses() {
	s.t.Helper()
	s.must(s.jesse("sh", "-c", "sleep 600 >/dev/null 2>&1 & exec "+program+" boot codex-cursor --project "+shop+" --pid $!"))
	s.beat(0.88)
	state := func(want string) {
		s.eventually("codex-cursor is "+want, 10*time.Second, func() (string, bool) {
			r := s.steward("agents", "-o", "json")
			return r.all(), regexp.MustCompile(`(?s)"name": *"codex-cursor"[^}]*"state": *"` + want).MatchString(r.out)
		})
	}
	state(`alive"[^}]*"pid": *[0-9]+[^}]*"used": *0.88`) // no beat is left to be read after the end
	s.must(s.root("sh", "-c", "kill -KILL $(pgrep -x sleep)"))
	state(`dead"[^}]*"why": *"its process [0-9]+ is gone`)
}

func killedAndHung(s *site) {
	s.installed()
	s.play()
	facts := s.facts()
	verify := s.neverShown(full)
	killed := s.kill("KILL")
	at := time.Now()
	s.eventually("it is back after a SIGKILL", 10*time.Second, func() (string, bool) {
		state, pid := s.show("ActiveState"), s.pid()
		return fmt.Sprint(state, pid), state == "active" && pid != killed && pid != 0
	})
	s.t.Logf("back %v after a SIGKILL", time.Since(at))
	if took := time.Since(at); took > 2*time.Second {
		s.t.Errorf("it took %v to be back", took)
	}
	s.keeps(facts, "a SIGKILL")
	s.lastEnd("killed")
	verify()
	s.watchdogShortened()
	facts = s.facts()
	hung := s.kill("STOP")
	s.eventually("the watchdog ends what hangs", 15*time.Second, func() (string, bool) {
		state, pid := s.show("ActiveState"), s.pid()
		return fmt.Sprint(state, pid), state == "active" && pid != hung && pid != 0
	})
	s.keeps(facts, "the watchdog")
	s.lastEnd("watchdog")
	// It lives longer than the limit: the signs of life come.
	pid, end := s.pid(), time.Now().Add(5*time.Second)
	s.eventually("it feeds the watchdog", 6*time.Second, func() (string, bool) { return "", time.Now().After(end) })
	if now := s.pid(); now != pid {
		s.t.Errorf("it was restarted although it lives: %d, %d", pid, now)
	}
}

// watchdogShortened has systemd wait 3 s for a sign of life.
func (s *site) watchdogShortened() {
	s.t.Helper()
	s.dropIn("quick", "WatchdogSec=3s")
	s.must(s.ctl("restart", "steward"))
	s.up("with a short watchdog")
	if got := s.show("WatchdogUSec"); got != "3s" {
		s.t.Errorf("the watchdog is %s", got)
	}
}

// lastEnd expects the program to know, and to say in its journal, how the last run ended.
func (s *site) lastEnd(want string) {
	s.t.Helper()
	s.eventually("the last end is told as "+want, 5*time.Second, func() (string, bool) {
		r := s.steward("status", "-o", "json")
		var doc map[string]json.RawMessage
		_ = json.Unmarshal([]byte(r.out), &doc)
		return string(doc["last_end"]), regexp.MustCompile(want).Match(doc["last_end"])
	})
	if said := s.journal(); !regexp.MustCompile(`(?m)last.*` + want + `|` + want + `.*last`).MatchString(said) {
		s.t.Errorf("the journal does not say that the last run ended by %s:\n%s", want, said)
	}
}

func reloadedAndStopped(s *site) {
	s.installed()
	s.play()
	pid := s.pid()
	s.write(userConfig, settings+"[[project]]\npath = \""+garden+"\"\n", jesseID)
	s.folder(garden, jesseID)
	s.must(s.ctl("reload", "steward"))
	projects := func() (string, bool) {
		r := s.steward("status", "-o", "json")
		return r.all(), strings.Contains(r.out, `"path": "`+garden+`"`)
	}
	s.eventually("the changed configuration is in force", 10*time.Second, projects)
	s.write(userConfig, settings+"nonsense = 1\n", jesseID)
	s.ctl("reload", "steward")
	s.eventually("a broken configuration is an incident", 10*time.Second, func() (string, bool) {
		r := s.steward("incidents", "-o", "json")
		return r.all(), strings.Contains(r.out, "nonsense") || strings.Contains(strings.ToLower(r.out), "configuration")
	})
	if saw, ok := projects(); !ok || s.pid() != pid || s.show("ActiveState") != "active" {
		s.t.Errorf("the old configuration is not in force any more; pid %d, %d: %s", pid, s.pid(), saw)
	}
	s.write(userConfig, settings, jesseID)

	_, _, _, socket, _ := s.units()
	at := time.Now()
	s.must(s.service("stop"))
	if took := time.Since(at); took > 5*time.Second {
		s.t.Errorf("stop took %v", took)
	}
	if s.has(socket) || !s.has(tasks+full+".request.json") || s.has(tasks+full+".request.json.held") || s.show("ActiveState") != "inactive" {
		s.t.Errorf("stopped: socket %v, held %v, %s", s.has(socket), s.isHeld(full), s.show("ActiveState"))
	}
	s.must(s.service("start"))
	s.up("after a start")
	s.lastEnd("(stopped|clean)")
	s.must(s.service("restart"))
	s.up("after a restart")
}

// leavesBehind puts a process into the unit, as an agent leaves one there, and gives a check that it lives.
func (s *site) leavesBehind() (lives func(when string)) {
	s.t.Helper()
	pid := strings.TrimSpace(s.must(s.jesse("sh", "-c", "sleep 900 >/dev/null 2>&1 & echo $!")).out)
	group := s.show("ControlGroup")
	s.must(s.root("sh", "-c", "echo "+pid+" >/sys/fs/cgroup"+group+"/cgroup.procs"))
	return func(when string) {
		s.t.Helper()
		if r := s.root("cat", "/proc/"+pid+"/comm"); r.out != "sleep\n" {
			s.t.Errorf("%s ended a process that an agent had left running", when)
		}
	}
}

func upgraded(s *site) {
	s.installed()
	lives := s.leavesBehind()
	s.play()
	facts := s.facts()
	verify := s.neverShown(full)
	s.install(s.next, program)
	s.must(s.service("install"))
	version := func() (string, bool) {
		r := s.steward("status", "-o", "json")
		return r.all(), strings.Contains(r.out, `"version": "1.1.0"`)
	}
	s.eventually("the new program runs", 15*time.Second, version)
	s.keeps(facts, "an upgrade")
	pid := s.pid()
	s.must(s.ctl("restart", "steward"))
	s.eventually("it is restarted", 15*time.Second, func() (string, bool) {
		saw, ok := version()
		return saw, ok && s.pid() != pid
	})
	s.keeps(facts, "a restart")
	verify()
	lives("a restart")
	// The hold is not forgotten either: it ends with its reason.
	s.beat(0.1)
	s.eventually("the task comes back when there is room", 20*time.Second, func() (string, bool) {
		return s.facts(), s.has(tasks+full+".request.json") && !s.has(tasks+full+".request.json.held")
	})
}

func givenUp(s *site) {
	s.installed()
	s.play()
	end := time.Now().Add(45 * time.Second)
	kills := 0
	for s.show("ActiveState") != "failed" && time.Now().Before(end) {
		if pid := s.pid(); pid != 0 && s.root("kill", "-KILL", strconv.Itoa(pid)).code == 0 {
			kills++
		}
	}
	if got := s.show("ActiveState"); got != "failed" {
		s.t.Fatalf("after %d kills it is %s", kills, got)
	}
	s.eventually("what it held is free", 10*time.Second, func() (string, bool) {
		return s.ctl("status", "--no-pager", "steward-failed").out, s.has(tasks+full+".request.json") && !s.has(tasks+full+".request.json.held")
	})
	s.eventually("steward-failed has run", 5*time.Second, func() (string, bool) {
		r := s.ctl("show", "--value", "-p", "Result,ExecMainExitTimestampMonotonic,ActiveState", "steward-failed")
		return r.all(), strings.Contains(r.out, "success") && strings.Contains(r.out, "inactive") && !strings.HasPrefix(r.out, "0\n")
	})
	s.must(s.service("start"))
	s.up("when it is started again")
	if r := s.steward("incidents", "--all", "-o", "json"); !strings.Contains(r.out, "Git conflict") {
		s.t.Errorf("the incidents are gone: %s", r.all())
	}
}

func uninstalled(s *site) {
	s.installed()
	s.play()
	unit, failed, link, socket, state := s.units()
	r := s.must(s.service("uninstall"))
	if !strings.Contains(r.out, unit) {
		s.t.Errorf("uninstall does not say what it removed: %q", r.all())
	}
	for _, file := range []string{unit, failed, link, socket, filepath.Dir(socket), state + "/steward.lock"} {
		if s.has(file) {
			s.t.Errorf("%s is left", file)
		}
	}
	if !s.has(tasks+full+".request.json") || s.has(tasks+full+".request.json.held") {
		s.t.Error("the task is still held")
	}
	if got := s.show("LoadState"); got != "not-found" {
		s.t.Errorf("the unit is %s", got)
	}
	if r := s.ctl("list-units", "--all", "--plain", "--no-legend", "steward*"); r.out != "" {
		s.t.Errorf("units are left: %s", r.out)
	}
	if !s.has(state + "/incidents") {
		s.t.Error("the incidents are gone, without --purge")
	}
	traces := s.traces()
	traces = slices.DeleteFunc(traces, func(f string) bool {
		return f == state || strings.HasPrefix(f, state+"/") || f == filepath.Dir(userConfig)
	})
	if len(traces) > 0 {
		s.t.Errorf("left: %q", traces)
	}
	if r := s.service("uninstall"); r.code != 0 {
		s.t.Errorf("a second uninstall: exit %d: %s", r.code, r.all())
	}
	s.installed()
	s.must(s.service("uninstall", "--purge"))
	traces = slices.DeleteFunc(s.traces(), func(f string) bool { return f == filepath.Dir(userConfig) })
	if len(traces) > 0 {
		s.t.Errorf("left after --purge: %q", traces)
	}
	if s.read(userConfig) != settings {
		s.t.Error("--purge has taken the configuration, which the human wrote")
	}
}

// rolledBack: what cannot work changes nothing.
func rolledBack(s *site) {
	unit, failed, link, _, _ := s.units()
	s.write(userConfig, "nonsense = 1\n", jesseID)
	if r := s.service("install"); r.code == 0 || !strings.Contains(r.err, "nonsense") {
		s.t.Errorf("installed with a broken configuration: exit %d: %s", r.code, r.all())
	}
	for _, file := range []string{unit, failed, link} {
		if s.has(file) {
			s.t.Errorf("a failed installation has left %s", file)
		}
	}
	if got := s.show("LoadState"); got != "not-found" {
		s.t.Errorf("a failed installation has left a unit: %s", got)
	}
	s.write(userConfig, settings, jesseID)
	s.installed()
	s.play()
	facts, text, pid := s.facts(), s.read(unit), s.pid()
	verify := s.neverShown(full)
	s.write(userConfig, "nonsense = 1\n", jesseID)
	s.install(s.next, program)
	if r := s.service("install"); r.code == 0 {
		s.t.Errorf("upgraded with a broken configuration: %s", r.all())
	}
	if s.read(unit) != text || s.pid() != pid || s.show("ActiveState") != "active" || !s.has(link) {
		s.t.Errorf("a failed upgrade: unit the same %v, pid %d, %d, %s", s.read(unit) == text, pid, s.pid(), s.show("ActiveState"))
	}
	s.write(userConfig, settings, jesseID)
	s.keeps(facts, "a failed upgrade")
	s.cannotStart(unit, text)
	s.up("after the roll-back")
	s.keeps(facts, "a roll-back")
	verify()
}

// cannotStart upgrades to a program elsewhere that its unit cannot start: the old unit must come back.
func (s *site) cannotStart(unit, text string) {
	s.t.Helper()
	s.dropIn("refuse", "ExecStartPre=/bin/sh -c '! grep -q ^ExecStart=/opt/next/ "+unit+"'")
	s.must(s.ctl("restart", "steward"))
	s.up("with a refusing drop-in")
	s.install(s.next, "/opt/next/steward")
	line := []string{"/opt/next/steward", "service", "install"}
	r := s.jesse(line...)
	if s.system {
		r = s.root(append(line, "--system", "--user", "jesse")...)
	}
	if r.code == 0 || s.read(unit) != text {
		s.t.Errorf("installed a program that cannot start: exit %d: %s\n%s", r.code, r.all(), s.read(unit))
	}
}

// dropIn adds settings to the unit, as the human may.
func (s *site) dropIn(name, setting string) {
	s.t.Helper()
	dir, owner := systemUnits, 0
	if !s.system {
		dir, owner = userUnits, jesseID
	}
	s.write(dir+"/steward.service.d/"+name+".conf", "[Service]\n"+setting+"\n", owner)
	s.must(s.ctl("daemon-reload"))
}

// withoutEnvironment: a service has no login's variables.
func withoutEnvironment(s *site) {
	s.installed()
	s.dropIn("bare", "UnsetEnvironment=HOME USER LOGNAME SHELL PATH LANG LC_ALL PWD DBUS_SESSION_BUS_ADDRESS XDG_CONFIG_HOME XDG_DATA_DIRS")
	s.must(s.ctl("restart", "steward"))
	s.up("without an environment")
	bare := s.root("sh", "-c", "tr '\\0' '\\n' </proc/"+strconv.Itoa(s.pid())+"/environ | grep -E '^(HOME|USER|PATH)='")
	if bare.out != "" {
		s.t.Errorf("it has an environment: %s", bare.out)
	}
	s.play()
}

// oneProjectMore: install --project adds to the user's configuration, whoever asks, and to what runs may write.
func oneProjectMore(s *site) {
	s.installed()
	s.play()
	facts := s.facts()
	verify := s.neverShown(full)
	s.folder(garden, jesseID)
	s.must(s.service("install", "--project", garden))
	if !strings.Contains(s.read(userConfig), garden) || !strings.HasPrefix(s.read(userConfig), settings) {
		s.t.Errorf("the configuration: %s", s.read(userConfig))
	}
	s.keeps(facts, "one project more")
	verify()
	s.must(s.steward("boot", "livhana-layer1.1", "--project", garden))
	s.eventually("it is at work in the new project", 20*time.Second, func() (string, bool) {
		return s.steward("status").all(), s.has(garden + "/tmp/agent_status/steward/steward.lock")
	})
}
