package jsonfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/livhana/steward/protocol/jsonfile"
)

func set(value any, path ...string) jsonfile.Set { return jsonfile.Set{Path: path, Value: value} }

func TestEdit(t *testing.T) {
	for name, c := range map[string]struct {
		doc  string
		edit jsonfile.Set
		want string
	}{
		"value bytes only":         {"{ \"n\":1.0,\t\"u\":\"\\u00e9\" , \"s\":\"a\"}\n", set("b", "s"), "{ \"n\":1.0,\t\"u\":\"\\u00e9\" , \"s\":\"b\"}\n"},
		"equal stays":              {`{"a": 1.0, "b": "\u00e9"}`, set(1, "a"), `{"a": 1.0, "b": "\u00e9"}`},
		"equal object stays":       {`{"a":{"x":1e3,"y":[ ]}}`, set(map[string]any{"y": []int{}, "x": 1000}, "a"), `{"a":{"x":1e3,"y":[ ]}}`},
		"equal big number":         {`{"a":9007199254740993}`, set(int64(9007199254740992), "a"), `{"a":9007199254740992}`},
		"insert compact":           {`{"a":1,"b":2}`, set(true, "c"), `{"a":1,"b":2,"c":true}`},
		"insert spaced":            {`{"a": 1, "b": 2}`, set(true, "c"), `{"a": 1, "b": 2, "c": true}`},
		"insert spaced after one":  {`{"a": 1}`, set(true, "c"), `{"a": 1, "c": true}`},
		"insert two spaces":        {"{\n  \"a\": 1\n}\n", set("x", "b"), "{\n  \"a\": 1,\n  \"b\": \"x\"\n}\n"},
		"insert tabs":              {"{\n\t\"a\": {\n\t\t\"x\": 1\n\t}\n}", set([]int{1}, "a", "y"), "{\n\t\"a\": {\n\t\t\"x\": 1,\n\t\t\"y\": [\n\t\t\t1\n\t\t]\n\t}\n}"},
		"insert four spaces deep":  {"{\n    \"a\": 1\n}", set(1, "p", "q"), "{\n    \"a\": 1,\n    \"p\": {\n        \"q\": 1\n    }\n}"},
		"insert windows lines":     {"{\r\n  \"a\": 1\r\n}\r\n", set(1, "p", "q"), "{\r\n  \"a\": 1,\r\n  \"p\": {\r\n    \"q\": 1\r\n  }\r\n}\r\n"},
		"insert inline in lines":   {"{\n  \"a\": {\"x\":1}\n}", set(map[string]int{"z": 1}, "a", "y"), "{\n  \"a\": {\"x\":1, \"y\":{\"z\": 1}}\n}"},
		"insert in empty, lines":   {"{\n  \"a\": {},\n  \"b\": 1\n}", set(1, "a", "x"), "{\n  \"a\": {\n    \"x\": 1\n  },\n  \"b\": 1\n}"},
		"insert in empty, compact": {`{"a":{},"b":1}`, set(1, "a", "x"), `{"a":{"x":1},"b":1}`},
		"insert in empty document": {"{}\n", set(1, "a"), "{\n  \"a\": 1\n}\n"},
		"lines, no space":          {"{\n \"a\":1\n}", set(map[string]int{"x": 1}, "b"), "{\n \"a\":1,\n \"b\":{\n  \"x\":1\n }\n}"},
		"null is missing":          {`{"a": null}`, set(1, "a", "b"), `{"a": {"b": 1}}`},
		"null replaced":            {`{"a": null}`, set(1, "a"), `{"a": 1}`},
		"scalar by object":         {"{\n  \"a\": 1\n}", set(map[string]int{"x": 1}, "a"), "{\n  \"a\": {\n    \"x\": 1\n  }\n}"},
		"inline array stays so":    {"{\n  \"a\": [1, 2]\n}", set([]int{3, 4, 5}, "a"), "{\n  \"a\": [3, 4, 5]\n}"},
		"array item":               {`{"a": [1, {"b": 2}]}`, set(3, "a", "1", "b"), `{"a": [1, {"b": 3}]}`},
		"array append":             {"{\n  \"m\": [\n    1\n  ]\n}", set(2, "m", "-"), "{\n  \"m\": [\n    1,\n    2\n  ]\n}"},
		"array append by number":   {`[1]`, set(2, "1"), `[1, 2]`},
		"array made":               {`{"m":null}`, set(2, "m", "-"), `{"m":[2]}`},
		"array in empty":           {`{"m":[]}`, set(2, "m", "-"), `{"m":[2]}`},
		"whole document":           {" {\"a\":1}\n", set(map[string]int{"b": 2}), " {\"b\":2}\n"},
		"time":                     {`{"t":""}`, set(time.Date(2025, 1, 2, 3, 4, 5, 6, time.UTC), "t"), `{"t":"2025-01-02T03:04:05Z"}`},
		"time within":              {`{"t":""}`, set(map[string]any{"x": time.Unix(0, 0)}, "t"), `{"t":{"x":"1970-01-01T00:00:00Z"}}`},
		"verbatim":                 {"{\n  \"a\": 1\n}", set(jsontext.Value(` {"x":1.0, "y":"\u0041"}`), "a"), "{\n  \"a\": {\"x\":1.0, \"y\":\"\\u0041\"}\n}"},
		"odd keys":                 {`{"a.b":1,"\u0061":2}`, set(3, "a"), `{"a.b":1,"\u0061":3}`},
		"key that needs escapes":   {`{"a":1}`, set("<é>\n", "k\"\x00"), "{\"a\":1,\"k\\\"\\u0000\":\"<é>\\n\"}"},
		"byte order mark":          {"\ufeff{\"a\":1}", set(2, "a"), "\ufeff{\"a\":2}"},
		"remove first":             {`{"a": 1, "b": 2}`, jsonfile.Remove("a"), `{"b": 2}`},
		"remove last":              {"{\n  \"a\": 1,\n  \"b\": 2\n}\n", jsonfile.Remove("b"), "{\n  \"a\": 1\n}\n"},
		"remove only":              {"{\"o\":{\n  \"a\": 1\n}}", jsonfile.Remove("o", "a"), `{"o":{}}`},
		"remove item":              {`[1, {"x":2}, 3]`, jsonfile.Remove("1"), `[1, 3]`},
		"remove what is not there": {`{"a":1}`, jsonfile.Remove("a", "b", "c"), `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			in := []byte(c.doc)
			got, err := jsonfile.Edit(in, c.edit)
			must(t, err)
			same(t, string(got), c.want)
			same(t, string(in), c.doc)
			again, err := jsonfile.Edit(got, c.edit)
			must(t, err)
			if !strings.HasPrefix(name, "array ") && c.edit.Path != nil && name != "remove item" {
				same(t, string(again), c.want)
			}
		})
	}
}

func TestEditRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		doc  string
		edit jsonfile.Set
		err  error
	}{
		"torn":           {`{"a":`, set(1, "a"), jsonfile.ErrTorn},
		"bad":            {`{"a":1,"a":2}`, set(1, "a"), jsonfile.ErrBad},
		"through text":   {`{"a":"x"}`, set(1, "a", "b"), jsonfile.ErrShape},
		"past the end":   {`{"a":[1]}`, set(1, "a", "2"), jsonfile.ErrShape},
		"no item name":   {`{"a":[1]}`, set(1, "a", "x"), jsonfile.ErrShape},
		"bad path":       {`{}`, set(1, "\xff"), jsonfile.ErrShape},
		"bad raw value":  {`{}`, set(jsontext.Value(`{`), "a"), jsonfile.ErrShape},
		"too deep":       {nested(64), set(map[string]any{"a": map[string]any{}}, deepPath(63)...), jsonfile.ErrBad},
		"text not UTF-8": {`{}`, set("\xff", "a"), nil},
	} {
		got, err := jsonfile.Edit([]byte(c.doc), c.edit)
		if err == nil {
			t.Errorf("%s: accepted: %s", name, got)
		} else if c.err != nil {
			want(t, err, c.err, "edit")
		}
	}
}

func deepPath(n int) (path []string) {
	for range n {
		path = append(path, "a")
	}
	return path
}

func TestSeveralEditsAllOrNothing(t *testing.T) {
	got, err := jsonfile.Edit([]byte(`{"a": 1, "b": 2}`), set(5, "a"), jsonfile.Remove("b"), set("x", "c", "d"))
	must(t, err)
	same(t, string(got), `{"a": 5, "c": {"d": "x"}}`)
	got, err = jsonfile.Edit([]byte(`{"a": 1}`), set(5, "a"), set(1, "a", "b"))
	want(t, err, jsonfile.ErrShape, "a.b")
	same(t, got == nil, true)
}

func TestEncode(t *testing.T) {
	v := struct {
		T time.Time      `json:"t"`
		M map[string]int `json:"m"`
	}{time.Unix(0, 0), map[string]int{"b": 1, "a": 2}}
	b, err := jsonfile.Encode(v)
	must(t, err)
	same(t, string(b), "{\n  \"t\": \"1970-01-01T00:00:00Z\",\n  \"m\": {\n    \"a\": 2,\n    \"b\": 1\n  }\n}\n")
	b, err = jsonfile.EncodeLine(v)
	must(t, err)
	same(t, string(b), `{"t":"1970-01-01T00:00:00Z","m":{"a":2,"b":1}}`)
	o, err := jsonfile.Parse([]byte(`{"p": {"n": 1.0}}`))
	must(t, err)
	b, err = jsonfile.EncodeLine(map[string]any{"copy": o.Get("p"), "none": o.Get("x")})
	must(t, err)
	same(t, string(b), `{"copy":{"n":1.0},"none":null}`)
	_, err = jsonfile.Encode(make(chan int))
	if err == nil {
		t.Error("a channel was encoded")
	}
}
