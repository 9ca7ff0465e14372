package jsonfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

const doc = "a.json"

// reader follows one file of a folder through scans at times that the test chooses.
type reader struct {
	*testing.T
	root     *jsonfile.Root
	dir      string
	start    time.Time // every stamp has settled by then
	patience jsonfile.TolerantReader
	reading  jsonfile.Reading[int64]
	decoded  int
}

func follow(t *testing.T, content string) *reader {
	root, dir := open(t, doc, content)
	return &reader{T: t, root: root, dir: dir, start: time.Now().Add(time.Minute)}
}

func (r *reader) put(content string) { write(r, filepath.Join(r.dir, doc), content) }

// load scans that long after the start.
func (r *reader) load(after time.Duration) (read bool) {
	r.patience.Begin(r.start.Add(after))
	return jsonfile.Load(r.root, &r.patience, &r.reading, doc, 100, r.decode)
}

func (r *reader) decode(o jsonfile.Object) int64 {
	r.decoded++
	n, _ := o.Int("n")
	return n
}

// shows checks the reading and how many files are in lasting trouble.
func (r *reader) shows(value int64, good bool, troubles int) {
	r.Helper()
	if r.reading.Value != value || r.reading.Good != good || len(r.patience.Troubles()) != troubles {
		r.Fatalf("%+v\ntroubles %+v\nwant value %d, good %v, %d troubles", r.reading, r.patience.Troubles(), value, good, troubles)
	}
}

// again checks when the next scan is requested, counted from the start; 0 is never.
func (r *reader) again(after time.Duration) {
	r.Helper()
	var at time.Time
	if after != 0 {
		at = r.start.Add(after)
	}
	same(r, r.patience.Again(), at)
}

func TestPatienceTornThenGood(t *testing.T) {
	for _, half := range []string{"", `{"n": 2`, `{"n": 2}}`} {
		r := follow(t, `{"n": 1}`)
		same(t, r.load(0), true)
		r.shows(1, true, 0)
		same(t, r.reading.AtRest() && r.patience.Calm(), true)

		r.put(half)
		same(t, r.load(time.Second), false)
		r.shows(1, true, 0) // its writer is active: the last good value stays valid
		r.again(time.Second + 50*time.Millisecond)
		same(t, r.patience.Has(doc), true)
		same(t, r.patience.Calm(), false)

		r.put(`{"n": 2}`)
		same(t, r.load(time.Second+50*time.Millisecond), true)
		r.shows(2, true, 0)
		r.again(0)
		same(t, r.patience.Calm(), true)
		same(t, r.reading.Sum, jsonfile.SumOf([]byte(`{"n": 2}`)))
	}
}

func TestPatienceStaysBad(t *testing.T) {
	r := follow(t, `{"n": `)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	looks := []int{0, 50, 100, 150, 200, 250, 750, 1250, 1750, 2250, 7250, 12250}
	for i, at := range looks[:len(looks)-1] {
		troubles := 0
		if ms(at) >= jsonfile.BadAfter {
			troubles = 1
		}
		r.load(ms(at))
		r.shows(0, false, troubles)
		r.again(ms(looks[i+1]))
		same(t, r.reading.There && !r.reading.AtRest(), true)
		r.load(ms(at) + 1) // too early: only the request is repeated
		r.again(ms(looks[i+1]))
	}
	trouble := r.patience.Troubles()[0]
	same(t, trouble.Path, doc)
	same(t, trouble.Since, r.start)
	same(t, strings.Contains(trouble.Problem, jsonfile.ErrTorn.Error()), true)

	r.put(`{"n": 3}`)
	r.load(ms(7300)) // a new stamp is read without delay
	r.shows(3, true, 0)
	r.again(0)
}

// Between two scans of a bad file a writer may have rewritten it. The time still counts from the first bad scan,
// because a file that is incomplete at every scan is useless.
func TestPatienceBadInChangingWays(t *testing.T) {
	r := follow(t, `{"n": 1}`)
	r.load(0)
	for i := range 5 {
		r.put(strings.Repeat("{", i+1))
		r.load(time.Second + time.Duration(i)*500*time.Millisecond)
		r.shows(1, true, i/4)
	}
	same(t, r.patience.Troubles()[0].Since, r.start.Add(time.Second))
}

func TestPatienceSureAtOnce(t *testing.T) {
	place := map[string]func(t *testing.T, path string){
		"too big":  func(t *testing.T, path string) { write(t, path, `{"n": "`+strings.Repeat("x", 100)+`"}`) },
		"a folder": func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o755)) },
	}
	for name, put := range place {
		t.Run(name, func(t *testing.T) {
			r := follow(t, `{"n": 1}`)
			r.load(0)
			must(t, os.Remove(filepath.Join(r.dir, doc)))
			put(t, filepath.Join(r.dir, doc))
			r.load(time.Second)
			r.shows(1, false, 1) // a file that is not plain or is too big is no longer trusted
			r.again(0)
			r.load(time.Hour)
			r.again(0)
			r.shows(1, false, 1)
			same(t, r.patience.Troubles()[0].Since, r.start.Add(time.Second))

			must(t, os.Remove(filepath.Join(r.dir, doc)))
			r.put(`{"n": 4}`)
			same(t, r.load(2*time.Hour), true)
			r.shows(4, true, 0)
		})
	}
}

func TestPatienceUnreadable(t *testing.T) {
	now := time.Now()
	for err, at := range map[error]time.Duration{
		jsonfile.ErrHostile: 0, jsonfile.ErrTooBig: 0, jsonfile.ErrPermission: 0, errors.New("out of order"): 0,
		jsonfile.ErrTorn: jsonfile.BadAfter, jsonfile.ErrBad: jsonfile.BadAfter,
		jsonfile.ErrNotExist: -1,
	} {
		var p jsonfile.TolerantReader
		err := &jsonfile.Error{Op: "read", Path: doc, Hint: "mend it", Err: err}
		for _, after := range []time.Duration{0, jsonfile.BadAfter - 1, jsonfile.BadAfter} {
			p.Begin(now.Add(after))
			p.Unreadable(doc, err)
			list := p.Troubles()
			if want := at >= 0 && after >= at; want != (len(list) == 1) {
				t.Errorf("%v after %v: %+v", err, after, list)
			} else if want && (list[0].Since != now || list[0].Hint != "mend it" || list[0].Problem != err.Error()) {
				t.Errorf("%v after %v: %+v", err, after, list[0])
			}
		}
		p.Unreadable(doc, &jsonfile.Error{Op: "read", Path: doc, Err: jsonfile.ErrNotExist})
		same(t, p.Calm(), true)
	}
}

func TestPatienceGone(t *testing.T) {
	r := follow(t, `{"n": `)
	r.load(0)
	must(t, os.Remove(filepath.Join(r.dir, doc)))
	same(t, r.load(time.Second), false)
	same(t, r.reading, jsonfile.Reading[int64]{})
	same(t, r.patience.Calm() && r.reading.AtRest(), true)
	r.again(0)
	r.put(`{"n": 5}`)
	same(t, r.load(2*time.Second), true)
	r.shows(5, true, 0)
}

func TestPatienceRefuse(t *testing.T) {
	r := follow(t, `{"n": 1}`)
	since := func() time.Duration { return r.patience.Troubles()[0].Since.Sub(r.start) }
	r.load(0)
	r.patience.Refuse(doc, "speaks of another task", "rename it")
	r.shows(1, true, 1)
	same(t, r.load(time.Second), false) // nothing changed: it stays refused and is not read
	same(t, since(), 0)

	r.put(`{"n": 22}`)
	same(t, r.load(2*time.Second), true)
	same(t, len(r.patience.Troubles()), 1) // Refuse marked it, so only its caller can clear it
	r.patience.Refuse(doc, "speaks of another task", "rename it")
	same(t, since(), 0)
	r.patience.Refuse(doc, "speaks of no task", "name one")
	same(t, since(), 2*time.Second)
	same(t, r.patience.Troubles()[0].Hint, "name one")

	r.put(`{"n": `)
	r.load(3 * time.Second)
	r.shows(22, true, 0) // bad in another way: the tolerance period starts again
	r.load(5 * time.Second)
	same(t, since(), 3*time.Second)

	r.put(`{"n": 333}`)
	r.load(6 * time.Second)
	r.shows(333, true, 0)
	r.patience.Refuse(doc, "speaks of another task", "rename it")
	r.patience.Clear(doc)
	same(t, r.patience.Has(doc), false)
}

func TestPatienceWish(t *testing.T) {
	var p jsonfile.TolerantReader
	now := time.Now()
	p.Begin(now)
	p.RetryAt(time.Time{})
	same(t, p.Again(), time.Time{})
	for _, after := range []time.Duration{3, 1, 2} {
		p.RetryAt(now.Add(after * time.Second))
	}
	p.RetryAt(time.Time{})
	same(t, p.Again(), now.Add(time.Second))
	p.Begin(now)
	same(t, p.Again(), time.Time{})
}

func TestPatienceTroubles(t *testing.T) {
	var p jsonfile.TolerantReader
	p.Begin(time.Now())
	for _, file := range []string{"c", "a/b", "b", "a"} {
		p.Refuse(file, "is odd", "")
	}
	var list []string
	for _, trouble := range p.Troubles() {
		list = append(list, trouble.Path)
	}
	same(t, fmt.Sprint(list), "[a a/b b c]")
	p.Forget()
	same(t, p.Calm() && p.Troubles() == nil, true)
}

func TestLoadEqualSettledStamp(t *testing.T) {
	r := follow(t, `{"n": 1}`)
	for i := range 5 {
		same(t, r.load(time.Duration(i)*time.Hour), i == 0)
	}
	same(t, r.decoded, 1)
	stat := testing.AllocsPerRun(100, func() { _, _ = r.root.Stat(doc) })
	if n := testing.AllocsPerRun(100, func() { r.load(time.Hour) }); n > stat {
		t.Errorf("%v allocations for a file that did not change, %v for a stat", n, stat)
	}

	// Within the step of the clock, a stamp proves nothing.
	r = follow(t, `{"n": 1}`)
	st, err := r.root.Stat(doc)
	must(t, err)
	r.start = st.ModTime()
	for i, read := range []bool{true, true, true, false} {
		at := []time.Duration{0, time.Millisecond, 5 * time.Second, time.Minute}[i]
		same(t, r.load(at), read)
		same(t, r.reading.AtRest(), i >= 2)
	}
}

func TestLoadText(t *testing.T) {
	root, dir := open(t, "plan.md", "- [ ] one\n")
	var p jsonfile.TolerantReader
	var r jsonfile.Reading[string]
	odd := errors.New("not this kind of plan")
	first := func(data []byte) (string, error) {
		line, _, whole := bytes.Cut(data, []byte("\n"))
		switch {
		case !whole:
			return "", fmt.Errorf("plan.md: %w", jsonfile.ErrTorn)
		case len(line) == 0:
			return "", odd
		}
		return string(line), nil
	}
	start := time.Now().Add(time.Minute)
	for i, step := range []struct {
		put, value string
		read       bool
		troubles   int
	}{
		{"- [ ] one\n", "- [ ] one", true, 0},
		{"", "- [ ] one", false, 0}, // nothing put
		{"- [x] on", "- [ ] one", false, 0},
		{"- [x] on", "- [ ] one", false, 0},
		{"- [x] o", "- [ ] one", false, 1}, // for two seconds now
		{"- [x] one\n", "- [x] one", true, 0},
		{"\n", "- [x] one", false, 1}, // waiting does not help
		{"- [x] two\n", "- [x] two", true, 0},
		{strings.Repeat("x", 101) + "\n", "- [x] two", false, 1},
	} {
		if step.put != "" {
			write(t, filepath.Join(dir, "plan.md"), step.put)
		}
		p.Begin(start.Add(time.Duration(i) * time.Second))
		read := jsonfile.LoadText(root, &p, &r, "plan.md", 100, first)
		if read != step.read || r.Value != step.value || len(p.Troubles()) != step.troubles {
			t.Errorf("step %d: read %v, %+v, troubles %+v", i, read, r, p.Troubles())
		}
		same(t, r.Good, i < 8)
	}
}
