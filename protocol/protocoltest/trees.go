package protocoltest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// Trees scans each tree of files in pattern (testdata/*.txtar) once and compares the Describe lines with the file
// "want" of the archive. The text before the first file names the paragraph of the document that the tree tests.
// "touch" may list "path -90s": the age of a file.
func Trees(t *testing.T, pattern string, now func() time.Time, open func(t testing.TB, dir string) protocol.Adapter) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no trees in %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(string(text), "-- ") {
				t.Error("the text before the first file must name the paragraph")
			}
			lookAtTree(t, string(text), now(), open)
		})
	}
}

func lookAtTree(t *testing.T, archive string, now time.Time, open func(testing.TB, string) protocol.Adapter) {
	t.Helper()
	dir, parsed := t.TempDir(), Parse(archive, now)
	Write(t, dir, archive, now)
	for _, name := range []string{"want", "touch"} {
		_ = os.Remove(filepath.Join(dir, name))
	}
	for line := range strings.Lines(parsed["touch"]) {
		name, age, _ := strings.Cut(strings.TrimSpace(line), " ")
		shift, err := time.ParseDuration(age)
		if err != nil {
			t.Fatalf("touch %q: %v", line, err)
		}
		at := now.Add(shift)
		if err := os.Chtimes(filepath.Join(dir, filepath.FromSlash(name)), at, at); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, dir)
	s := a.Observe(t.Context(), protocol.ScanOrder{Now: now})
	if got, want := Describe(&s), parsed["want"]; got != want {
		t.Errorf("seen:\n%s\nwant:\n%s", got, want)
	}
	again := a.Observe(t.Context(), protocol.ScanOrder{Now: now, Hints: []string{}})
	if got, want := Describe(&again), Describe(&s); got != want {
		t.Errorf("a second scan without hints sees\n%s\nthe first\n%s", got, want)
	}
}

// Describe formats a snapshot as readable lines, in the order of the snapshot, with times relative to it. Unset values
// are left out.
func Describe(s *protocol.Snapshot) string {
	var lines []string
	add := func(parts ...string) {
		lines = append(lines, strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " "))
	}
	if s.Yield != "" {
		add("yield:", s.Yield)
	}
	for _, a := range s.Agents {
		add("agent", a.Name, a.Status, string(a.Presence), part("idle", a.Idle), ago("beat", a.Beat.At, s.At), part("limit %v", a.Limit),
			part("works on %s", strings.Join(a.Tasks, "|")), part("%d orphans", len(a.Orphans)), part("complains %q", a.Complaint))
	}
	for i := range s.Tasks {
		add(taskLine(&s.Tasks[i], s.At)...)
	}
	for _, l := range s.Locks {
		add("lock", l.Resource, "by", l.Holder, part("kernel", l.Kernel), ago("acquired", l.Acquired, s.At), ago("expires", l.Expires, s.At))
	}
	for _, p := range s.Questions {
		add("plea", p.ID, "by", p.Agent, part("for %s", p.Task), string(p.Severity), part("blocking", p.Blocking), ago("due", p.Due, s.At),
			fmt.Sprintf("%q", p.Text), part("options %s", strings.Join(p.Options, "|")))
	}
	for _, f := range s.Findings {
		add("finding", string(f.Subject.Kind)+"/"+f.Subject.ID, f.Code, f.Field, string(f.Severity)+part(" call", f.Call)+":", f.Text)
	}
	for _, f := range s.Faults {
		add("fault", f.Path+":", f.Problem)
	}
	for _, e := range s.Events {
		add("event", e.Name, string(e.Subject.Kind)+"/"+e.Subject.ID, part("by %s", e.Agent))
	}
	for _, m := range s.Measures {
		add("measure", m.Name, m.Agent, fmt.Sprintf("%g", m.Value))
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

func taskLine(t *protocol.Task, at time.Time) []string {
	line := []string{"task", t.ID, part("for %s", t.Agent), part("visible", t.Visible), part("named %s", t.Named)}
	if o := t.Outcome; o != nil {
		line = append(line, "ended", o.Status)
		for _, f := range o.Failures {
			line = append(line, f.Code)
		}
	}
	if h := t.Hold; h != nil {
		line = append(line, "held", h.Reason)
	}
	return append(line, part("%d takings", len(t.Attempts)), part("cancelled", t.Cancelled), part("blocked %q", t.Block), part("lost %q", t.Lost),
		ago("started", t.Started, at))
}

// part formats a value; "" for a zero value.
func part[T comparable](format string, value T) string {
	var zero T
	if value == zero {
		return ""
	}
	if !strings.Contains(format, "%") {
		return format
	}
	return fmt.Sprintf(format, value)
}

// ago formats a time in whole seconds relative to the scan.
func ago(word string, t, at time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s %+.0fs", word, t.Sub(at.Truncate(time.Second)).Truncate(time.Second).Seconds())
}
