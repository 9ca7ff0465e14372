package measure

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/livhana/steward/capacity"
)

const (
	diskEvery = 5 * time.Second        // disks fill slowly
	diskWait  = 100 * time.Millisecond // a local file system answers in microseconds
)

// diskGauge reads the fullest of the projects' file systems. A call on a network mount whose server is gone blocks
// forever, so each folder is queried in its own goroutine, and again only after the last query has returned. This also
// holds when the folders change; otherwise each reload of the settings would leak another goroutine.
type diskGauge struct {
	at    time.Time // of the last round of queries
	asked map[string]*diskQuestion
	disks map[string]capacity.Disk // those that have answered: a folder that hangs does not hide the others
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

// read returns the largest used share. Two projects on one file system return the same share, which does not affect the
// maximum. A folder that fails (a project that is not mounted) is ignored if another folder answers.
func (g *diskGauge) read(paths []string, now time.Time) (float64, error) {
	if age := now.Sub(g.at); g.at.IsZero() || age < 0 || age >= diskEvery {
		g.at = now
		g.ask(paths)
	}
	g.disks = make(map[string]capacity.Disk, len(paths))
	most, hangs := 0.0, false
	var errs []error
	for _, path := range paths {
		switch q := g.asked[path]; {
		case !q.answered():
			hangs = true
		case q.err != nil:
			errs = append(errs, q.err)
		default:
			g.disks[path], most = q.disk, max(most, q.disk.Used)
		}
	}
	switch {
	case len(paths) == 0:
		return 0, errors.New("read disks: no project folders are known")
	case hangs:
		return 0, errNoAnswer
	case len(g.disks) == 0:
		return 0, errors.Join(errs...)
	}
	return most, nil
}

// ask queries all folders except those with a pending query, and waits for the answers for a moment.
func (g *diskGauge) ask(paths []string) {
	maps.DeleteFunc(g.asked, func(_ string, q *diskQuestion) bool { return q.answered() })
	if g.asked == nil {
		g.asked = make(map[string]*diskQuestion, len(paths))
	}
	late := time.After(diskWait)
	var asked []*diskQuestion
	for _, path := range paths {
		if g.asked[path] != nil {
			continue
		}
		q := &diskQuestion{done: make(chan struct{})}
		g.asked[path], asked = q, append(asked, q)
		go func() {
			defer close(q.done)
			q.disk, q.err = usedOf(path)
		}()
	}
	for _, q := range asked {
		select {
		case <-q.done:
		case <-late:
			return
		}
	}
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
