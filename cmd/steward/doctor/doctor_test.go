package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/platform/watch"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

// worded formats findings as lines: "fail name: text → do".
func worded(list []Finding) string {
	var all strings.Builder
	for _, f := range list {
		fmt.Fprintf(&all, "%s %s: %s → %s\n", f.Level, f.Name, f.Text, f.Do)
	}
	return all.String()
}

// judgement is a test case: the findings must match these regular expressions, one line each, and nothing else.
type judgement struct {
	name string
	got  []Finding
	want []string
}

func judged(t *testing.T, cases []judgement) {
	t.Helper()
	for _, c := range cases {
		if len(c.got) != len(c.want) {
			t.Errorf("%s: %d findings, want %d:\n%s", c.name, len(c.got), len(c.want), worded(c.got))
			continue
		}
		for i, line := range c.want {
			if got := worded(c.got[i : i+1]); !regexp.MustCompile("^" + line).MatchString(got) {
				t.Errorf("%s:\n got %s want %s", c.name, got, line)
			}
		}
		for _, f := range c.got {
			if (f.Level == LevelOK) != (f.Do == "") {
				t.Errorf("%s: what works needs no advice, and what does not needs some: %s", c.name, worded([]Finding{f}))
			}
		}
	}
}

func TestDoctorProgram(t *testing.T) {
	here := programFacts{version: "2", path: "/b/steward", found: "/b/steward"}
	with := func(change func(*programFacts)) []Finding {
		f := here
		change(&f)
		return judgeProgram(f)
	}
	const ok = "ok version: steward 2, /b/steward"
	judged(t, []judgement{
		{"all is well", judgeProgram(here), []string{ok}},
		{"the same version runs", with(func(f *programFacts) { f.daemon = "2" }), []string{ok}},
		{"another version runs", with(func(f *programFacts) { f.daemon = "1" }), []string{ok, "warn running version: the daemon is 1, this program is 2"}},
		{"another one in PATH", with(func(f *programFacts) { f.found, f.foundIsOther = "/a/steward", true }), []string{ok, "warn PATH: .* another program, /a/steward"}},
		{"not in PATH", with(func(f *programFacts) { f.found = "" }), []string{ok, "warn PATH: .*not found.*→ .*ln -s /b/steward"}},
		{"root through sudo", with(func(f *programFacts) { f.asRootFor = "jesse" }), []string{ok, "warn account: .*that of jesse"}},
	})
}

func TestDoctorService(t *testing.T) {
	no, yes := false, true
	good := serviceFacts{exists: true, same: true, program: "/b/steward", user: "jesse", status: service.Status{Manager: "systemd (user)",
		Installed: true, Unit: "/u/steward.service", Binary: "/b/steward", Enabled: true, State: "active", Detail: "running", PID: 7, Lingers: &yes}}
	with := func(change func(*serviceFacts)) []Finding {
		f := good
		change(&f)
		return judgeServices([]serviceFacts{f, {system: true}}, true, false)
	}
	unit, program := "ok unit: systemd .user., /u/steward.service, enabled", "ok program: it starts /b/steward"
	state, lingers := "ok state: systemd .user.: active .running., pid 7", "ok lingering: yes"
	machine := good
	machine.system = true
	none := serviceFacts{user: "jesse", status: service.Status{State: "inactive", Manager: "systemd (user)"}}
	alone := func(change func(*serviceFacts)) []Finding {
		f := none
		change(&f)
		return judgeServices([]serviceFacts{f, {system: true}}, false, false)
	}
	judged(t, []judgement{
		{"all is well", with(func(*serviceFacts) {}), []string{unit, program, state, lingers}},
		{"not enabled", with(func(f *serviceFacts) { f.status.Enabled = false }), []string{"warn unit: .*not enabled", program, state, lingers}},
		{"no program", with(func(f *serviceFacts) { f.exists = false }), []string{unit, "fail program: it starts /b/steward, which does not exist", state, lingers}},
		{"other program", with(func(f *serviceFacts) { f.same = false }), []string{unit, "warn program: .*not this program", state, lingers}},
		{"drift", with(func(f *serviceFacts) { f.drift = "/u is old" }), []string{unit, program, "warn definition: /u is old → .*steward service install", state, lingers}},
		{"drop-in", with(func(f *serviceFacts) { f.dropIns = []string{"/u.d/a.conf"} }), []string{unit, program, "ok drop-ins: .*/u.d/a.conf", state, lingers}},
		{"given up", with(func(f *serviceFacts) { f.status.State = "failed" }), []string{unit, program, "fail state: it was given up.*journalctl --user", lingers}},
		{"stopped", with(func(f *serviceFacts) { f.status.State, f.status.PID = "inactive", 0 }), []string{unit, program, "fail state: it does not run.*→ steward service start", lingers}},
		{"starting", with(func(f *serviceFacts) { f.status.State = "activating" }), []string{unit, program, "warn state: it is being started", lingers}},
		{"restarts", with(func(f *serviceFacts) { f.status.Restarts = 3 }), []string{unit, program, "warn state: .*restarted 3 times", lingers}},
		{"no lingering", with(func(f *serviceFacts) { f.status.Lingers = &no }), []string{unit, program, state, "warn lingering: no.*install --linger"}},
		{"silent", with(func(f *serviceFacts) { f.silent, f.status.State = true, "unknown" }), []string{"fail unit: .*does not answer", program, lingers}},
		{"no manager to ask", with(func(f *serviceFacts) { f.status.State = "unknown" }), []string{"warn unit: .*cannot be asked", program, lingers}},
		{"no manager there", with(func(f *serviceFacts) { f.status.State, f.absent = "unknown", true }), []string{"warn unit: .*no user manager.*enable-linger jesse", program, lingers}},
		{"root, who sees a user's", judgeServices([]serviceFacts{none, func() serviceFacts { m := machine; m.other = "jesse"; return m }()}, false, true),
			[]string{"ok machine's unit", "ok machine's program", "ok machine's state"}},
		{"root, and none", judgeServices([]serviceFacts{none, {system: true}}, false, true), []string{"warn service: .*--system --user NAME"}},
		{"both", judgeServices([]serviceFacts{good, machine}, true, false), []string{unit, program, state, lingers,
			"ok machine's unit", "ok machine's program", "ok machine's state", "fail both: .*in each other's way"}},
		{"another user's", func() []Finding {
			m := machine
			m.other = "rosa"
			return judgeServices([]serviceFacts{good, m}, true, false)
		}(), []string{unit, program, state, lingers, "ok machine's unit: it runs as rosa"}},
		{"none", alone(func(*serviceFacts) {}), []string{"warn service: not installed: steward runs only.*→ steward service install"}},
		{"no user manager", alone(func(f *serviceFacts) { f.absent = true }), []string{"warn manager: .*enable-linger jesse", "warn service: not installed"}},
		{"no service manager", alone(func(f *serviceFacts) { f.lack = &service.Lack{What: "no systemd", Do: "steward run"} }), []string{"warn service: .*no systemd → steward run"}},
		{"manager hangs", alone(func(f *serviceFacts) { f.silent = true }), []string{"fail manager: .*does not answer"}},
	})
}

func TestDoctorDrift(t *testing.T) {
	files := []service.File{{Path: "/u/a", Text: "one"}, {Path: "/u/b", Text: "two"}}
	for _, c := range []struct {
		unit string
		have map[string]string
		want string
	}{
		{"/u/a", map[string]string{"/u/a": "one", "/u/b": "two"}, ""},
		{"/u/a", map[string]string{"/u/a": "uno", "/u/b": "two"}, "/u/a is not what this program would install"},
		{"/u/a", map[string]string{"/u/a": "one"}, "/u/b is missing"},
		{"/usr/lib/a", nil, ""},
	} {
		got := drift(c.unit, files, func(path string) ([]byte, error) {
			if text, ok := c.have[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		})
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s with %v: %q, want %q", c.unit, c.have, got, c.want)
		}
	}
}

func TestDoctorDaemon(t *testing.T) {
	now := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	doc := &status.Document{Self: status.Self{Version: "2"}, Report: supervisor.Report{Started: ago(time.Hour)}}
	daemonWith := func(change func(*daemonFacts)) []Finding {
		f := daemonFacts{socket: "/r/s", doc: doc, now: now, beat: daemon.Heartbeat{Beat: ago(9 * time.Second)}}
		change(&f)
		return append(judgeDaemon(f), judgeEnd(f)...)
	}
	gone := func(f *daemonFacts) { f.doc, f.err = nil, fmt.Errorf("ask: %w", status.ErrNoDaemon) }
	run := &daemon.RunRecord{PID: 7, Started: ago(time.Minute), Ended: ago(50 * time.Second), How: daemon.EndFailed, Why: "no disk", Failed: 1}
	const ok, fresh = "ok socket: steward 2 answers on /r/s, up 60 min", "ok heartbeat: 9 s ago"
	judged(t, []judgement{
		{"it answers", daemonWith(func(*daemonFacts) {}), []string{ok, fresh}},
		{"its loop stands", daemonWith(func(f *daemonFacts) { f.beat.Beat = ago(5 * time.Minute) }), []string{ok, "fail heartbeat: the last one was 5 min ago"}},
		{"no heartbeat", daemonWith(func(f *daemonFacts) { f.beat = daemon.Heartbeat{} }), []string{ok, "warn heartbeat: "}},
		{"after a crash", daemonWith(func(f *daemonFacts) {
			f.doc = &status.Document{Self: status.Self{Version: "2", LastEnd: &status.Ending{How: daemon.EndCrashed, Why: "nil map"}}, Report: doc.Report}
		}), []string{ok, fresh, "warn last end: " + daemon.EndCrashed + ": nil map"}},
		{"none", daemonWith(gone), []string{"warn socket: no steward is running"}},
		{"it hangs", daemonWith(func(f *daemonFacts) { f.doc, f.err = nil, context.DeadlineExceeded }), []string{"fail socket: a process listens on /r/s and does not answer"}},
		{"its socket is gone", daemonWith(func(f *daemonFacts) { gone(f); f.run, f.lives = run, true }), []string{"fail socket: process 7 runs as steward"}},
		{"not ours", daemonWith(func(f *daemonFacts) { f.doc, f.err = nil, status.ErrForeign }), []string{"fail socket: .*another user"}},
		{"failed starts", daemonWith(func(f *daemonFacts) { gone(f); f.run = run }), []string{"warn socket", "fail last end: " + daemon.EndFailed + " 50 s ago: no disk; 2 starts in a row"}},
		{"it crashed", daemonWith(func(f *daemonFacts) {
			gone(f)
			f.run, f.crash = &daemon.RunRecord{PID: 7, Started: ago(time.Hour), Ready: ago(time.Hour), Ended: ago(time.Minute)}, "\npanic: nil map\n"
		}), []string{"warn socket", "warn last end: " + daemon.EndCrashed + " 60 s ago: panic: nil map"}},
		{"too long", daemonWith(func(f *daemonFacts) { f.socket = "/" + strings.Repeat("s", 200) }), []string{"fail socket: socket path too long"}},
	})
}

func TestDoctorFolder(t *testing.T) {
	with := func(change func(*folderFacts)) []Finding {
		f := folderFacts{isDir: true, mode: fs.ModeDir | 0o700, owner: 1000, free: -1}
		change(&f)
		return judgeFolder("state folder", "/s", f, 1000)
	}
	judged(t, []judgement{
		{"ours", with(func(*folderFacts) {}), []string{"ok state folder: /s .drwx------."}},
		{"not yet", with(func(f *folderFacts) { f.missing = true }), []string{"ok state folder: .*not there yet"}},
		{"never", with(func(f *folderFacts) { f.missing, f.write = true, syscall.EACCES }), []string{"fail state folder: /s is not there and cannot be made: permission denied"}},
		{"below a file", judgeFolder("state folder", "/dev/null/s", folderAt("/dev/null/s"), 1000), []string{"fail state folder: .*cannot be made: /dev/null is not a folder"}},
		{"open", with(func(f *folderFacts) { f.mode |= 0o020 }), []string{"fail state folder: others may write.*→ chmod 700 /s"}},
		{"sticky", with(func(f *folderFacts) { f.mode |= 0o777 | fs.ModeSticky }), []string{"ok state folder"}},
		{"somebody's", with(func(f *folderFacts) { f.owner = 7 }), []string{"fail state folder: .*belongs to uid 7"}},
		{"read-only", with(func(f *folderFacts) { f.write = syscall.EROFS }), []string{"fail state folder: .*cannot be written: read-only"}},
		{"full", with(func(f *folderFacts) { f.free = 1 << 20 }), []string{"fail state folder: .*1024 KiB left"}},
		{"a file", with(func(f *folderFacts) { f.isDir = false }), []string{"fail state folder: /s is not a folder"}},
		{"closed", with(func(f *folderFacts) { f.err = syscall.EACCES }), []string{"fail state folder: .*permission denied"}},
	})
}

func TestDoctorProject(t *testing.T) {
	refs, err := config.Config{Projects: []config.Project{{Path: "/p"}}}.ProjectList("/", "/")
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*projectFacts)) []Finding {
		f := projectFacts{ref: refs[0], folder: folderFacts{isDir: true}, protocols: []string{"agentstatus", "ralph"}, config: "/c"}
		change(&f)
		return judgeProject(f)
	}
	const ok = `ok p: /p: agentstatus \(act\), ralph \(ask\)`
	many := &supervisor.ProjectReport{Faults: make([]protocol.Fault, status.ShownFaults+2)}
	judged(t, []judgement{
		{"all is well", with(func(*projectFacts) {}), []string{ok}},
		{"no protocol", with(func(f *projectFacts) { f.protocols = nil }), []string{"warn p: /p: no protocol yet → .*boot livhana-layer1.1 --project /p"}},
		{"missing", with(func(f *projectFacts) { f.folder = folderFacts{missing: true} }), []string{"fail p: there is no folder /p → .*/c"}},
		{"unreadable", with(func(f *projectFacts) { f.folder.read = syscall.EACCES }), []string{"fail p: /p cannot be read: permission denied"}},
		{"read-only", with(func(f *projectFacts) { f.folder.write = syscall.EROFS }), []string{ok, "fail p: /p cannot be written: read-only"}},
		{"read-only, observed", with(func(f *projectFacts) {
			f.folder.write, f.protocols, f.ordered = syscall.EROFS, []string{"ralph"}, map[string]supervisor.ModeOrder{"ralph": {Mode: protocol.ModeObserve}}
		}), []string{"ok p: "}},
		{"unknown to the daemon", with(func(f *projectFacts) { f.running = true }), []string{ok, "warn p: .*does not look after it → steward reload"}},
		{"known to the daemon by another name", with(func(f *projectFacts) { f.running, f.twin = true, true }), []string{ok}},
		{"many faults", with(func(f *projectFacts) { f.running, f.report = true, many }),
			[]string{ok, "warn", "warn", "warn", "warn", "warn", "warn p: and 2 faults more"}},
	})
}

func TestDoctorWatchingAndReach(t *testing.T) {
	load := capacity.Load{CPU: protocol.Used(0.5), Memory: protocol.Used(0.9), Files: protocol.Used(0)}
	popups := func(change func(*popupFacts)) []Finding {
		f := popupFacts{server: "dunst 1.9", linux: true, screen: true}
		change(&f)
		return judgePopups(f)
	}
	noBus := &desktop.Error{Op: "x", Hint: "log in", Err: fmt.Errorf("no session bus: %w", desktop.ErrUnavailable)}
	mute := &status.Document{Incidents: []escalate.Incident{{Origin: escalate.Origin{Kind: "notifier_broken"}, Content: escalate.Content{Summary: "No channel could reach you"}}}}
	judged(t, []judgement{
		{"watches", judgeWatches(nil, time.Second), []string{"ok watches: folders can be watched"}},
		{"no more watches", judgeWatches(watch.ErrNoWatches, 5*time.Second), []string{"warn watches: .*within 5s instead of at once.*→ sudo sysctl"}},
		{"forbidden", judgeWatches(errors.New("no"), time.Second), []string{"warn watches: .*→ find out"}},
		{"gauges", judgeGauges(load, map[string]string{"disk": "no answer"}, capacity.Config{Threshold: 0.8}, true),
			[]string{"ok gauges: cpu 50 %, files 0 %", "warn memory: it is at 90 % right now, over 80 %", "warn disk: it is unknown: no answer"}},
		{"a full disk", judgeGauges(capacity.Load{Disk: protocol.Used(0.99), Disks: map[string]capacity.Disk{"/archive": {Used: 0.99, Free: 1}, "/web": {Used: 0.2, Free: 1 << 40}}},
			nil, capacity.Config{Threshold: 0.8, DiskLimit: 0.95, DiskFree: 5 << 30, Dimensions: []string{"disk"}}, true),
			[]string{"warn disk: it is at 99 % right now, over 95 %, so new tasks of /archive wait"}},
		{"gauges that do not bind", judgeGauges(load, nil, capacity.Config{Threshold: 0.8, Dimensions: []string{"agent"}}, true), []string{"ok gauges: cpu 50 %, memory 90 %, files 0 %"}},
		{"descriptors", judgeDescriptors(20, 1024, "the daemon has 20 of 1024"), []string{"ok open files: the daemon has 20 of 1024"}},
		{"few descriptors", judgeDescriptors(0, 256, "at most 256"), []string{"warn open files: at most 256"}},
		{"descriptors in use", judgeDescriptors(1000, 1024, "the daemon has 1000 of 1024"), []string{"warn open files: the daemon has 1000 of 1024"}},
		{"popups", popups(func(*popupFacts) {}), []string{"ok desktop: dunst 1.9 shows popups"}},
		{"do not disturb", popups(func(f *popupFacts) { f.muted = true }), []string{"warn desktop: dunst 1.9 takes popups and shows none"}},
		{"by the first popup", popups(func(f *popupFacts) { f.server = "" }), []string{"ok desktop: .*started by the first popup"}},
		{"no bus yet", popups(func(f *popupFacts) { f.err, f.screen = noBus, false }), []string{"warn desktop: .*no session bus.*no DISPLAY here.*tries again.*→ log in"}},
		{"root", popups(func(f *popupFacts) { f.err, f.root = noBus, true }), []string{"warn desktop: .*root is asking"}},
		{"voice", judgeSpeech(desktop.Voice{Tool: "espeak", Sink: "/run/pulse"}, nil), []string{"ok speech: espeak, through /run/pulse"}},
		{"no way out", judgeSpeech(desktop.Voice{Tool: "espeak"}, nil), []string{"warn speech: espeak, but no sound output"}},
		{"no voice", judgeSpeech(desktop.Voice{}, noBus), []string{"warn speech: nothing is said aloud"}},
		{"the daemon's word", judgeChannels([]string{"speech"}, mute), []string{"ok channels: speech", "warn the daemon's word: No channel could reach you"}},
	})
}

// TestDoctorScripts: the scripts that steward ships pass its own examination.
func TestDoctorScripts(t *testing.T) {
	ready := func(name string) string {
		text, ok := readScript(filepath.Join("../../../packaging/boot", name))
		if !ok {
			t.Fatalf("no packaging/boot/%s", name)
		}
		return text
	}
	const heredoc = "cat > \"$A/shared/agent_registry.json\" <<JSON\n{\"codex-cursor\": {}}\nJSON\n"
	judged(t, []judgement{
		{"ours for codex", []Finding{judgeScript("p", codexScript, ready(codexScript), false)}, []string{"ok p codex_agent_boot.sh"}},
		{"ours for claude, pasted", []Finding{judgeScript("p", claudeScript, ready(step35), false)}, []string{"ok p claude_tier1_boot.sh"}},
		{"sourced", []Finding{judgeScript("p", claudeScript, ". \"$ROOT/scripts/claude_tier1_step3.5.sh\"\n", true)}, []string{"ok p claude"}},
		{"sourced, not there", []Finding{judgeScript("p", claudeScript, "source scripts/claude_tier1_step3.5.sh\n", false)}, []string{"warn p claude.*calls claude_tier1_step3.5.sh, which is not there"}},
		{"one line", []Finding{judgeScript("p", codexScript, "steward boot codex-cursor --project \"$ROOT\"\n", false)}, []string{"ok p codex"}},
		{"by itself", []Finding{judgeScript("p", codexScript, "# steward boot codex-cursor\n"+heredoc, false)}, []string{"warn p codex.*sets codex-cursor up itself.*→ .*steward boot codex-cursor"}},
		{"not at all", []Finding{judgeScript("p", claudeScript, "echo steward boot\n", false)}, []string{"warn p claude.*does not boot livhana-layer1.1"}},
		{"an index that names it", judgeIndex("p", "## Inter-Agent Coordination\n- .claude/INTER_AGENT_COMMUNICATION_PROTOCOL.md\n"), nil},
		{"an index that does not", judgeIndex("p", "# Index\n- setup.md\n"), []string{"warn p docs/INDEX.md: it does not name the protocol → name the protocol's document"}},
	})
}

// TestDoctorLeavesBehindWhatHangs: a probe that never returns is a finding, and delays no other probe.
func TestDoctorLeavesBehindWhatHangs(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	got := examine(t.Context(), 10*time.Millisecond, []probe{
		{"a", "disk", func(context.Context) []Finding { <-forever; return nil }},
		{"b", "quick", func(context.Context) []Finding { return []Finding{working("quick", "fine")} }},
	})
	judged(t, []judgement{{"one hangs", got, []string{"fail disk: no answer within 10ms", "ok quick: fine"}}})
	if got[0].Area != "a" || got[1].Area != "b" {
		t.Errorf("areas: %+v", got)
	}
}
