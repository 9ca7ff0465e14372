package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
)

const (
	diskEvery = 5 * time.Second        // disks fill slowly
	diskWait  = 100 * time.Millisecond // a local file system answers in microseconds
)

// diskGauge reads the fullest of the projects' file systems. A network mount whose server is gone blocks whoever
// asks, for good; so the question is put in a goroutine of its own, and only one at a time.
type diskGauge struct {
	used    float64
	err     error
	at      time.Time
	pending chan diskReading
}

var errNoAnswer = errors.New("read disks: a file system does not answer")

type diskReading struct {
	used float64
	err  error
}

func (g *diskGauge) read(ctx context.Context, paths []string, now time.Time) (float64, error) {
	if age := now.Sub(g.at); !g.at.IsZero() && age >= 0 && age < diskEvery && g.pending == nil {
		return g.used, g.err
	}
	if g.pending == nil {
		g.ask(ctx, paths)
	} else if len(g.pending) == 0 {
		return 0, errNoAnswer // the sample that asked has waited already
	}
	select {
	case r := <-g.pending:
		g.used, g.err, g.at, g.pending = r.used, r.err, now, nil
		return g.used, g.err
	case <-time.After(diskWait):
		return 0, errNoAnswer
	}
}

func (g *diskGauge) ask(ctx context.Context, paths []string) {
	answer := make(chan diskReading, 1) // with room for an answer that nobody waits for any more
	go func() {
		used, err := fullest(ctx, paths)
		answer <- diskReading{used, err}
	}()
	g.pending = answer
}

// fullest is the largest used share. Two projects on one file system give the same share twice, which a maximum
// does not mind. A folder that cannot be asked (a project that is not mounted) leaves the others' word.
func fullest(ctx context.Context, paths []string) (float64, error) {
	if len(paths) == 0 {
		return 0, errors.New("read disks: no project folders are known")
	}
	most, known := 0.0, false
	var errs []error
	for _, path := range paths {
		u, err := disk.UsageWithContext(ctx, path)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("read disk of %s: %w", path, err))
		case u.Total == 0:
			errs = append(errs, fmt.Errorf("read disk of %s: the file system has no size", path))
		default:
			most, known = max(most, u.UsedPercent/100), true
		}
	}
	if known {
		return most, nil
	}
	return 0, errors.Join(errs...)
}
