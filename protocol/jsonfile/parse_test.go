package jsonfile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol/jsonfile"
)

const sample = "\ufeff" + `{
  "a": "é\u00e9\ud83d\ude00😀\"\\",
  "b": [1, -2.5e+10, true, null, false, {"c": {}}],
  "d": "x"
}`

// Wherever a writer stopped, the document is torn and never bad.
func TestEveryPrefixIsTorn(t *testing.T) {
	for i := range len(sample) {
		_, err := jsonfile.Parse([]byte(sample[:i]))
		if !errors.Is(err, jsonfile.ErrTorn) || errors.Is(err, jsonfile.ErrBad) {
			t.Errorf("%q: %v", sample[:i], err)
		}
	}
	for _, torn := range []string{" \n", "\x00\x00\x00", "\x00{}", "{\"a\":\x00\x00", "{}\x00", "{}\n\x00\x00"} {
		_, err := jsonfile.Parse([]byte(torn))
		want(t, err, jsonfile.ErrTorn)
	}
	if _, err := jsonfile.Parse([]byte(sample)); err != nil {
		t.Error(err)
	}
}

func TestParseRefuses(t *testing.T) {
	for doc, words := range map[string]string{
		"{\"a\":1,\n \"a\":2}":             "line 2, column 2 (byte 9), field a (duplicate",
		`{"a":1,"\u0061":2}`:               "duplicate",
		"{\"a\":\"\xff\"}":                 "column 7 (byte 6), field a (invalid UTF-8",
		`{"a":1} x`:                        "byte 8",
		`{"a":1}{"a":2}`:                   "follows",
		`{"a":[{"b":tru}]}`:                "field a[0].b",
		`{"a":1,}`:                         "line 1",
		"{\"a\":\"\x00\"}":                 "field a",
		`[1]`:                              "found array",
		"null":                             "found null",
		"\xff\xfe{\x00":                    "UTF-16",
		nested(65):                         "nested deeper than 64",
		strings.Repeat("[", 500_000) + "]": "",
	} {
		_, err := jsonfile.Parse([]byte(doc))
		if len(doc) > 400_000 { // unfinished and far too deep: either error is correct
			if err == nil {
				t.Error("accepted")
			}
			continue
		}
		want(t, err, jsonfile.ErrBad, words)
		if errors.Is(err, jsonfile.ErrTorn) {
			t.Errorf("%q is torn too", doc)
		}
	}
	if _, err := jsonfile.Parse([]byte(nested(64))); err != nil {
		t.Error(err)
	}
}

func nested(n int) string {
	return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1)
}

func TestFields(t *testing.T) {
	o, err := jsonfile.Parse([]byte(`{"s":"a\u0000b","n":1.5,"i":3.0,"big":9007199254740993,"b":true,"z":null,
		"l":["x",1],"o":{"k":{"deep":"y"},"a.b":1},"errors":[{"severity":7},5],"t":1700000000,"huge":1e999,"S":1}`))
	must(t, err)
	check := func(got any, p jsonfile.Presence, value any, presence jsonfile.Presence) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(value) || p != presence {
			t.Errorf("got %v, %v; want %v, %v", got, p, value, presence)
		}
	}
	s, p := o.String("s")
	check(s, p, "a\x00b", jsonfile.Present)
	s, p = o.String("n")
	check(s, p, "", jsonfile.Wrong)
	s, p = o.String("none")
	check(s, p, "", jsonfile.Missing)
	s, p = o.String("z")
	check(s, p, "", jsonfile.Null)
	f, p := o.Number("n")
	check(f, p, 1.5, jsonfile.Present)
	f, p = o.Number("huge")
	check(f, p, 0, jsonfile.Wrong)
	i, p := o.Int("i")
	check(i, p, 3, jsonfile.Present)
	i, p = o.Int("big")
	check(i, p, 9007199254740993, jsonfile.Present)
	i, p = o.Int("n")
	check(i, p, 0, jsonfile.Wrong)
	i, p = o.Int("S") // not "s"
	check(i, p, 1, jsonfile.Present)
	b, p := o.Bool("b")
	check(b, p, true, jsonfile.Present)
	l, p := o.Strings("l")
	check(l, p, "[x]", jsonfile.Wrong)
	when, p := o.Time("t")
	check(jsonfile.FormatTime(when), p, "2023-11-14T22:13:20Z", jsonfile.Present)
	_, p = o.Time("b")
	check("", p, "", jsonfile.Wrong)
	check(o.Has("z"), p, true, jsonfile.Wrong)
	check(o.Keys()[:3], p, "[s n i]", jsonfile.Wrong)
}

func TestFieldPaths(t *testing.T) {
	o, err := jsonfile.Parse([]byte(`{"context":{"a.b":1},"errors":[{"severity":7}]}`))
	must(t, err)
	c, _ := o.Object("context")
	same(t, c.Get("session_id").Path(), "context.session_id")
	same(t, c.Get("a.b").Path(), `context."a.b"`)
	none, p := c.Object("none")
	same(t, p, jsonfile.Missing)
	same(t, none.Get("x").Path(), "context.none.x")
	same(t, none.Get("x").Kind(), "missing")
	errs, _ := o.Array("errors")
	first, _ := errs[0].Object()
	same(t, first.Get("severity").Path(), "errors[0].severity")
	same(t, first.Get("severity").Kind(), "number")
	same(t, string(first.Value().Raw()), `{"severity":7}`)
}

func TestDecode(t *testing.T) {
	var v struct {
		A []struct {
			N int `json:"n"`
		} `json:"a"`
	}
	must(t, jsonfile.Decode([]byte("\ufeff"+`{"a":[{"n":1,"N":2,"x":3}]}`), &v))
	same(t, v.A[0].N, 1)
	want(t, jsonfile.Decode([]byte(`{"a":[{"n":1},{"n":"x"}]}`), &v), jsonfile.ErrBad, "field a[1].n", "found string, want int")
	want(t, jsonfile.Decode([]byte(`{"a":`), &v), jsonfile.ErrTorn)
	want(t, jsonfile.Decode([]byte(`{"a":[],"a":[]}`), &v), jsonfile.ErrBad)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{sample, "", "{}", `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", nested(65), "\x00{}", `{"":[1e5,"\ud800"]}`, "[[[", "\xff\xfe"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := jsonfile.ParseValue(doc)
		if err != nil {
			if errors.Is(err, jsonfile.ErrTorn) == errors.Is(err, jsonfile.ErrBad) {
				t.Fatalf("neither or both: %v", err)
			}
			return
		}
		if !json.Valid(v.Raw()) {
			t.Fatalf("accepted %q", doc)
		}
		visit(t, v)
	})
}

// visit reads everything: each value must be found by its own path and bytes.
func visit(t *testing.T, v jsonfile.Value) {
	if !json.Valid(v.Raw()) {
		t.Fatalf("%s: %q is not a value", v.Path(), v.Raw())
	}
	items, _ := v.Array()
	for _, item := range items {
		visit(t, item)
	}
	o, _ := v.Object()
	for _, k := range o.Keys() {
		if !o.Has(k) {
			t.Fatalf("key %q is lost", k)
		}
		visit(t, o.Get(k))
	}
	v.Text()
	v.Int()
	v.Time()
	v.Strings()
}
