//go:build linux

package desktop

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// waiting is an alerter that writes its arguments, waits until $DIR/end exists, and prints that file.
const waiting = `printf '%s|' "$@" >$DIR/args; while ! [ -e $DIR/end ]; do /bin/sleep 0.02; done; /bin/cat $DIR/end; exit $(/bin/cat $DIR/code)`

func TestAlertEvents(t *testing.T) {
	m := Message{Key: "k", Title: "t", Actions: []Action{{"1", "Yes, do"}, {"2", "@CLOSED"}, {"3", "Yes  do"}, {"4", ", @"}}}
	for name, c := range map[string]struct {
		says, code string
		want       Event
	}{
		"pressed":        {"Yes do\n", "0", Event{Kind: Pressed, Key: "k", Action: "1"}},
		"like its words": {"CLOSED", "0", Event{Kind: Pressed, Key: "k", Action: "2"}},
		"closed":         {"@CLOSED\n", "0", Event{Kind: Closed, Key: "k"}},
		"broken":         {"Yes do\n", "1", Event{Kind: Lost, Key: "k"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, b := alerting(t)
			proof, err := b.show(t.Context(), m)
			if err != nil || !proof.Actions || proof.Result != Shown {
				t.Fatalf("%+v, %v", proof, err)
			}
			args, _ := os.ReadFile(filepath.Join(dir, "args"))
			if !strings.Contains(string(args), "|--actions=Yes do,CLOSED|") {
				t.Errorf("arguments %s", args)
			}
			finish(t, dir, c.says, c.code)
			select {
			case e := <-b.out.events:
				e.At = time.Time{}
				if e != c.want {
					t.Errorf("%+v, want %+v", e, c.want)
				}
			case <-time.After(watchdog):
				t.Error("no event")
			}
		})
	}
}

// alerting returns a banner whose alerter waits.
func alerting(t *testing.T) (dir string, b *banner) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("PATH", toolbox(t, dir, map[string]string{"alerter": waiting}))
	b = &banner{settle: time.Second, out: newOutbox()}
	t.Cleanup(func() { b.close() })
	return dir, b
}

// finish makes the alerters end.
func finish(t *testing.T, dir, says, code string) {
	t.Helper()
	for _, f := range [][2]string{{"code", code}, {"new", says}} {
		if err := os.WriteFile(filepath.Join(dir, f[0]), []byte(f[1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "end")); err != nil {
		t.Fatal(err)
	}
}

// TestAlertIsReplaced: a replaced or withdrawn popup yields no event and leaves no child.
func TestAlertIsReplaced(t *testing.T) {
	dir, b := alerting(t)
	m := Message{Key: "k", Title: "t", Actions: []Action{{"1", "x"}}}
	for range 2 {
		if _, err := b.show(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, dir, "x", "0")
	e := <-b.out.events
	if e.Kind != Pressed || len(b.out.events) != 0 {
		t.Errorf("%+v and %d more", e, len(b.out.events))
	}
	os.Remove(filepath.Join(dir, "end"))
	if _, err := b.show(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	finish(t, dir, "x", "0") // also for the alerter that removes; either may end first
	if err := b.withdraw(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	if n := len(b.alerts.all); n != 0 {
		t.Errorf("%d alerters stay", n)
	}
}

func TestAlertThatEndsAtOnce(t *testing.T) {
	for says, want := range map[string]struct {
		code   string
		err    bool
		events []Kind
	}{"@CLOSED": {"0", false, nil}, "x": {"0", false, []Kind{Pressed}}, "oops": {"1", true, nil}} {
		dir, b := alerting(t)
		b.settle = watchdog
		finish(t, dir, says, want.code)
		proof, err := b.show(t.Context(), Message{Key: "k", Title: "t", Actions: []Action{{"1", "x"}}})
		if (err != nil) != want.err || proof.Actions {
			t.Errorf("%s: %+v, %v", says, proof, err)
		}
		var kinds []Kind
		for len(b.out.events) > 0 {
			kinds = append(kinds, (<-b.out.events).Kind)
		}
		if !slices.Equal(kinds, want.events) || errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, events %v", says, err, kinds)
		}
	}
}
