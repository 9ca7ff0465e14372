package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed scripts/burn.py
var burnScript string

const (
	herdTasks  = 50
	herdWork   = 1500 * time.Millisecond // of processor time, each
	herdGap    = 20 * time.Millisecond   // between two requests
	herdPlaces = 16                      // how many tasks the worker may run at once, if it is let
)

// herdSpan bounds a form of the herd: three times the ideal, and what a gate may ask to wait.
const herdSpan = 3*herdTasks*herdWork/2 + time.Minute

// herd is a burst of tasks that burn one core each, in a project of its own.
type herd struct {
	*house
	p      *project
	script string
	log    string // begins and ends, as the tasks tell them
}

// rush is what became of a burst.
type rush struct {
	most     int // at the same time
	done     int
	makespan time.Duration // from the first request to the last end
}

// ideal is the time in which all cores would have done the work, were there nothing else to do.
func (r rush) ideal() time.Duration {
	return time.Duration(r.done) * herdWork / time.Duration(runtime.NumCPU())
}

// measureHerd hands out the same burst three times: to a worker of ours with more places than the machine has cores, to a
// client that polls and starts whatever it sees, and to a gate that knows a threshold and nothing else.
func measureHerd(b *bench) ([]row, error) {
	figure := fmt.Sprintf("burst of %d one-core tasks of %s on %d cores", herdTasks, show(herdWork), runtime.NumCPU())
	path, err := realPython()
	if err != nil {
		return []row{absent(figure, "≤ 2 × cores at once", "not measured: "+err.Error())}, nil
	}
	forms := []struct {
		name  string
		ours  bool
		crowd func(*herd) (stop func(), err error)
	}{
		{fmt.Sprintf("steward worker --jobs %d", herdPlaces), true, (*herd).byWorker},
		{"a client that starts all it sees, every 0.25 s", true, (*herd).byPoller},
		{"without steward: below 0.8 it starts, else it asks again after 60 s", false, nil},
	}
	var rows []row
	for i, form := range forms {
		h, err := b.newHerd(path)
		if err != nil {
			return rows, err
		}
		var r rush
		if form.ours {
			r, err = h.underSteward(form.crowd)
		} else {
			r, err = h.byThreshold()
		}
		name := "  the same, " + form.name
		if i == 0 {
			name = figure + ", " + form.name
		}
		if err != nil {
			return append(rows, absent(name, "≤ 2 × cores at once", "not measured: "+err.Error())), nil
		}
		rows = append(rows, r.rows(name, form.ours)...)
	}
	return rows, nil
}

func (r rush) rows(name string, judge bool) []row {
	cores := runtime.NumCPU()
	most := fmt.Sprintf("%d at once", r.most)
	if r.done < herdTasks {
		most += fmt.Sprintf("; only %d of %d done within %s", r.done, herdTasks, show(herdSpan))
	}
	ratio := float64(r.makespan) / float64(max(r.ideal(), 1))
	took := fmt.Sprintf("%.2f × (%s, ideally %s)", ratio, show(r.makespan), show(r.ideal()))
	if !judge {
		return []row{told(name, most), told("    its makespan", took)}
	}
	all := r.done == herdTasks
	return []row{
		judged(name, fmt.Sprintf("never > %d at once", 2*cores), most, all && r.most <= 2*cores),
		judged("    its makespan", "≤ 1.2 × ideal", took, all && ratio <= 1.2),
	}
}

func (b *bench) newHerd(path string) (*herd, error) {
	// All that stands in the way of work by default, but for the disk, which is another machine's each time.
	h, err := b.newHouse("[capacity]\ndimensions = [\"cpu\", \"memory\", \"files\", \"agent\"]\n")
	if err != nil {
		return nil, err
	}
	h.env = append(h.env, "PATH="+path) // the last one counts
	x := &herd{house: h}
	if x.p, err = h.addProject("p", "livhana-layer1.1", "codex-cursor"); err != nil {
		return nil, err
	}
	x.script, x.log = filepath.Join(x.p.dir, "burn.py"), filepath.Join(x.p.dir, "burnt")
	return x, os.WriteFile(x.script, []byte(burnScript), 0o755)
}

// underSteward has a daemon gate what the crowd does.
func (h *herd) underSteward(crowd func(*herd) (func(), error)) (rush, error) {
	if _, err := h.start(); err != nil {
		return rush{}, err
	}
	defer h.stop()
	stop, err := crowd(h)
	if err != nil {
		return rush{}, err
	}
	defer stop()
	time.Sleep(3 * time.Second) // the beginning is over for everybody, and the readings show it
	began := time.Now()
	for i := range herdTasks {
		if err := h.submit(i); err != nil {
			return rush{}, err
		}
		time.Sleep(herdGap)
	}
	return h.follow(began), nil
}

func (h *herd) submit(i int) error {
	id := taskID(i + 1)
	r := request(id, 0.8, time.Now())
	r["payload"].(object)["parameters"] = object{"script_path": h.script, "args": h.args(i)}
	_, err := put(h.p.task(id, "request"), r)
	return err
}

func (h *herd) args(i int) []string {
	return []string{strconv.Itoa(i), fmt.Sprint(herdWork.Seconds()), h.log}
}

// follow waits for the end of all tasks, or of patience.
func (h *herd) follow(began time.Time) rush {
	for limit := began.Add(herdSpan); ; time.Sleep(100 * time.Millisecond) {
		r := readRush(h.log, began)
		if r.done >= herdTasks || time.Now().After(limit) {
			return r
		}
	}
}

// readRush reads the log of the tasks.
func readRush(log string, began time.Time) (r rush) {
	type step struct {
		at int64
		by int
	}
	data, _ := os.ReadFile(log)
	var steps []step
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue // it is being written
		}
		at, _ := strconv.ParseInt(f[2], 10, 64)
		by := 1
		if f[0] == "end" {
			by = -1
			r.done++
			r.makespan = max(r.makespan, time.Duration(at-began.UnixNano()))
		}
		steps = append(steps, step{at, by})
	}
	slices.SortFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	now := 0
	for _, s := range steps {
		now += s.by
		r.most = max(r.most, now)
	}
	return r
}

// byWorker lets a worker of ours take the tasks.
func (h *herd) byWorker() (func(), error) {
	return h.hire(h.p, "--jobs", strconv.Itoa(herdPlaces))
}

// byPoller lets the document's executor take them, one that does not wait for the end of one before it starts the next.
func (h *herd) byPoller() (func(), error) {
	poller, err := h.poller("executor", h.p, "--every", "0.25", "--together")
	if err != nil {
		return nil, err
	}
	return poller.stop, nil
}
