package agentstatus

import (
	"errors"
	"math"
	"testing"
	"time"
)

// Progress refuses a report that other clients could not read, before it looks for the task.
func TestProgressIsChecked(t *testing.T) {
	c := newCrew(t)
	client := c.client()
	at := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, bad := range []TaskProgress{{Percent: 101}, {Percent: -1}, {Percent: math.NaN()}, {Done: -1}, {At: at(10000)}, {At: at(-1)}, {Estimated: at(10000)}} {
		var invalid *InvalidError
		if err := client.Progress(t.Context(), "unknown", bad, c.now); !errors.As(err, &invalid) {
			t.Errorf("progress %+v: %v", bad, err)
		}
	}
	if err := client.Progress(t.Context(), "unknown", TaskProgress{Percent: 100}, c.now); !errors.Is(err, ErrNoTask) {
		t.Errorf("sound progress of an unknown task: %v", err)
	}
}
