package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// machine is a Linux in namespaces with a systemd of its own, as the tests of packaging use it (packaging/ci/machine.sh).
// It is gone when its standard input is closed.
type machine struct {
	pid  string // its first process
	cmd  *exec.Cmd
	hold io.Closer
}

func (b *bench) bootMachine() (*machine, error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("only root can boot a machine in namespaces")
	}
	tree := "/sys/fs/cgroup"
	if exists(tree + "/unified") {
		tree += "/unified"
	}
	dir, err := os.MkdirTemp(b.dir, "machine")
	if err != nil {
		return nil, err
	}
	m := &machine{cmd: exec.Command("sh", filepath.Join(b.repo, "packaging/ci/machine.sh"), dir, filepath.Join(tree, "steward-"+filepath.Base(b.dir)+"-"+filepath.Base(dir)))}
	var said bytes.Buffer
	m.cmd.Stderr = &said
	if m.hold, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, ok := strings.CutPrefix(strings.TrimSpace(line), "pid ")
	if !ok {
		m.off()
		return nil, fmt.Errorf("no machine can be booted: %s", lastLine(said.String()))
	}
	m.pid = pid
	_, err = await("the machine", func() bool {
		name, _ := os.ReadFile(m.path("/etc/hostname"))
		return string(name) == "machine\n" && m.run("root", "systemctl", "is-system-running") == nil
	})
	if err != nil {
		m.off()
		return nil, err
	}
	return m, nil
}

// off switches the machine off.
func (m *machine) off() {
	m.hold.Close()
	stuck := time.AfterFunc(patience, func() { _ = m.cmd.Process.Kill() })
	_ = m.cmd.Wait()
	stuck.Stop()
}

// path is where a file of the machine lies for us.
func (m *machine) path(file string) string { return filepath.Join("/proc", m.pid, "root", file) }

// run runs a command inside, as root or as jesse, its ordinary user.
func (m *machine) run(user string, args ...string) error {
	line := []string{"-t", m.pid, "-m", "-p", "-u", "-i", "-n", "-C", "--", "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C.UTF-8"}
	if user == "root" {
		line = append(line, "HOME=/root")
	} else {
		line = append(line, "HOME=/home/jesse", "XDG_RUNTIME_DIR=/run/user/1000", "setpriv", "--reuid", "1000", "--regid", "1000", "--init-groups", "--")
	}
	if out, err := exec.Command("nsenter", append(line, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, lastLine(string(out)))
	}
	return nil
}

// put writes a file of the machine's, for jesse.
func (m *machine) put(file string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(m.path(file), data, mode); err != nil {
		return err
	}
	return os.Chown(m.path(file), 1000, 1000)
}

const machineState = "/home/jesse/.local/state/steward/agents"

// measureTransient kills agents that are transient services of a user's systemd, one after another, and waits until the
// next life of each is on record.
func measureTransient(b *bench) ([]row, error) {
	const n, figure, target = 30, "  the same, as a transient unit of a user's systemd (files on tmpfs)", "p50 ≤ 25 ms, p99 ≤ 40 ms"
	m, err := b.bootMachine()
	if err != nil {
		return []row{absent(figure, target, "not measured: "+err.Error())}, nil
	}
	defer m.off()
	if err := m.install(b.steward, n); err != nil {
		return []row{absent(figure, target, "not measured: "+err.Error())}, nil
	}
	var took sample
	for i := range n {
		one, err := m.timeReplacement(fmt.Sprintf("%s/shop.kept-%02d.json", machineState, i))
		if err != nil {
			return nil, err
		}
		took = append(took, one)
		time.Sleep(100 * time.Millisecond)
	}
	return []row{judged(figure, target, took.String(), took.p50() <= 25*time.Millisecond && took.p99() <= 40*time.Millisecond)}, nil
}

// install makes steward a service of jesse's, with n agents, and waits until all of them run.
func (m *machine) install(program string, n int) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	config := "[[project]]\npath = \"/home/jesse/shop\"\n[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n"
	for i := range n {
		config += fmt.Sprintf("[[agent]]\nname = \"kept-%02d\"\nproject = \"/home/jesse/shop\"\ncommand = [\"/bin/sleep\", \"600\"]\n", i)
	}
	steps := []func() error{
		func() error { return m.put("/usr/local/bin/steward", data, 0o755) },
		func() error { return m.run("jesse", "mkdir", "-p", "/home/jesse/shop", "/home/jesse/.config/steward") },
		func() error { return m.put("/home/jesse/.config/steward/config.toml", []byte(config), 0o600) },
		func() error { return m.run("root", "loginctl", "enable-linger", "jesse") },
		func() error {
			_, err := await("jesse's systemd", func() bool { return m.run("jesse", "systemctl", "--user", "is-system-running") == nil })
			return err
		},
		func() error {
			return m.run("jesse", "steward", "boot", "livhana-layer1.1", "--project", "/home/jesse/shop")
		},
		func() error { return m.run("jesse", "steward", "service", "install") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	_, err = await("all agents", func() bool {
		for i := range n {
			if m.mainOf(fmt.Sprintf("%s/shop.kept-%02d.json", machineState, i)) == 0 {
				return false
			}
		}
		return true
	})
	time.Sleep(3 * time.Second) // for what follows a start: registry, heartbeats
	return err
}

// mainOf is the process of an agent, as its record has it: a number of the machine's own; 0: none.
func (m *machine) mainOf(record string) int {
	data, _ := os.ReadFile(m.path(record))
	var doc struct{ Process struct{ PID int } }
	_ = json.Unmarshal(data, &doc)
	return doc.Process.PID
}

func (m *machine) timeReplacement(record string) (time.Duration, error) {
	old := m.mainOf(record)
	pid, err := m.outside(old)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := kill(pid); err != nil {
		return 0, err
	}
	for now := old; now == old || now == 0; now = m.mainOf(record) {
		if time.Since(began) > patience {
			return 0, fmt.Errorf("the agent of %s was not replaced", filepath.Base(record))
		}
		time.Sleep(200 * time.Microsecond)
	}
	return time.Since(began), nil
}

// outside is the number by which a process of the machine goes here.
func (m *machine) outside(inner int) (int, error) {
	space, err := os.Readlink("/proc/" + m.pid + "/ns/pid")
	if err != nil {
		return 0, err
	}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		ids := strings.Fields(field(file, "NSpid"))
		if len(ids) != 2 || ids[1] != strconv.Itoa(inner) {
			continue
		}
		if own, _ := os.Readlink(filepath.Dir(file) + "/ns/pid"); own == space {
			return strconv.Atoi(ids[0])
		}
	}
	return 0, fmt.Errorf("the machine's process %d is not there", inner)
}
