package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// rival is something whose cost at rest is watched beside ours, in the same minute.
type rival struct {
	name   string
	pids   []int // all that it consists of, without what it keeps
	absent string
	stops  []func()
	first  []usage
}

func (r *rival) close() error {
	for _, stop := range r.stops {
		stop()
	}
	r.stops = nil
	return nil
}

// begin takes the first reading.
func (r *rival) begin() error {
	for _, pid := range r.pids {
		u, err := usageOf(pid)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		r.first = append(r.first, u)
	}
	return nil
}

// row takes the last reading.
func (r *rival) row() row {
	figure := "  " + r.name
	if r.absent != "" {
		return absent(figure, "for comparison", "not measured: "+r.absent)
	}
	var cpu, wakeups float64
	bytes := 0
	for i, pid := range r.pids {
		last, err := usageOf(pid)
		if err != nil {
			return absent(figure, "for comparison", "not measured: it ended: "+err.Error())
		}
		s := between(r.first[i], last)
		cpu, wakeups, bytes = cpu+s.cpu, wakeups+s.wakeups, bytes+proportional(pid)
	}
	return beside(figure, fmt.Sprintf("CPU %s, memory %s, wake-ups %.1f/s", percent(cpu), megabytes(bytes), wakeups))
}

// proportional is a process's memory, in bytes; pages that several share are divided among them.
func proportional(pid int) int {
	kib, _, _ := strings.Cut(field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss"), " ")
	return number(kib) << 10
}

const keptChildren = 100

// keepers are three programs that keep a hundred children each: steward, supervisord, process-compose.
func (b *bench) keepers() (rivals []*rival, ours *kept, err error) {
	if ours, err = b.newKept(keptChildren); err != nil {
		return nil, nil, err
	}
	me := &rival{name: fmt.Sprintf("steward, keeping %d children", keptChildren), pids: []int{ours.pid()}}
	return []*rival{me, b.supervisord(), b.processCompose()}, ours, nil
}

// supervisord keeps children in a folder of its own (Debian: supervisor).
func (b *bench) supervisord() *rival {
	r := &rival{name: fmt.Sprintf("supervisord, keeping %d children", keptChildren)}
	cmd, err := b.startSupervisord(keptChildren)
	if err != nil {
		r.absent = err.Error()
		return r
	}
	return r.running(cmd)
}

// running waits until all children are there.
func (r *rival) running(cmd *exec.Cmd) *rival {
	r.pids = []int{cmd.Process.Pid}
	r.stops = []func(){func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it ends its children
		_ = cmd.Wait()
	}}
	if _, err := await("all children", func() bool { return len(children(cmd.Process.Pid)) >= keptChildren }); err != nil {
		r.absent = err.Error()
	}
	return r
}

// processComposeVersion is what stands beside steward. `go install` cannot build it in every place: it asks the proxy for
// the list of all versions. Its own folder in the module cache can be built without.
const processComposeVersion = "v1.64.1"

// processCompose keeps children by github.com/f1bonacc1/process-compose, as the module proxy has it.
func (b *bench) processCompose() *rival {
	r := &rival{name: fmt.Sprintf("process-compose %s, keeping %d children", processComposeVersion, keptChildren)}
	program, err := b.buildProcessCompose()
	if err != nil {
		r.absent = err.Error()
		return r
	}
	dir, err := os.MkdirTemp(b.dir, "pc")
	if err != nil {
		r.absent = err.Error()
		return r
	}
	text := "version: \"0.5\"\nis_strict: true\nprocesses:\n"
	for i := range keptChildren {
		text += fmt.Sprintf("  kept-%02d:\n    command: \"exec /bin/sleep 600\"\n    availability:\n      restart: always\n", i)
	}
	file := filepath.Join(dir, "process-compose.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.absent = err.Error()
		return r
	}
	cmd := exec.Command(program, "-f", file, "-t=false", "--no-server", "--disable-dotenv", "-L", filepath.Join(dir, "log"))
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if err := cmd.Start(); err != nil {
		r.absent = err.Error()
		return r
	}
	return r.running(cmd)
}

// buildProcessCompose builds it once; the next run finds it in the cache.
func (b *bench) buildProcessCompose() (string, error) {
	if program, err := exec.LookPath("process-compose"); err == nil {
		return program, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "steward-bench", "process-compose-"+processComposeVersion)
	if exists(program) {
		return program, nil
	}
	const module = "github.com/f1bonacc1/process-compose@" + processComposeVersion
	fmt.Fprintln(b.log, "bench: building "+module+", which is done once")
	out, err := b.within(2*time.Minute, b.dir, "go", "mod", "download", "-json", module)
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	var got struct{ Dir string }
	if err := json.Unmarshal([]byte(out[max(strings.Index(out, "{"), 0):]), &got); err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	if out, err := b.within(4*time.Minute, got.Dir, "go", "build", "-o", program, "./src"); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", module, err, lastLine(out))
	}
	return program, nil
}
