//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform/confine"
)

// TestWorkerArgumentsArriveAsTheyAre: nothing that a shell would obey is obeyed.
func TestWorkerArgumentsArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	args := []string{"$(touch owned)", "`touch owned`", "; touch owned", "| touch owned", "&& touch owned", "> owned", "a'b", `a"b`, `a\b`, "two\nlines", "a\tb",
		"-rf", "--", "--help", "-", "", "*", "~", "$HOME", "${IFS}x", "!!", "#x", "%s%n", "{task}", "{project}", "ä€\U0001f600", "\x01\x1b[31m", strings.Repeat("x", 100_000)}
	script := r.script("p", "show.sh", `printf '%s\0' "$@" > shown`)
	odd := r.script("p", "a b; touch owned $(touch owned)", `touch odd`)
	r.ask("p", taskID(1), script, args...)
	r.ask("p", taskID(2), odd)
	r.put(r.task("p", taskID(3), ".request.json"), with(executeOf(taskID(3), script), "args", []any{"fine", "NUL \x00 within"}))
	r.put(r.task("p", taskID(4), ".request.json"), with(executeOf(taskID(4), script), "args", "touch owned"))
	r.drain("p")
	shown, _ := os.ReadFile(r.at("p/shown"))
	if got := strings.Split(strings.TrimSuffix(string(shown), "\x00"), "\x00"); !slices.Equal(got, args) {
		t.Errorf("got %d arguments %.300q\nwant %d %.300q", len(got), got, len(args), args)
	}
	r.ends("p", taskID(1), "completed")
	r.ends("p", taskID(2), "completed")
	if !there(r.at("p/odd")) {
		t.Error("a script with an odd name was not run")
	}
	r.ends("p", taskID(3), "failed INVALID_REQUEST")
	r.ends("p", taskID(4), "failed INVALID_REQUEST")
	for _, name := range []string{"owned", "p/owned"} {
		if there(r.at(name)) {
			t.Errorf("something obeyed: %s is there", name)
		}
	}
}

// TestWorkerKeepsToItsProject: no script, folder or file outside the project is used, by whatever path.
func TestWorkerKeepsToItsProject(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	ran := r.at("ran")
	outside := r.script(".", "outside/evil.sh", "touch "+ran)
	inside := r.script("p", "fine.sh", "true")
	r.script("p-beside", "evil.sh", "touch "+ran) // shares the beginning of the project's name
	for link, to := range map[string]string{"p/link.sh": outside, "p/folder": r.at("outside"), "p/again": "folder", "p/nowhere": r.at("missing.sh")} {
		if err := os.Symlink(to, r.at(link)); err != nil {
			t.Fatal(err)
		}
	}
	asked := map[string]doc{}
	add := func(d doc) { asked[d["task_id"].(string)] = d }
	for n, path := range []string{"../outside/evil.sh", r.at("p/../outside/evil.sh"), outside, "link.sh", r.at("p/link.sh"), "folder/evil.sh", "again/evil.sh", "nowhere",
		"./fine.sh/../../outside/evil.sh", r.at("p-beside/evil.sh"), "/bin/true", "/proc/self/root" + outside, "/proc/self/cwd/../outside/evil.sh", "~/evil.sh\x00", "folder/../../outside/evil.sh"} {
		add(executeOf(taskID(n+1), path))
	}
	add(with(executeOf(taskID(101), inside), "working_directory", ".."))
	add(with(executeOf(taskID(102), inside), "working_directory", "folder"))
	modify := executeOf(taskID(103), inside)
	modify["payload"].(doc)["files_to_modify"] = []string{"/etc/passwd"}
	add(modify)
	for id, d := range asked {
		r.put(r.task("p", id, ".request.json"), d)
	}
	r.ask("p", taskID(200), inside)
	r.drain("p")
	if there(ran) {
		t.Error("a script outside the project was executed")
	}
	for id, d := range asked {
		p := r.ends("p", id, "failed PERMISSION_DENIED")
		if _, tried := p.Result.Metrics["exit_code"]; tried {
			t.Errorf("it was started: %v: %+v", d["payload"], p)
		}
	}
	r.ends("p", taskID(200), "completed")
}

// TestWorkerLeavesNothingBehind: what forks away, by whatever way, ends with its task.
func TestWorkerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	waits := "\nwhile ! [ -s $1 ]; do sleep 0.01; done"
	away := `sh -c 'echo $$ > '$1'; trap "" TERM HUP; while :; do sleep 1; done' </dev/null >/dev/null 2>&1`
	for n, body := range []string{
		away + " &" + waits,                               // a child
		"(setsid " + away + " &)" + waits,                 // forked twice, in a session of its own
		"(env -i $(which setsid) " + away + " &)" + waits, // and without an environment that would tell whose it is
		"(setsid sh -c 'echo $$ > '$1'; trap \"\" TERM HUP; while :; do sleep 1; done' &)" + waits, // which holds the output open
		"(setsid " + away + " &)" + waits + "; kill -9 $$",                                         // and whose parent dies of a signal
	} {
		name := fmt.Sprintf("pid%d", n+1)
		r.ask("p", taskID(n+1), r.script("p", fmt.Sprintf("away%d.sh", n+1), body), name)
	}
	r.drain("p")
	for n := range 5 {
		name, want := fmt.Sprintf("pid%d", n+1), "completed"
		if n == 4 {
			want = "failed EXECUTION_FAILED"
		}
		p := r.ends("p", taskID(n+1), want)
		if pid := r.pidIn("p", name); pid == 0 || lives(pid) {
			t.Errorf("%s: process %d: alive %v", name, pid, lives(pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if left, _ := p.Result.Metrics["survivors"].(float64); left < 1 {
			t.Errorf("%s: nobody says that it left something behind: %+v", name, p)
		}
	}
}

// TestWorkerFloods: 200 MB of output leave a result and a file of bounded size, and cost bounded memory.
func TestWorkerFloods(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	const flood = 200_000_000
	r.ask("p", taskID(1), r.script("p", "flood.sh", fmt.Sprintf("yes 'the same again' | head -c %d; echo the end", flood)))
	r.ask("p", taskID(2), r.script("p", "line.sh", fmt.Sprintf(`head -c %d /dev/zero | tr '\0' '\377' >&2; exit 3`, flood))) // one line, no text at all
	// The race detector, with which only the short tests run, takes several times as much.
	if _, most := r.drain("p"); !testing.Short() && most > 160<<20 {
		t.Errorf("it took %d MiB of memory", most>>20)
	}
	p := r.ends("p", taskID(1), "completed")
	if got, _ := p.Result.Metrics["output_bytes"].(float64); got != flood+8 {
		t.Errorf("counted %v bytes", got)
	}
	if !strings.HasSuffix(p.Result.Stdout, "the end\n") || !strings.HasPrefix(p.Result.Stdout, "the same again\n") {
		t.Errorf("kept %.50q", p.Result.Stdout)
	}
	r.ends("p", taskID(2), "failed EXECUTION_FAILED")
	err := filepath.WalkDir(r.at("p"), func(file string, e os.DirEntry, err error) error {
		if info, bad := e.Info(); err == nil && bad == nil && info.Size() > 11<<20 || strings.HasSuffix(file, ".result.json") && info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes", file, info.Size())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWorkerStopsWhatIgnoresIt: over its time a task ends with all that it has started, whatever signals that ignores.
func TestWorkerStopsWhatIgnoresIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	script := r.script("p", "deaf.sh", `trap '' TERM INT HUP QUIT
setsid sh -c 'trap "" TERM INT HUP; echo $$ > pid2; while :; do sleep 1; done' &
echo $$ > pid1
while :; do sleep 1; done`)
	r.put(r.task("p", taskID(1), ".request.json"), with(executeOf(taskID(1), script), "timeout_seconds", 1))
	r.ask("p", taskID(2), r.script("p", "next.sh", "true"))
	r.drain("p")
	r.ends("p", taskID(1), "timeout TIMEOUT")
	r.ends("p", taskID(2), "completed")
	for _, name := range []string{"pid1", "pid2"} {
		if pid := r.pidIn("p", name); pid == 0 || lives(pid) {
			t.Errorf("%s: process %d: alive %v", name, pid, lives(pid))
		}
	}
}

// TestWorkerFullDisk: a script fills the project's disk. Its result arrives once there is room.
func TestWorkerFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.mount("tmpfs", r.at("p"), "tmpfs", 0, "size=1m")
	r.boot("p")
	r.ask("p", taskID(1), r.script("p", "fill.sh", "cat /dev/zero > filler 2>/dev/null; echo done with it"))
	next := r.script("p", "next.sh", "true")
	p := r.spawn(r.worker("p"))
	r.slowly("the worker says that there is no room", func() bool { return reads(r.logs.Name(), "write the result of [^\n]*no space left") })
	r.pause(time.Second)
	if !p.alive() || r.read("p", taskID(1)).Status != "" {
		t.Errorf("on a full disk: alive %v, result %+v", p.alive(), r.read("p", taskID(1)))
	}
	if err := os.Remove(r.at("p/filler")); err != nil {
		t.Fatal(err)
	}
	r.slowly("the result, once there is room", func() bool { return r.read("p", taskID(1)).Status == "completed" })
	r.ask("p", taskID(2), next)
	r.slowly("the next task", func() bool { return r.read("p", taskID(2)).Status == "completed" })
	r.slowly("the heartbeat says that all is well", func() bool {
		return reads(r.at("p/tmp/agent_status/codex_status/heartbeat.json"), `"disk_ok": *true`)
	})
}

// TestWorkerConfinesWrites: with landlock a script writes to the project and to its own folder for temporary files only.
func TestWorkerConfinesWrites(t *testing.T) {
	t.Parallel()
	if !confine.Supported() {
		t.Skip("this kernel has no landlock")
	}
	r := newRig(t, workerRules)
	r.boot("p")
	for _, dir := range []string{"home", "tmp", "other"} {
		if err := os.Mkdir(r.at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.write("home/kept", "as it was")
	r.ask("p", taskID(1), r.script("p", "write.sh", `echo fine > inside && echo fine > "$TMPDIR/inside" && cat "$HOME/kept" > read || exit 9
echo x > ../tmp/beside; cp "$TMPDIR/inside" from-temp; echo x > "$HOME/stolen"; echo x > "$HOME/kept"; rm -f "$HOME/kept"; mkdir "$HOME/.ssh"; mv "$HOME/kept" moved; ln "$HOME/kept" linked; echo x > ../other/x
setsid sh -c 'echo x > "$HOME/later"'; true`))
	r.drain("p", "TMPDIR="+r.at("tmp"))
	if p := r.ends("p", taskID(1), "completed"); p.Result.Metrics["confined"] != true {
		t.Errorf("not confined: %+v", p)
	}
	if !reads(r.at("p/read"), "^as it was$") || !reads(r.at("home/kept"), "^as it was$") || !there(r.at("p/from-temp")) {
		t.Error("reading, or writing to where it may, does not work, or a file outside was changed")
	}
	left, _ := filepath.Glob(r.at("home/*"))
	other, _ := filepath.Glob(r.at("other/*"))
	hidden, _ := filepath.Glob(r.at("home/.*"))
	temp, _ := filepath.Glob(r.at("tmp/*"))
	if all := slices.Concat(left, other, hidden, temp); len(all) != 1 || there(r.at("p/moved")) || there(r.at("p/linked")) {
		t.Errorf("it wrote outside: %q", all)
	}
}

// TestWorkerKeepsItsSecrets: of the worker's environment a script sees what the configuration names, and nothing else;
// neither in its own nor, where landlock is, in that of the processes above it. Root may look into any process.
func TestWorkerKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	// Only the two processes of ours are asked, and only for the planted word.
	r.ask("p", taskID(1), r.script("p", "env.sh", `env > seen
worker=$(awk '/^PPid/ {print $2}' /proc/$PPID/status)
for pid in $PPID $worker; do grep -aqs hunter2 /proc/$pid/environ && echo $pid >> above; done; true`))
	r.drain("p", "DEPLOY_TOKEN=hunter2-token", "AWS_SECRET_ACCESS_KEY=hunter2-key", "NOTIFY_SOCKET=/hunter2", "STEWARD_PUSH_TOKEN=hunter2", "LC_ALL=C")
	r.ends("p", taskID(1), "completed")
	seen, _ := os.ReadFile(r.at("p/seen"))
	if strings.Contains(string(seen), "hunter2") || !strings.Contains(string(seen), "LC_ALL=C\n") || !strings.Contains(string(seen), "STEWARD_TASK_ID="+taskID(1)) {
		t.Errorf("the script saw\n%s", seen)
	}
	if leaks := r.lines("p", "above"); confine.Supported() && os.Geteuid() != 0 && len(leaks) > 0 {
		t.Errorf("the script read the secrets in the environment of the processes above it: %q", leaks)
	}
}
