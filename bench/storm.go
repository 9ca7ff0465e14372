package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// hoarder opens files without end, once it is told to: 400 a second, with room for 4,096.
const hoarder = `
import resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
print("ready", flush=True)
sys.stdin.readline()
kept, began = [], time.monotonic()
while len(kept) < 4000:
    kept.append(open("/dev/null"))
    time.sleep(max(0, began + len(kept) / 400 - time.monotonic()))
time.sleep(600)
`

// measureStorm has a process of a registered agent open files faster and faster towards its limit, which takes ten
// seconds: how soon is the gate shut, and when is there an incident?
func measureStorm(b *bench) ([]row, error) {
	const rounds, target = 3, "≤ 3 s"
	const figure = "descriptor storm (400 files/s towards a limit of 4,096) → gate shut"
	path, err := realPython()
	if err != nil {
		return []row{absent(figure, target, "not measured: "+err.Error())}, nil
	}
	python, _, _ := strings.Cut(path, string(os.PathListSeparator))
	var shut, told [rounds]time.Duration
	var errs [rounds]error
	var all sync.WaitGroup
	for i := range rounds { // they take little but time
		all.Go(func() {
			shut[i], told[i], errs[i] = b.timeStorm(filepath.Join(python, "python3"), time.Duration(i)*700*time.Millisecond)
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return []row{judged(figure, target, strings.ReplaceAll(err.Error(), "\n", "; "), false)}, nil
	}
	return []row{
		sample(shut[:]).within(figure, target, 3*time.Second),
		sample(told[:]).within("  the same → on the human's list (open files run out)", target, 3*time.Second),
	}, nil
}

func (b *bench) timeStorm(python string, phase time.Duration) (shut, told time.Duration, err error) {
	h, err := b.newHouse("[capacity]\ndimensions = [\"files\", \"agent\"]\n")
	if err != nil {
		return 0, 0, err
	}
	p, err := h.addProject("p", "livhana-layer1.1")
	if err != nil {
		return 0, 0, err
	}
	cmd, begin, err := startHoarder(python)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = end(cmd) }()
	if err := h.boot(p, "codex-cursor", "--pid", fmt.Sprint(cmd.Process.Pid)); err != nil {
		return 0, 0, err
	}
	stop, err := p.beating(0.95)
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	if _, err := h.start(); err != nil {
		return 0, 0, err
	}
	defer h.stop()
	time.Sleep(5*time.Second + phase) // some readings of the calm before, and another moment between two each time
	before := h.incidents()
	began := time.Now()
	if err := begin(); err != nil {
		return 0, 0, err
	}
	return h.watchStorm(p, began, before)
}

// watchStorm asks for the load until both have come, or the files are used up.
func (h *house) watchStorm(p *project, began time.Time, before int) (shut, told time.Duration, err error) {
	for time.Since(began) < 12*time.Second && (shut == 0 || told == 0) {
		if shut == 0 && h.filesFull() {
			shut = time.Since(began)
		}
		if told == 0 && h.incidents() > before && h.runsOut() {
			told = time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if shut == 0 || told == 0 {
		return 0, 0, fmt.Errorf("within 12 s: gate shut after %s, incident after %s", orNever(shut), orNever(told))
	}
	return shut, told, nil
}

// runsOut says whether an incident speaks of open files.
func (h *house) runsOut() bool {
	data, err := h.fetch("/v1/incidents")
	return err == nil && bytes.Contains(data, []byte("files_run_out"))
}

func orNever(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return show(d)
}

// filesFull says whether the daemon's reading of the files is over the threshold.
func (h *house) filesFull() bool {
	var doc struct {
		Threshold float64
		Load      struct{ Files *float64 }
	}
	return h.get("/v1/capacity", &doc) == nil && doc.Load.Files != nil && *doc.Load.Files >= doc.Threshold
}

func startHoarder(python string) (cmd *exec.Cmd, begin func() error, err error) {
	cmd = exec.Command(python, "-c", hoarder)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = end(cmd)
		return nil, nil, fmt.Errorf("the hoarder: %w", err)
	}
	return cmd, func() error { _, err := io.WriteString(in, "\n"); return err }, nil
}
