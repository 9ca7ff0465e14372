package measure

import (
	"errors"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/livhana/steward/capacity"
)

const (
	diskEvery = 5 * time.Second        // disks fill slowly
	diskWait  = 100 * time.Millisecond // a local file system answers in microseconds
)

// diskGauge reads the fullest of the projects' file systems. A call on a network mount whose server is gone blocks for
// ever, so each folder is queried in its own goroutine, and again only after the last query has returned. This also
// holds when the folders change; otherwise each reload of the settings would leak another goroutine.
type diskGauge struct {
	used  float64
	err   error
	disks map[string]capacity.Disk // those that have answered
	at    time.Time
	waits bool // queries are pending
	asked map[string]*diskQuestion
}

var errNoAnswer = errors.New("read disks: a file system does not answer")

type diskQuestion struct {
	done chan struct{} // closed when the answer is available
	disk capacity.Disk
	err  error
}

func (q *diskQuestion) answered() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

func (g *diskGauge) read(paths []string, now time.Time) (float64, error) {
	if age := now.Sub(g.at); !g.at.IsZero() && age >= 0 && age < diskEvery && !g.waits {
		return g.used, g.err
	}
	var late <-chan time.Time
	if !g.waits {
		g.ask(paths)
		g.waits = true
		late = time.After(diskWait)
	}
	for _, path := range paths {
		q := g.asked[path]
		if q.answered() {
			continue
		}
		if late == nil {
			g.disks = g.answers(paths)
			return 0, errNoAnswer // the sample that started the query has already waited
		}
		select {
		case <-q.done:
		case <-late:
			g.disks = g.answers(paths)
			return 0, errNoAnswer
		}
	}
	g.used, g.err = g.fullest(paths)
	g.at, g.waits, g.disks = now, false, g.answers(paths)
	return g.used, g.err
}

// ask queries all folders except those with a pending query.
func (g *diskGauge) ask(paths []string) {
	for path, q := range g.asked {
		if q.answered() {
			delete(g.asked, path)
		}
	}
	if g.asked == nil {
		g.asked = make(map[string]*diskQuestion, len(paths))
	}
	for _, path := range paths {
		if g.asked[path] != nil {
			continue
		}
		q := &diskQuestion{done: make(chan struct{})}
		g.asked[path] = q
		go func() {
			defer close(q.done)
			q.disk, q.err = usedOf(path)
		}()
	}
}

// fullest returns the largest used share. Two projects on one file system return the same share, which does not affect
// the maximum. A folder that fails (a project that is not mounted) is ignored if another folder answers.
func (g *diskGauge) fullest(paths []string) (float64, error) {
	if len(paths) == 0 {
		return 0, errors.New("read disks: no project folders are known")
	}
	most, known := 0.0, false
	var errs []error
	for _, path := range paths {
		if q := g.asked[path]; q.err != nil {
			errs = append(errs, q.err)
		} else {
			most, known = max(most, q.disk.Used), true
		}
	}
	if known {
		return most, nil
	}
	return 0, errors.Join(errs...)
}

// answers returns the disks of the folders that have answered. A folder that hangs does not hide the disks of the
// others.
func (g *diskGauge) answers(paths []string) map[string]capacity.Disk {
	disks := make(map[string]capacity.Disk, len(paths))
	for _, path := range paths {
		if q := g.asked[path]; q != nil && q.answered() && q.err == nil {
			disks[path] = q.disk
		}
	}
	return disks
}

func usedOf(path string) (capacity.Disk, error) {
	u, err := disk.Usage(path)
	switch {
	case err != nil:
		return capacity.Disk{}, fmt.Errorf("read disk of %s: %w", path, err)
	case u.Total == 0:
		return capacity.Disk{}, fmt.Errorf("read disk of %s: the file system has no size", path)
	}
	return capacity.Disk{Used: u.UsedPercent / 100, Free: u.Free}, nil
}
