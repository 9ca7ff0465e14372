package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

// atHome gives the commands an empty home, which is also the current folder.
func atHome(t *testing.T) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "st") // not t.TempDir: a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for key, value := range map[string]string{
		"HOME": dir, "STEWARD_STATE_DIR": filepath.Join(dir, "state"), "STEWARD_SOCKET": filepath.Join(dir, "s.sock"), "STEWARD_CONFIG": filepath.Join(dir, "config.toml"),
		"XDG_CONFIG_HOME": "", "XDG_RUNTIME_DIR": "", "COLUMNS": "", "NO_COLOR": "",
	} {
		t.Setenv(key, value)
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("config.toml", "")
	for _, sub := range []string{"state", "cwd"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "cwd"))
	return dir
}

// invoke runs a command line as the program would.
func invoke(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(args, &o, &e)
	return code, o.String(), e.String()
}

// fakeDaemon answers on the socket of atHome, and records the requests.
func fakeDaemon(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) (asked *[]string) {
	t.Helper()
	l, err := net.Listen("unix", os.Getenv("STEWARD_SOCKET"))
	if err != nil {
		t.Fatal(err)
	}
	asked = &[]string{}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return // every command first probes for a daemon
		}
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		answer(w, r)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return asked
}

func TestCommandsAskForTheirRoute(t *testing.T) {
	const carried = `{"verb":"retry","subject":"sot:task/7"}`
	for _, c := range []struct {
		args, want, answer, out string
	}{
		{"status -o json", "GET /v1/status", `{"version":"1","z":1,"a":[]}`, "{\n  \"version\": \"1\",\n  \"z\": 1,\n  \"a\": []\n}\n"},
		{"agents", "GET /v1/agents", `{"agents":[]}`, "no agents\nhow to add one: steward boot --help\n"},
		{"tasks --state running --project sot", "GET /v1/tasks?project=sot&state=running", `{"tasks":[]}`, "all tasks: steward tasks\n"},
		{"locks", "GET /v1/locks", `{"locks":[]}`, "no locks\nhow to take one: steward lock run --help\n"},
		{"incidents", "GET /v1/incidents", `{"incidents":[]}`, "nothing needs you now; what is over: steward incidents --all\n"},
		{"goals -o json", "GET /v1/goals", `{"goals":[]}`, "{\n  \"goals\": []\n}\n"},
		{"log -n 5 sot:task/7", "GET /v1/log?n=5&subject=sot%3Atask%2F7", `{"log":[]}`, ""},
		{"explain task/7 --protocol agentstatus -o json", "GET /v1/explain?protocol=agentstatus&subject=task%2F7", `{}`, "{}\n"},
		{"capacity -o json", "GET /v1/capacity", `{"threshold":0.8}`, "{\n  \"threshold\": 0.8\n}\n"},
		{"retry sot:task/7 --why disk", `POST /v1/tasks/sot:task%2F7/retry {"why":"disk"}`, carried, "retry sot:task/7: done\n"},
		{"cancel 7", "POST /v1/tasks/7/cancel", carried, "retry sot:task/7: done\n"},
		{"hold codex-cursor", "POST /v1/agents/codex-cursor/hold", carried, "retry sot:task/7: done\n"},
		{"release", "POST /v1/release {}", `{"verb":"release"}`, "release: done\n"},
		{"release agent/codex-cursor", "POST /v1/agents/agent%2Fcodex-cursor/release {}", carried, "retry sot:task/7: done\n"},
		{"release task/7 --why now", `POST /v1/tasks/task%2F7/release {"why":"now"}`, carried, "retry sot:task/7: done\n"},
		{"pause", "POST /v1/pause", `{"verb":"pause"}`, "pause: done\n"},
		{"pause sot --why x", `POST /v1/projects/sot/pause {"why":"x"}`, carried, "retry sot:task/7: done\n"},
		{"resume sot", "POST /v1/projects/sot/resume", carried, "retry sot:task/7: done\n"},
		{"resume", "POST /v1/resume", `{"verb":"resume"}`, "resume: done\n"},
		{"reload -o json", "POST /v1/reload", `{"verb":"reload"}`, "{\n  \"verb\": \"reload\"\n}\n"},
		{"answer 3fa9 retry --why x", `POST /v1/incidents/3fa9/answer {"option":"retry","why":"x"}`,
			`{"incident":{"summary":"s","answer":{"option":"retry","label":"Run it\u001b[2J again"}}}`, "answered: s: Run it?[2J again\n"},
		{"snooze 3fa9 2h", `POST /v1/incidents/3fa9/snooze {"seconds":7200}`, `{"incident":{"summary":"s"}}`, ": s\n"},
		{"ack 3fa9", "POST /v1/incidents/3fa9/ack", `{"incident":{"summary":"late\u001b[2J"}}`, ": late?[2J\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			atHome(t)
			asked := fakeDaemon(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.answer) })
			code, out, errOut := invoke(strings.Fields(c.args)...)
			if code != 0 || errOut != "" {
				t.Fatalf("exit %d: %s", code, errOut)
			}
			if got := strings.Join(*asked, "\n"); got != c.want {
				t.Errorf("asked %q, want %q", got, c.want)
			}
			if !strings.HasSuffix(out, c.out) || (c.out == "") != (out == "") {
				t.Errorf("printed %q, want %q", out, c.out)
			}
		})
	}
}

func TestABareNameIsATaskOrElseAnAgent(t *testing.T) {
	atHome(t)
	asked := fakeDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/tasks/") {
			w.WriteHeader(404)
			io.WriteString(w, `{"error":{"code":"no_such_subject","message":"no such task","hint":""}}`)
			return
		}
		io.WriteString(w, `{"verb":"release","subject":"sot:agent/codex"}`)
	})
	code, out, errOut := invoke("release", "codex")
	if code != 0 || out != "release sot:agent/codex: done\n" {
		t.Errorf("exit %d, %q, %s; asked %q", code, out, errOut, *asked)
	}
}

func TestAllIncidents(t *testing.T) {
	atHome(t)
	fakeDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		key := "open0000"
		if r.URL.Query().Get("state") == "resolved" {
			key = "over0000"
		}
		fmt.Fprintf(w, `{"incidents":[{"key":%q,"severity":"low","x":1}]}`, key)
	})
	_, out, _ := invoke("incidents", "--all", "-o", "json")
	var doc struct{ Incidents []struct{ Key string } }
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Incidents) != 2 || doc.Incidents[1].Key != "over0000" {
		t.Errorf("%v: %s", err, out)
	}
	if code, _, errOut := invoke("incidents", "--all", "--state", "open"); code != cli.ExitUsage {
		t.Errorf("--all --state: exit %d, %s", code, errOut)
	}
}

func TestExitCodesOfRefusals(t *testing.T) {
	for _, c := range []struct {
		status, want int
		code         string
	}{
		{400, cli.ExitUsage, "bad_request"}, {404, cli.ExitNoSubject, "no_such_subject"}, {409, cli.ExitRefused, "refused"}, {409, cli.ExitRefused, "ambiguous"}, {503, cli.ExitFailed, "not_ready"}, {500, cli.ExitFailed, "internal"},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			atHome(t)
			fakeDaemon(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				fmt.Fprintf(w, `{"error":{"code":%q,"message":"it is\nnot \u001b[31mpossible","hint":"do this"}}`, c.code)
			})
			code, out, errOut := invoke("retry", "7")
			if code != c.want || out != "" {
				t.Errorf("exit %d, want %d; printed %q", code, c.want, out)
			}
			if want := "steward: retry 7: it is not ?[31mpossible; do this\n"; errOut != want {
				t.Errorf("said %q, want %q", errOut, want)
			}
		})
	}
}

func TestWrongUsage(t *testing.T) {
	atHome(t)
	for _, args := range []string{"explain", "explain a b", "retry", "ack", "hold", "pause a b", "reload now", "status now", "log a b", "log -n many", "status -o yaml",
		"config --check x --defaults", "nonsense", "status --nonsense"} {
		if code, _, errOut := invoke(strings.Fields(args)...); code != cli.ExitUsage || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: exit %d, want %d: %q", args, code, cli.ExitUsage, errOut)
		}
	}
	for _, name := range []string{"", ".", ".."} {
		if code, _, _ := invoke("cancel", name); code != cli.ExitUsage {
			t.Errorf("cancel %q: exit %d, want %d", name, code, cli.ExitUsage)
		}
	}
}

func TestWithoutADaemon(t *testing.T) {
	atHome(t)
	for _, args := range []string{"status", "agents", "tasks", "locks", "incidents", "incidents --all", "goals", "log", "log --follow", "explain x", "ack x", "retry x", "cancel x", "hold x", "pause", "resume x", "reload"} {
		code, out, errOut := invoke(strings.Fields(args)...)
		if code != cli.ExitNoDaemon || out != "" || !strings.Contains(errOut, "steward run") || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: exit %d, want %d; %q; %q", args, code, cli.ExitNoDaemon, out, errOut)
		}
	}
}

func TestStatusShowsTheLastSnapshot(t *testing.T) {
	dir := atHome(t)
	doc := sampleDocument()
	if err := status.WriteSnapshot(filepath.Join(dir, "state", "status.json"), doc); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := invoke("status")
	if code != cli.ExitNoDaemon || !strings.Contains(out, "steward 1.2.3") || !strings.Contains(errOut, "no steward is running; last seen") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	if watched, err := watchedStatus(t.Context(), (&cli.App{Err: io.Discard})); err != nil || watched.Looks != doc.Looks || watched.Daemon == nil || watched.Daemon.Running {
		t.Errorf("--watch shows the last picture while no daemon runs: %v, %+v", err, watched.Daemon)
	}
	// The heartbeat is newer than an unchanged snapshot.
	beat, earlier := filepath.Join(dir, "state", daemon.HeartbeatFile), time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chtimes(filepath.Join(dir, "state", "status.json"), earlier, earlier), os.WriteFile(beat, []byte("{}"), 0o600),
		os.Chtimes(beat, time.Now(), time.Now().Add(-2*time.Minute))); err != nil {
		t.Fatal(err)
	}
	if _, _, errOut := invoke("status"); !strings.Contains(errOut, "last seen 2 min") {
		t.Errorf("the heartbeat is two minutes old: %s", errOut)
	}
	code, out, _ = invoke("status", "-o", "json")
	var back status.Document
	if err := json.Unmarshal([]byte(out), &back); err != nil || code != cli.ExitNoDaemon || back.Looks != doc.Looks {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
}

func TestCapacityMeasuresByItself(t *testing.T) {
	atHome(t)
	code, out, errOut := invoke("capacity", "-o", "json")
	var c status.Capacity
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != 0 || errOut != "" {
		t.Fatalf("exit %d, %v, %s: %s", code, err, errOut, out)
	}
	if c.At == nil || c.Threshold != 0.8 || !c.Load.Used.Known() || c.Held == nil || c.Gates == nil {
		t.Errorf("measured %s", out)
	}
	if code, out, _ := invoke("capacity"); code != 0 || !strings.HasPrefix(out, "load ") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// stopAfter is an output that ends the command once it has seen enough.
type stopAfter struct {
	seen bytes.Buffer
	text string
	n    int
	stop context.CancelFunc
}

func (w *stopAfter) Write(b []byte) (int, error) {
	n, err := w.seen.Write(b)
	if strings.Count(w.seen.String(), w.text) >= w.n {
		w.stop()
	}
	return n, err
}

func TestWatchPrintsBlocks(t *testing.T) {
	atHome(t)
	fakeDaemon(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"threshold":0.8,"held":[]}`) })
	ctx, stop := context.WithCancel(t.Context())
	out := &stopAfter{text: "load", n: 2, stop: stop}
	m := &capacityView{app: &cli.App{Out: out, Output: "text"}, client: status.NewClient(os.Getenv("STEWARD_SOCKET"))}
	if err := m.watch(ctx); err != nil {
		t.Error(err)
	}
	if got := out.seen.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "empty\n\nload") {
		t.Errorf("blocks:\n%s", got)
	}
}

func TestFollowEndsQuietly(t *testing.T) {
	for output, want := range map[string]string{"text": "sot:agent/codex  became late: ?[2J silent ?\n", "json": `"text":"\u001b[2J silent \u009b"}` + "\n"} {
		t.Run(output, func(t *testing.T) {
			atHome(t)
			fakeDaemon(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept") != "text/event-stream" {
					t.Errorf("it accepts %q", r.Header.Get("Accept"))
				}
				fmt.Fprintf(w, "data: {\"at\":%q,\"kind\":\"verdict\",\"subject\":\"sot:agent/codex\",\"state\":\"late\",\"text\":\"\\u001b[2J silent \u009b\"}\n\n", time.Now().Format(time.RFC3339))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			ctx, stop := context.WithCancel(t.Context())
			out := &stopAfter{text: "\n", n: 1, stop: stop}
			a := &cli.App{Out: out, Err: io.Discard, Output: output}
			if err := followJournal(ctx, a, "/v1/log"); err != nil {
				t.Error(err)
			}
			if got := out.seen.String(); !strings.HasSuffix(got, want) {
				t.Errorf("printed %q, want %q", got, want)
			}
		})
	}
}

func TestFollowSaysWhenTheDaemonGoes(t *testing.T) {
	atHome(t)
	fakeDaemon(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, ": live\n\n") })
	if code, _, errOut := invoke("log", "--follow"); code != cli.ExitNoDaemon {
		t.Errorf("exit %d: %s", code, errOut)
	}
}

func TestABadConfigurationStillReachesTheDaemon(t *testing.T) {
	dir := atHome(t)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("nonsense = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fakeDaemon(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"agents":[]}`) })
	code, out, errOut := invoke("agents")
	if code != 0 || out != "no agents\nhow to add one: steward boot --help\n" || strings.Count(errOut, "the configuration cannot be used") != 1 {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	if _, _, errOut := invoke("incidents"); strings.Count(errOut, "the configuration cannot be used") != 1 {
		t.Errorf("of two questions to the daemon each warns: %q", errOut)
	}
	if code, _, _ := invoke("agents", "--config", filepath.Join(dir, "config.toml")); code != cli.ExitFailed {
		t.Errorf("with --config: exit %d, want %d", code, cli.ExitFailed)
	}
}

func TestConfigCommand(t *testing.T) {
	dir := atHome(t)
	bad := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(bad, []byte("[capacity]\nthreshhold = 0.5\n\n[heartbeat]\nlate = \"soon\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := invoke("config", "--check", bad)
	if code != cli.ExitFailed || out != "" || !strings.Contains(errOut, bad+":2: ") || !strings.Contains(errOut, bad+":5: ") {
		t.Errorf("check: exit %d, %q, %q", code, out, errOut)
	}
	code, out, _ = invoke("config", "--check", bad, "-o", "json")
	var check fileCheck
	if err := json.Unmarshal([]byte(out), &check); err != nil || code != cli.ExitFailed || check.OK || len(check.Problems) != 2 || check.Problems[0].Line != 2 {
		t.Errorf("check: exit %d, %v: %s", code, err, out)
	}
	code, out, _ = invoke("config", "--check", filepath.Join(dir, "config.toml"))
	if code != 0 || !strings.HasSuffix(out, ": fine\n") {
		t.Errorf("check: exit %d, %q", code, out)
	}
	if code, out, _ = invoke("config", "--defaults"); code != 0 || !strings.Contains(out, "# steward's settings") {
		t.Errorf("defaults: exit %d, %.60q", code, out)
	}
	if code, out, _ = invoke("config"); code != 0 || !strings.Contains(out, "[heartbeat]\nlate = \"45s\"") {
		t.Errorf("config: exit %d, %.200q", code, out)
	}
	_, out, _ = invoke("config", "-o", "json")
	var cfg struct {
		Tasks struct {
			Timeout     float64
			MaxAttempts int `json:"max_attempts"`
		}
		Retry []struct{ Code string }
	}
	if err := json.Unmarshal([]byte(out), &cfg); err != nil || cfg.Tasks.Timeout != 300 || cfg.Tasks.MaxAttempts != 10 || len(cfg.Retry) < 10 {
		t.Errorf("config as json: %v: %s", err, out)
	}
}

func TestCompletion(t *testing.T) {
	atHome(t)
	fakeDaemon(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(sampleDocument()) })
	_, out, _ := invoke("__complete", "explain", "")
	if !strings.Contains(out, "codex-cursor\tagent, alive\n") || !strings.Contains(out, sampleTask+"\ttask, running\n") || !strings.Contains(out, "3fa9c2d400000001\t") {
		t.Errorf("explain completes to:\n%s", out)
	}
	if _, out, _ = invoke("__complete", "pause", ""); !strings.HasPrefix(out, "sot\t") {
		t.Errorf("pause completes to:\n%s", out)
	}
	if code, out, _ := invoke("completion", "bash"); code != 0 || !strings.Contains(out, "__start_steward") {
		t.Errorf("completion bash: exit %d", code)
	}
}

func TestEveryCommandHelps(t *testing.T) {
	a := &cli.App{}
	for _, c := range append(append(newViewCommands(a), newOperatorCommands(a)...), newConfigCommand(a), newVersionCommand(a)) {
		if c.Short == "" || !strings.Contains(c.Example, "steward "+c.Name()) {
			t.Errorf("%s: help without an example: %q", c.Name(), c.Example)
		}
	}
}

func TestVersion(t *testing.T) {
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3":                 {Main: debug.Module{Version: "v1.2.3"}},
		"dev":                    {Main: debug.Module{Version: "(devel)"}},
		"dev-0123456789ab-dirty": {Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}},
		"dev-0123":               {Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.modified", Value: "false"}}},
	} {
		if got := versionOf(&info); got != want {
			t.Errorf("versionOf(%v) = %q, want %q", info, got, want)
		}
	}
	if code, out, _ := invoke("version", "-o", "json"); code != 0 || !strings.Contains(out, `"version": "`+version()+`"`) {
		t.Errorf("version: exit %d, %s", code, out)
	}
}

// A snapshot shown without a daemon says so visibly: in its first line, and in the JSON document.
func TestOldSnapshotSaysSo(t *testing.T) {
	dir := atHome(t)
	file := filepath.Join(dir, "state", "status.json")
	if err := status.WriteSnapshot(file, sampleDocument()); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-40 * time.Minute)
	if err := os.Chtimes(file, then, then); err != nil {
		t.Fatal(err)
	}
	_, out, _ := invoke("status")
	if first, _, _ := strings.Cut(out, "\n"); !strings.Contains(first, "no steward is running") || !strings.Contains(first, "40 min ago") || strings.Contains(out, ", up ") {
		t.Errorf("%s", out)
	}
	var doc status.Document
	_, out, _ = invoke("status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Daemon == nil || doc.Daemon.Running || doc.Daemon.Since.Sub(then).Abs() > time.Second {
		t.Errorf("%v: %+v", err, doc.Daemon)
	}
	if err := os.WriteFile(file, []byte(`{"format": 2, "version": "9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := invoke("status"); code != cli.ExitNoDaemon || out != "" || !strings.Contains(errOut, "newer steward") {
		t.Errorf("of a newer steward: exit %d, %q, %q", code, out, errOut)
	}
}

// Without a daemon log and explain read the journal on disk.
func TestJournalWithoutADaemon(t *testing.T) {
	dir := atHome(t)
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := supervisor.OpenJournal(filepath.Join(dir, "state", daemon.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	subject := protocol.Subject{Project: "p", Protocol: "agentstatus", Kind: protocol.KindTask, ID: "t1"}
	if err := errors.Join(j.Write(supervisor.Entry{At: time.Now(), Kind: "change", Verb: "hold", Subject: subject, Text: "no room"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"log", "log t1", "explain t1"} {
		code, out, errOut := invoke(strings.Fields(args)...)
		if code != 0 || !strings.Contains(out, "no room") || !strings.Contains(errOut, "no steward is running") {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errOut)
		}
		code, out, _ = invoke(append(strings.Fields(args), "-o", "json")...)
		if code != 0 || !strings.Contains(out, `"running": false`) || !strings.Contains(out, "no room") {
			t.Errorf("%s as JSON: exit %d, %s", args, code, out)
		}
	}
	if code, _, errOut := invoke("log", "nosuch"); code != cli.ExitNoSubject || !strings.Contains(errOut, "nosuch") {
		t.Errorf("an unknown name: exit %d, %q", code, errOut)
	}
}
