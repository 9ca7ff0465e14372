//go:build linux

package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/platform/confine"
)

// TestWorkerArgumentsArriveAsTheyAre: nothing that a shell would obey is obeyed.
func TestWorkerArgumentsArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	r := rig.New(t, workerRules)
	r.Boot("p")
	args := []string{"$(touch owned)", "`touch owned`", "; touch owned", "| touch owned", "&& touch owned", "> owned", "a'b", `a"b`, `a\b`, "two\nlines", "a\tb",
		"-rf", "--", "--help", "-", "", "*", "~", "$HOME", "${IFS}x", "!!", "#x", "%s%n", "{task}", "{project}", "ä€\U0001f600", "\x01\x1b[31m", strings.Repeat("x", 100_000)}
	script := writeScript(r, "p", "show.sh", `printf '%s\0' "$@" > shown`)
	odd := writeScript(r, "p", "a b; touch owned $(touch owned)", `touch odd`)
	askTask(r, "p", rig.TaskID(1), script, args...)
	askTask(r, "p", rig.TaskID(2), odd)
	r.Put(r.Task("p", rig.TaskID(3), ".request.json"), with(executeOf(rig.TaskID(3), script), "args", []any{"fine", "NUL \x00 within"}))
	r.Put(r.Task("p", rig.TaskID(4), ".request.json"), with(executeOf(rig.TaskID(4), script), "args", "touch owned"))
	drain(r, "p")
	shown, _ := os.ReadFile(r.At("p/shown"))
	if got := strings.Split(strings.TrimSuffix(string(shown), "\x00"), "\x00"); !slices.Equal(got, args) {
		t.Errorf("got %d arguments %.300q\nwant %d %.300q", len(got), got, len(args), args)
	}
	endsAs(r, "p", rig.TaskID(1), "completed")
	endsAs(r, "p", rig.TaskID(2), "completed")
	if !rig.There(r.At("p/odd")) {
		t.Error("a script with an odd name was not run")
	}
	endsAs(r, "p", rig.TaskID(3), "failed INVALID_REQUEST")
	endsAs(r, "p", rig.TaskID(4), "failed INVALID_REQUEST")
	for _, name := range []string{"owned", "p/owned"} {
		if rig.There(r.At(name)) {
			t.Errorf("something obeyed: %s is there", name)
		}
	}
}

// TestWorkerKeepsToItsProject: no script, folder or file outside the project is used, by whatever path.
func TestWorkerKeepsToItsProject(t *testing.T) {
	t.Parallel()
	r := rig.New(t, workerRules)
	r.Boot("p")
	ran := r.At("ran")
	outside := writeScript(r, ".", "outside/evil.sh", "touch "+ran)
	inside := writeScript(r, "p", "fine.sh", "true")
	writeScript(r, "p-beside", "evil.sh", "touch "+ran) // shares the beginning of the project's name
	for link, to := range map[string]string{"p/link.sh": outside, "p/folder": r.At("outside"), "p/again": "folder", "p/nowhere": r.At("missing.sh")} {
		if err := os.Symlink(to, r.At(link)); err != nil {
			t.Fatal(err)
		}
	}
	asked := map[string]rig.Doc{}
	add := func(d rig.Doc) { asked[d["task_id"].(string)] = d }
	for n, path := range []string{"../outside/evil.sh", r.At("p/../outside/evil.sh"), outside, "link.sh", r.At("p/link.sh"), "folder/evil.sh", "again/evil.sh", "nowhere",
		"./fine.sh/../../outside/evil.sh", r.At("p-beside/evil.sh"), "/bin/true", "/proc/self/root" + outside, "/proc/self/cwd/../outside/evil.sh", "~/evil.sh\x00", "folder/../../outside/evil.sh"} {
		add(executeOf(rig.TaskID(n+1), path))
	}
	add(with(executeOf(rig.TaskID(101), inside), "working_directory", ".."))
	add(with(executeOf(rig.TaskID(102), inside), "working_directory", "folder"))
	modify := executeOf(rig.TaskID(103), inside)
	modify["payload"].(rig.Doc)["files_to_modify"] = []string{"/etc/passwd"}
	add(modify)
	for id, d := range asked {
		r.Put(r.Task("p", id, ".request.json"), d)
	}
	askTask(r, "p", rig.TaskID(200), inside)
	drain(r, "p")
	if rig.There(ran) {
		t.Error("a script outside the project was executed")
	}
	for id, d := range asked {
		p := endsAs(r, "p", id, "failed PERMISSION_DENIED")
		if _, tried := p.Result.Metrics["exit_code"]; tried {
			t.Errorf("it was started: %v: %+v", d["payload"], p)
		}
	}
	endsAs(r, "p", rig.TaskID(200), "completed")
}

// TestWorkerLeavesNothingBehind: what forks away, by whatever way, ends with its task.
func TestWorkerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r := rig.New(t, workerRules)
	r.Boot("p")
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
		askTask(r, "p", rig.TaskID(n+1), writeScript(r, "p", fmt.Sprintf("away%d.sh", n+1), body), name)
	}
	drain(r, "p")
	for n := range 5 {
		name, want := fmt.Sprintf("pid%d", n+1), "completed"
		if n == 4 {
			want = "failed EXECUTION_FAILED"
		}
		p := endsAs(r, "p", rig.TaskID(n+1), want)
		if pid := pidIn(r, "p", name); pid == 0 || lives(pid) {
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
	r := rig.New(t, workerRules)
	r.Boot("p")
	const flood = 200_000_000
	askTask(r, "p", rig.TaskID(1), writeScript(r, "p", "flood.sh", fmt.Sprintf("yes 'the same again' | head -c %d; echo the end", flood)))
	askTask(r, "p", rig.TaskID(2), writeScript(r, "p", "line.sh", fmt.Sprintf(`head -c %d /dev/zero | tr '\0' '\377' >&2; exit 3`, flood))) // one line, no text at all
	// The race detector, with which only the short tests run, takes several times as much.
	if _, most := drain(r, "p"); !testing.Short() && most > 160<<20 {
		t.Errorf("it took %d MiB of memory", most>>20)
	}
	p := endsAs(r, "p", rig.TaskID(1), "completed")
	if got, _ := p.Result.Metrics["output_bytes"].(float64); got != flood+8 {
		t.Errorf("counted %v bytes", got)
	}
	if !strings.HasSuffix(p.Result.Stdout, "the end\n") || !strings.HasPrefix(p.Result.Stdout, "the same again\n") {
		t.Errorf("kept %.50q", p.Result.Stdout)
	}
	endsAs(r, "p", rig.TaskID(2), "failed EXECUTION_FAILED")
	err := filepath.WalkDir(r.At("p"), func(file string, e os.DirEntry, err error) error {
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
	r := rig.New(t, workerRules)
	r.Boot("p")
	script := writeScript(r, "p", "deaf.sh", `trap '' TERM INT HUP QUIT
setsid sh -c 'trap "" TERM INT HUP; echo $$ > pid2; while :; do sleep 1; done' &
echo $$ > pid1
while :; do sleep 1; done`)
	r.Put(r.Task("p", rig.TaskID(1), ".request.json"), with(executeOf(rig.TaskID(1), script), "timeout_seconds", 1))
	askTask(r, "p", rig.TaskID(2), writeScript(r, "p", "next.sh", "true"))
	drain(r, "p")
	endsAs(r, "p", rig.TaskID(1), "timeout TIMEOUT")
	endsAs(r, "p", rig.TaskID(2), "completed")
	for _, name := range []string{"pid1", "pid2"} {
		if pid := pidIn(r, "p", name); pid == 0 || lives(pid) {
			t.Errorf("%s: process %d: alive %v", name, pid, lives(pid))
		}
	}
}

// TestWorkerFullDisk: a script fills the project's disk. Its result arrives once there is room.
func TestWorkerFullDisk(t *testing.T) {
	t.Parallel()
	r := rig.New(t, workerRules)
	mountDisk(r, "tmpfs", r.At("p"), "tmpfs", 0, "size=1m")
	r.Boot("p")
	askTask(r, "p", rig.TaskID(1), writeScript(r, "p", "fill.sh", "cat /dev/zero > filler 2>/dev/null; echo done with it"))
	next := writeScript(r, "p", "next.sh", "true")
	p := r.Spawn(workerCommand(r, "p"))
	slowly(r, "the worker says that there is no room", func() bool { return rig.Reads(r.Logs.Name(), "write the result of [^\n]*no space left") })
	r.Pause(time.Second)
	if !p.Alive() || readResult(r, "p", rig.TaskID(1)).Status != "" {
		t.Errorf("on a full disk: alive %v, result %+v", p.Alive(), readResult(r, "p", rig.TaskID(1)))
	}
	if err := os.Remove(r.At("p/filler")); err != nil {
		t.Fatal(err)
	}
	slowly(r, "the result, once there is room", func() bool { return readResult(r, "p", rig.TaskID(1)).Status == "completed" })
	askTask(r, "p", rig.TaskID(2), next)
	slowly(r, "the next task", func() bool { return readResult(r, "p", rig.TaskID(2)).Status == "completed" })
	slowly(r, "the heartbeat says that all is well", func() bool {
		return rig.Reads(r.At("p/tmp/agent_status/codex_status/heartbeat.json"), `"disk_ok": *true`)
	})
}

// TestWorkerConfinesWrites: with landlock a script writes to the project and to its own folder for temporary files only.
func TestWorkerConfinesWrites(t *testing.T) {
	t.Parallel()
	if !confine.Supported() {
		t.Skip("this kernel has no landlock")
	}
	r := rig.New(t, workerRules)
	r.Boot("p")
	for _, dir := range []string{"home", "tmp", "other"} {
		if err := os.Mkdir(r.At(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.Write("home/kept", "as it was")
	askTask(r, "p", rig.TaskID(1), writeScript(r, "p", "write.sh", `echo fine > inside && echo fine > "$TMPDIR/inside" && cat "$HOME/kept" > read || exit 9
echo x > ../tmp/beside; cp "$TMPDIR/inside" from-temp; echo x > "$HOME/stolen"; echo x > "$HOME/kept"; rm -f "$HOME/kept"; mkdir "$HOME/.ssh"; mv "$HOME/kept" moved; ln "$HOME/kept" linked; echo x > ../other/x
setsid sh -c 'echo x > "$HOME/later"'; true`))
	drain(r, "p", "TMPDIR="+r.At("tmp"))
	if p := endsAs(r, "p", rig.TaskID(1), "completed"); p.Result.Metrics["confined"] != true {
		t.Errorf("not confined: %+v", p)
	}
	if !rig.Reads(r.At("p/read"), "^as it was$") || !rig.Reads(r.At("home/kept"), "^as it was$") || !rig.There(r.At("p/from-temp")) {
		t.Error("reading, or writing to where it may, does not work, or a file outside was changed")
	}
	left, _ := filepath.Glob(r.At("home/*"))
	other, _ := filepath.Glob(r.At("other/*"))
	hidden, _ := filepath.Glob(r.At("home/.*"))
	temp, _ := filepath.Glob(r.At("tmp/*"))
	if all := slices.Concat(left, other, hidden, temp); len(all) != 1 || rig.There(r.At("p/moved")) || rig.There(r.At("p/linked")) {
		t.Errorf("it wrote outside: %q", all)
	}
}

// TestWorkerKeepsItsSecrets: of the worker's environment a script sees what the configuration names, and nothing else;
// neither in its own nor, where landlock is, in that of the processes above it. Root may look into any process.
func TestWorkerKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	r := rig.New(t, workerRules)
	r.Boot("p")
	// Only the two processes of ours are asked, and only for the planted word.
	askTask(r, "p", rig.TaskID(1), writeScript(r, "p", "env.sh", `env > seen
worker=$(awk '/^PPid/ {print $2}' /proc/$PPID/status)
for pid in $PPID $worker; do grep -aqs hunter2 /proc/$pid/environ && echo $pid >> above; done; true`))
	drain(r, "p", "DEPLOY_TOKEN=hunter2-token", "AWS_SECRET_ACCESS_KEY=hunter2-key", "NOTIFY_SOCKET=/hunter2", "STEWARD_PUSH_TOKEN=hunter2", "LC_ALL=C")
	endsAs(r, "p", rig.TaskID(1), "completed")
	seen, _ := os.ReadFile(r.At("p/seen"))
	if strings.Contains(string(seen), "hunter2") || !strings.Contains(string(seen), "LC_ALL=C\n") || !strings.Contains(string(seen), "STEWARD_TASK_ID="+rig.TaskID(1)) {
		t.Errorf("the script saw\n%s", seen)
	}
	if leaks := linesOf(r, "p", "above"); confine.Supported() && os.Geteuid() != 0 && len(leaks) > 0 {
		t.Errorf("the script read the secrets in the environment of the processes above it: %q", leaks)
	}
}
