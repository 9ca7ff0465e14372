package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// measureKeep kills kept agents, one after another, and waits until the ones that replace them are started, and until they
// are on record; then the same under supervisord, where a fork is enough. Each agent dies once, because the second restart
// in a row waits on purpose.
func measureKeep(b *bench) ([]row, error) {
	const n, few = 60, 20 // supervisord takes a second for each
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	p, err := h.addProject("p", "livhana-layer1.1")
	if err != nil {
		return nil, err
	}
	config := "[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[keep]\nplace = \"session\"\nstop = \"1s\"\n"
	programs := make([]string, n) // each agent has a program of its own, by whose start its life is told
	for i := range programs {
		programs[i] = h.path(fmt.Sprintf("agent-%02d", i))
		if err := copyProgram("/bin/sleep", programs[i]); err != nil {
			return nil, err
		}
		config += fmt.Sprintf("[[agent]]\nname = \"kept-%02d\"\nproject = %q\ncommand = [%q, \"600\"]\n", i, p.dir, programs[i])
	}
	if err := os.WriteFile(h.path("config.toml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if _, err := h.start(); err != nil {
		return nil, err
	}
	started, recorded, err := killKept(h, programs)
	end := endChildren(h.pid())
	h.stop()
	end()
	if err != nil {
		return nil, err
	}
	rows := []row{judged("kill of a kept agent → its replacement is started (session)", "p50 ≤ 2 ms", started.String(),
		started.p50() <= 2*time.Millisecond),
		beside("  the same → and is on record, fsynced", recorded.String())}
	theirs, err := killUnderSupervisord(b, few)
	if err != nil {
		return append(rows, absent("  the same under supervisord", "", err.Error())), nil
	}
	return append(rows, beside("  the same under supervisord", theirs.String())), nil
}

// killKept kills the agents that run those programs: half of them to see when the replacement is started, and half to see
// when it is on record, because a client that asks for the record repeatedly slows down the start.
func killKept(h *house, programs []string) (started, recorded sample, err error) {
	var pids map[string]int
	if _, err := await("all agents", func() bool { pids = running(h.pid()); return len(pids) >= len(programs) }); err != nil {
		return nil, nil, err
	}
	time.Sleep(2 * time.Second) // for what follows a start: registry, heartbeats
	watch, err := watchOpened(programs)
	if err != nil {
		return nil, nil, err
	}
	for i, program := range programs {
		pid, half := pids[program], i%2 == 0
		done := newRecord(h.path("state/agents"), pid)
		watch.drain()
		begin := time.Now()
		if err := kill(pid); err != nil {
			return nil, nil, err
		}
		if half {
			if err := watch.next(i); err != nil {
				return nil, nil, err
			}
			started = append(started, time.Since(begin))
		} else {
			if err := until(done); err != nil {
				return nil, nil, fmt.Errorf("process %d was not replaced: %w", pid, err)
			}
			recorded = append(recorded, time.Since(begin))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return started, recorded, nil
}

// running are the processes of the children of a keeper, by their program.
func running(keeper int) map[string]int {
	found := map[string]int{}
	for pid := range children(keeper) {
		if program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil {
			found[program] = pid
		}
	}
	return found
}

// until asks often, and gives up in the end.
func until(done func() bool) error {
	for begin := time.Now(); !done(); time.Sleep(50 * time.Microsecond) {
		if time.Since(begin) > patience {
			return errors.New("nothing came of it")
		}
	}
	return nil
}

func copyProgram(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o700)
}

// newRecord tells when the record of the agent with that process is another file: the replacement runs and is written down.
func newRecord(dir string, pid int) func() bool {
	records, _ := filepath.Glob(dir + "/*.json")
	for _, file := range records {
		data, _ := os.ReadFile(file)
		if before, err := os.Stat(file); err == nil && bytes.Contains(data, fmt.Appendf(nil, "\"pid\": %d,", pid)) {
			return func() bool {
				now, err := os.Stat(file)
				return err == nil && !os.SameFile(before, now)
			}
		}
	}
	return func() bool { return false }
}

// killEach kills the children of a keeper one by one; replaced makes the question whether a process has been replaced.
func killEach(keeper, n int, replaced func(pid int) func() bool) (sample, error) {
	var all map[int]bool
	if _, err := await("all agents", func() bool { all = children(keeper); return len(all) >= n }); err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Second) // for what follows a start: registry, heartbeats
	var took sample
	for pid := range all {
		done := replaced(pid)
		begin := time.Now()
		if err := kill(pid); err != nil {
			return nil, err
		}
		if err := until(done); err != nil {
			return nil, fmt.Errorf("process %d was not replaced: %w", pid, err)
		}
		took = append(took, time.Since(begin))
		time.Sleep(100 * time.Millisecond)
	}
	return took, nil
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

func fresh(before, now map[int]bool) bool {
	for pid := range now {
		if !before[pid] {
			return true
		}
	}
	return false
}

// children are those of all threads of a process: the kernel lists them with the thread that forked them.
func children(pid int) map[int]bool {
	found := map[int]bool{}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, word := range bytes.Fields(data) {
			if n, err := strconv.Atoi(string(word)); err == nil {
				found[n] = true
			}
		}
	}
	return found
}

// endChildren remembers the agents of a keeper that leaves them alone, to end them when it is gone.
func endChildren(keeper int) func() {
	left := children(keeper)
	return func() {
		for pid := range left {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.HasPrefix(string(name), "agent-") {
				_ = kill(pid)
			}
		}
	}
}

// killUnderSupervisord measures the same with supervisord.
func killUnderSupervisord(b *bench, n int) (sample, error) {
	cmd, err := b.startSupervisord(n)
	if err != nil {
		return nil, fmt.Errorf("not measured: %w", err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it ends its children
		_ = cmd.Wait()
	}()
	return killEach(cmd.Process.Pid, n, func(int) func() bool {
		before := children(cmd.Process.Pid)
		return func() bool { return fresh(before, children(cmd.Process.Pid)) }
	})
}

// startSupervisord has it keep n sleepers (Debian: supervisor), in a folder of its own.
func (b *bench) startSupervisord(n int) (*exec.Cmd, error) {
	program, err := exec.LookPath("supervisord")
	if err != nil {
		return nil, errors.New("supervisord is missing (apt install supervisor)")
	}
	dir, err := os.MkdirTemp(b.dir, "sv")
	if err != nil {
		return nil, err
	}
	var conf strings.Builder
	fmt.Fprintf(&conf, "[supervisord]\nnodaemon=true\nlogfile=%s/log\npidfile=%s/pid\nchildlogdir=%s\n", dir, dir, dir)
	for i := range n {
		fmt.Fprintf(&conf, "[program:kept-%02d]\ncommand=/bin/sleep 600\nstartsecs=0\nautorestart=true\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf.String()), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-c", filepath.Join(dir, "conf"))
	return cmd, cmd.Start()
}
