package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience bounds every wait; it is no measure of anything.
const patience = 20 * time.Second

// house is a steward with a home, a state folder and a socket of its own.
type house struct {
	bench    *bench
	dir      string
	projects []string
	env      []string // beside the usual
	wrap     []string // what the daemon is started by; it must exec it
	cmd      *exec.Cmd
	errors   bytes.Buffer // the daemon's log; read it only after stop
	client   *http.Client
}

// newHouse makes the folders and the configuration; further lines of config.toml may follow. Nothing runs yet.
func (b *bench) newHouse(config string) (*house, error) {
	dir, err := os.MkdirTemp(b.dir, "h")
	if err != nil {
		return nil, err
	}
	h := &house{bench: b, dir: dir}
	if err := os.MkdirAll(h.path("home"), 0o700); err != nil {
		return nil, err
	}
	if !strings.Contains(config, "[escalate]") {
		config += "\n[escalate]\nchannels = []\n"
	}
	h.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", h.path("s"))
	}}}
	return h, os.WriteFile(h.path("config.toml"), []byte(config), 0o600)
}

func (h *house) path(rel string) string { return filepath.Join(h.dir, rel) }

// addProject makes a project folder and boots the document's two agents in it, or none.
func (h *house) addProject(name string, agents ...string) (*project, error) {
	p := &project{dir: h.path(name)}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return nil, err
	}
	h.projects = append(h.projects, p.dir)
	for _, agent := range agents {
		if err := h.boot(p, agent); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (h *house) boot(p *project, agent string, args ...string) error {
	return h.tool(append([]string{"boot", agent, "--project", p.dir}, args...)...)
}

// tool runs a short command of steward.
func (h *house) tool(args ...string) error {
	cmd := exec.Command(h.bench.steward, args...)
	cmd.Env = h.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("steward %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func (h *house) environ() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.path("home"), "STEWARD_STATE_DIR=" + h.path("state"),
		"STEWARD_SOCKET=" + h.path("s"), "STEWARD_CONFIG=" + h.path("config.toml")}, h.env...)
}

// start runs the daemon and waits until it says that it is ready.
func (h *house) start() (took time.Duration, err error) {
	line := append([]string{}, h.wrap...)
	line = append(line, h.bench.steward, "run")
	for _, dir := range h.projects {
		line = append(line, "--project", dir)
	}
	h.cmd = exec.Command(line[0], line[1:]...)
	h.cmd.Env, h.cmd.Dir, h.cmd.Stderr = h.environ(), h.dir, &h.errors
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := h.cmd.Start(); err != nil {
		return 0, err
	}
	ready := make(chan error, 1)
	go awaitReady(out, ready)
	select {
	case err = <-ready:
	case <-time.After(60 * time.Second):
		err = errors.New("the daemon did not become ready within 60 s")
	}
	took = time.Since(begin)
	if err != nil {
		h.stop()
		return 0, fmt.Errorf("%w: %s", err, bytes.TrimSpace(h.errors.Bytes()))
	}
	return took, nil
}

func awaitReady(out io.Reader, ready chan<- error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), " ready: ") {
			ready <- nil
			_, _ = io.Copy(io.Discard, out)
			return
		}
	}
	ready <- errors.New("the daemon ended before it was ready")
}

// stop ends the daemon by its own process id.
func (h *house) stop() {
	if h.cmd == nil {
		return
	}
	done := make(chan struct{})
	go func() { _ = h.cmd.Wait(); close(done) }()
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = h.cmd.Process.Kill()
		<-done
	}
	h.cmd = nil
	h.client.CloseIdleConnections()
}

// crash is kill -9.
func (h *house) crash() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
	h.cmd = nil
	h.client.CloseIdleConnections()
}

func (h *house) pid() int { return h.cmd.Process.Pid }

// get asks the socket; into may be nil.
func (h *house) get(path string, into any) error { return h.ask(http.MethodGet, path, into) }

func (h *house) ask(method, path string, into any) error {
	request, err := http.NewRequest(method, "http://steward"+path, nil)
	if err != nil {
		return err
	}
	answer, err := h.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, bytes.TrimSpace(body))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// await polls every half millisecond; what it gives is the time at which the condition was seen.
func await(what string, ok func() bool) (time.Time, error) {
	for end := time.Now().Add(patience); ; time.Sleep(500 * time.Microsecond) {
		if ok() {
			return time.Now(), nil
		}
		if time.Now().After(end) {
			return time.Time{}, fmt.Errorf("%s did not come within %v", what, patience)
		}
	}
}
