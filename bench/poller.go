package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed scripts/poller.py
var pollerScript string

// poller is one of the document's polling loops, as a process.
type poller struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu   sync.Mutex
	told map[string]time.Time // "taken ID", "done ID", "seen ID"
}

// poller starts a loop for a project: side is executor or orchestrator.
func (h *house) poller(side string, p *project, args ...string) (*poller, error) {
	path, err := realPython()
	if err != nil {
		return nil, err
	}
	file := h.path("poller.py")
	if err := os.WriteFile(file, []byte(pollerScript), 0o755); err != nil {
		return nil, err
	}
	python, _, _ := strings.Cut(path, string(os.PathListSeparator))
	l := &poller{cmd: exec.Command(python+"/python3", append([]string{file, side, p.dir}, args...)...), ended: make(chan struct{}), told: map[string]time.Time{}}
	l.cmd.Env = append(h.environ(), "PATH="+path)
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the polling loop: %w", err)
	}
	go func() {
		defer close(l.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			l.note(lines.Text())
		}
	}()
	return l, nil
}

func (l *poller) note(line string) {
	f := strings.Fields(line)
	if len(f) != 3 {
		return
	}
	at, _ := strconv.ParseInt(f[2], 10, 64)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[f[0]+" "+f[1]] = time.Unix(0, at)
}

// when is the time at which it told something; false while it has not.
func (l *poller) when(what, id string) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.told[what+" "+id]
	return at, ok
}

func (l *poller) pid() int { return l.cmd.Process.Pid }

func (l *poller) stop() {
	_ = l.cmd.Process.Kill()
	<-l.ended // before Wait, which closes the pipe
	_ = l.cmd.Wait()
}
