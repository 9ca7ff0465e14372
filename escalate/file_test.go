package escalate

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// sample returns an incident file as steward writes it.
func sample(t testing.TB) (key string, doc []byte) {
	t.Helper()
	i, _ := raise(Incident{}, trouble("7", protocol.High).Tidy(), noon)
	i = deliver(i, Delivery{Channel: ChannelDesktop, Result: "shown", At: noon, OK: true, Rev: 1, Popup: i.Key}, true)
	doc, err := encode(i)
	if err != nil {
		t.Fatal(err)
	}
	return i.Key, doc
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	key, doc := sample(t)
	name := key + ".json"
	swap := func(old, new string) []byte {
		b := bytes.Replace(doc, []byte(old), []byte(new), 1)
		if bytes.Equal(b, doc) {
			t.Fatalf("the sample has no %s", old)
		}
		return b
	}
	for what, c := range map[string]struct {
		name string
		doc  []byte
	}{
		"torn":              {name, doc[:len(doc)/2]},
		"empty":             {name, nil},
		"not JSON":          {name, []byte("\x00\x01\x02")},
		"an array":          {name, []byte("[]")},
		"null":              {name, []byte("null")},
		"something after":   {name, append(bytes.Clone(doc), '{')},
		"rev is a word":     {name, swap(`"rev": 1`, `"rev": "one"`)},
		"rev is 0":          {name, swap(`"rev": 1`, `"rev": 0`)},
		"rev is huge":       {name, swap(`"rev": 1`, `"rev": 1e99`)},
		"rev overflows":     {name, swap(`"rev": 1`, `"rev": 9223372036854775807`)},
		"unknown state":     {name, swap(`"open"`, `"ajar"`)},
		"unknown severity":  {name, swap(`"high"`, `"worst"`)},
		"another's key":     {"0123456789abcdef.json", doc},
		"notice to come":    {name, swap(`"notice": 1`, `"notice": 2`)},
		"notified too much": {name, swap(`"notified": 1`, `"notified": 2`)},
		"bad time":          {name, swap(`2026-03-01`, `2026-33-01`)},
		"huge":              {name, append(bytes.Repeat([]byte(" "), maxFile), doc...)},
		"no key as a name":  {"notes.json", doc},
		"deep":              {name, bytes.Repeat([]byte("["), 100000)},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.name)
			if err := os.WriteFile(path, c.doc, 0o600); err != nil {
				t.Fatal(err)
			}
			l, faults, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "incidents", len(l.Heads()), 0)
			if len(faults) != 1 || faults[0].Path != path || faults[0].Problem == "" || faults[0].Since.IsZero() {
				t.Fatalf("faults: %+v", faults)
			}
			kept, err := os.ReadFile(path + ".bad")
			if err != nil || !bytes.Equal(kept, c.doc) {
				t.Errorf("it was not kept: %v", err)
			}
			mustRaise(t, l, trouble("7", protocol.High), noon) // the key can be used again
			want(t, "incidents at the next start", len(open(t, dir).Heads()), 1)
		})
	}
}

func TestForeignThings(t *testing.T) {
	dir := t.TempDir()
	key, doc := sample(t)
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(key+".json", doc)
	write("notes.txt", []byte("mine"))
	write(".steward-123.tmp", doc[:10])
	if err := os.Mkdir(filepath.Join(dir, "0123456789abcdef.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(outside, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	links := 0
	if err := os.Symlink(outside, filepath.Join(dir, "aaaaaaaaaaaaaaaa.json")); err == nil {
		links = 1
	}
	l, faults, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "incidents", len(l.Heads()), 1)
	want(t, "faults", len(faults), 1+links)
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Error("a foreign file is gone")
	}
	if _, err := os.Stat(filepath.Join(dir, ".steward-123.tmp")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a leftover stays")
	}
	if b, err := os.ReadFile(outside); err != nil || !bytes.Equal(b, doc) {
		t.Error("a file outside was touched")
	}
}

// TestBrokenTwice checks that a second broken file with the same name does not replace the first.
func TestBrokenTwice(t *testing.T) {
	dir := t.TempDir()
	key, _ := sample(t)
	path := filepath.Join(dir, key+".json")
	for _, text := range []string{"first", "second", "third"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, faults, err := Open(dir); err != nil || len(faults) != 1 {
			t.Fatal(err, faults)
		}
	}
	for name, text := range map[string]string{".bad": "first", ".bad2": "second", ".bad3": "third"} {
		b, _ := os.ReadFile(path + name)
		want(t, name, string(b), text)
	}
}

func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(filepath.Join(file, "incidents")); err == nil || !strings.HasPrefix(err.Error(), "make the folder") {
		t.Errorf("got %v", err)
	}
}

// TestHugeAlert checks that the largest alert that agents can cause produces a readable file.
func TestHugeAlert(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	huge := strings.Repeat("\x01\"<ä", 1<<20)
	a := trouble("7", protocol.High)
	a.Summary, a.Detail, a.Spoken, a.Occurrence = huge, huge, huge, huge
	for range 100 {
		a.Options = append(a.Options, rules.Option{ID: huge, Label: huge})
	}
	i := mustRaise(t, l, a, noon)
	for n := range 100 {
		if err := l.Record(i.Key, Delivery{Channel: "c", Result: "r", OK: true, Error: rules.Shorten(huge, rules.MaxSpoken), Rev: n}, false); err != nil {
			t.Fatal(err)
		}
	}
	if again := open(t, dir); !reflect.DeepEqual(again.all, l.all) {
		t.Error("memory and disk differ")
	}
}

func FuzzDecode(f *testing.F) {
	key, doc := sample(f)
	f.Add(doc)
	f.Add(doc[:len(doc)/2])
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"key":"` + key + `","rev":1,"opened":1,"count":1,"state":"acked","severity":"info"}`))
	f.Add(bytes.Replace(doc, []byte(`"shown"`), []byte(`null`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := decode(key, b)
		if err != nil {
			return
		}
		i.job()
		i, _ = raise(i, trouble("7", protocol.Critical).Tidy(), noon)
		i, _ = resolve(i, rules.ByFiles, "", noon)
		if err := i.check(key); err != nil {
			t.Fatalf("after a life: %v", err)
		}
		// A time zone offset with seconds cannot be encoded: that is an error, not a panic.
		doc, err := encode(i)
		if err != nil {
			return
		}
		again, err := decode(key, doc)
		if err != nil {
			t.Fatalf("our own file: %v", err)
		}
		if once, _ := encode(again); !bytes.Equal(once, doc) {
			t.Errorf("not the same again:\n%s\n%s", doc, once)
		}
	})
}

// TestIncidentOfANewerSteward checks that an incident file of a newer version is kept.
func TestIncidentOfANewerSteward(t *testing.T) {
	dir := t.TempDir()
	key, doc := sample(t)
	newer := bytes.Replace(doc, []byte(`"version": 1`), []byte(`"version": 2`), 1)
	path := filepath.Join(dir, key+".json")
	if err := os.WriteFile(path, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	_, faults, err := Open(dir)
	if err != nil || len(faults) != 1 || !strings.Contains(faults[0].Problem, "newer steward") {
		t.Fatalf("%v %+v", err, faults)
	}
	if kept, _ := os.ReadFile(path + ".bad"); !bytes.Equal(kept, newer) {
		t.Errorf("kept: %s", kept)
	}
}
