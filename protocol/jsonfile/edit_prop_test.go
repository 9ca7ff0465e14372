package jsonfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol/jsonfile"
	"pgregory.net/rapid"
)

// layouts of real writers: compact, Python, jq, editors, Windows.
var layouts = []struct{ open, item, colon, indent, eol, end string }{
	{"", "", ":", "", "", ""},
	{"", " ", ": ", "", "", "\n"},
	{" ", " ", " : ", "", "", ""},
	{"", "", ": ", "  ", "\n", "\n"},
	{"", "", ": ", "    ", "\n", ""},
	{"", "", ":", "\t", "\n", "\n\n"},
	{"", "", ": ", "  ", "\r\n", "\r\n"},
	{"", "", ": ", "", "\n", ""},
}

var scalars = []string{"1.0", "1e3", "-0", "9007199254740993", `"\u00e9"`, `"é\\\"\/"`, "true", "null", `""`, "0.10"}

// draw writes a random document in the layout l and records the path of each of its objects.
func draw(t *rapid.T, l int, depth int, path []string, objects *[][]string) string {
	y := layouts[l]
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth > 0 && (depth > 3 || kind < 2) {
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
	array := depth > 0 && kind == 2
	if !array {
		*objects = append(*objects, path)
	}
	var parts []string
	for i := range rapid.IntRange(0, 4).Draw(t, "n") {
		if array {
			parts = append(parts, draw(t, l, depth+1, with(path, fmt.Sprint(i)), objects))
			continue
		}
		key := fmt.Sprint(rapid.SampledFrom([]string{"k", "a.b", "é", "0"}).Draw(t, "key"), i)
		parts = append(parts, fmt.Sprintf(`"%s"%s%s`, key, y.colon, draw(t, l, depth+1, with(path, key), objects)))
	}
	in, out := y.eol+strings.Repeat(y.indent, depth+1), y.eol+strings.Repeat(y.indent, depth)
	body := ""
	if len(parts) > 0 {
		body = y.open + in + strings.Join(parts, ","+y.item+in) + out + y.open
	}
	if array {
		return "[" + body + "]"
	}
	return "{" + body + "}"
}

func with(path []string, key string) []string { return append(path[:len(path):len(path)], key) }

func TestEditChangesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.IntRange(0, len(layouts)-1).Draw(t, "layout")
		var objects [][]string
		doc := []byte(draw(t, l, 0, nil, &objects) + layouts[l].end)
		path := with(rapid.SampledFrom(objects).Draw(t, "object"), "new")
		deep := rapid.Bool().Draw(t, "deep")
		full := path
		if deep {
			full = with(path, "deeper")
		}
		value := rapid.SampledFrom([]any{1, "x", nil, []any{"p", 1.5}, map[string]any{"q": map[string]any{"r": true}}, map[string]any{}}).Draw(t, "value")

		out, err := jsonfile.Edit(doc, jsonfile.Set{Path: full, Value: value})
		must2(t, err)
		if kept(doc, out) < len(doc) {
			t.Fatalf("bytes of\n%s\nare missing in\n%s", doc, out)
		}
		equalTo(t, lookup(t, out, full), value)
		again, err := jsonfile.Edit(out, jsonfile.Set{Path: full, Value: value})
		must2(t, err)
		if !bytes.Equal(again, out) {
			t.Fatalf("again:\n%s\nfirst:\n%s", again, out)
		}
		back, err := jsonfile.Edit(out, jsonfile.Remove(path...))
		must2(t, err)
		if !bytes.Equal(back, doc) {
			t.Fatalf("inserted and removed:\n%q\nwas:\n%q\nwith:\n%q", back, doc, out)
		}
		replaceEach(t, doc, value)
	})
}

// replaceEach sets every member of the document to a new value in turn: only the old value's bytes may change.
func replaceEach(t *rapid.T, doc []byte, value any) {
	o, err := jsonfile.Parse(doc)
	must2(t, err)
	for _, key := range o.Keys() {
		out, err := jsonfile.Edit(doc, jsonfile.Set{Path: []string{key}, Value: value})
		must2(t, err)
		if kept(doc, out) < len(doc)-len(o.Get(key).Raw()) {
			t.Fatalf("more than the value of %q is gone:\n%s\n%s", key, doc, out)
		}
		equalTo(t, lookup(t, out, []string{key}), value)
	}
}

func must2(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// kept is how much of a is still at the beginning and at the end of b.
func kept(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	j := 0
	for j < n-i && a[len(a)-1-j] == b[len(b)-1-j] {
		j++
	}
	return i + j
}

// lookup finds a value with the standard library, not with the code under test.
func lookup(t *rapid.T, doc []byte, path []string) any {
	var v any
	must2(t, json.Unmarshal(doc, &v))
	for _, key := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			var i int
			_, _ = fmt.Sscan(key, &i)
			v = x[i]
		}
	}
	return v
}

func equalTo(t *rapid.T, got, want any) {
	b, err := json.Marshal(want)
	must2(t, err)
	var w any
	must2(t, json.Unmarshal(b, &w))
	if !reflect.DeepEqual(got, w) {
		t.Fatalf("value is %v, want %v", got, w)
	}
}

func FuzzEdit(f *testing.F) {
	for _, s := range []string{sample, "{}", `{"a":{"b":[1,{}]}}`, "{\r\n\t\"a\":1 ,\n\"b\" :\n2}", `{"a":1}` + "\n", "{ }", `{"a":null}`, "[]"} {
		f.Add([]byte(s), "a/b", 7)
		f.Add([]byte(s), "new", 1)
		f.Add([]byte(s), "b/-", 1)
	}
	f.Fuzz(func(t *testing.T, doc []byte, at string, n int) {
		path := strings.Split(at, "/")
		out, err := jsonfile.Edit(doc, jsonfile.Set{Path: path, Value: n})
		if err != nil {
			return
		}
		v, err := jsonfile.ParseValue(out)
		if err != nil {
			t.Fatalf("made %q out of %q: %v", out, doc, err)
		}
		if o, p := v.Object(); p.OK() && len(path) == 1 {
			if i, p := o.Int(at); !p.OK() || i != int64(n) {
				t.Fatalf("%q: %q is %d, %v", out, at, i, p)
			}
		}
		if _, err := jsonfile.Edit(out, jsonfile.Remove(path...)); err != nil {
			t.Fatal(err)
		}
	})
}
