package folder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

type sample struct {
	ID    string   `json:"id" check:"required,uuid"`
	Word  string   `json:"word" check:"low|high"`
	Share *float64 `json:"share" check:"required,0..1"`
	Count int      `json:"count" check:"0..10"`
	Files []string `json:"files" check:"path"`
	Inner *struct {
		On bool `json:"on" check:"required"`
	} `json:"inner"`
	Items []struct {
		At time.Time `json:"at" check:"required"`
	} `json:"items"`
	Any    map[string]any `json:"any"`
	Silent string         `json:"silent" check:"-"`
	Ours   string         `json:"-"`
}

// TestRead: a wrong field is a finding and counts as missing; the rest of the document still counts.
func TestRead(t *testing.T) {
	const sound = `{"id": "7d4c2f1e-8a60-4b1d-9c55-2f8f0a6b1e01", "word": "low", "share": 0.5, "count": 3, "files": ["/a"], "inner": {"on": true},
 "items": [{"at": "2026-01-02T03:04:05Z"}], "any": {"n": 12345678901234567}, "silent": 1, "-": "x"}`
	for _, c := range []struct{ old, new, findings string }{
		{"", "", ""},
		{`"7d4c2f1e-8a60-4b1d-9c55-2f8f0a6b1e01"`, `"7"`, `id is "7", not a UUID v4`},
		{`"7d4c2f1e-8a60-4b1d-9c55-2f8f0a6b1e01"`, `null`, `id must be a string, not null`},
		{`"share": 0.5,`, ``, `share is missing`},
		{`0.5`, `2`, `share is 2, outside 0 to 1`},
		{`"low"`, `"odd"`, `word is "odd", not one of low, high`},
		{`3`, `-3`, `count is -3, outside 0 to 10`},
		{`["/a"]`, `["a", 1]`, `files[0] is "a", not an absolute path; files[1] must be a string, not number`},
		{`{"on": true}`, `[]`, `inner must be an object, not array`},
		{`{"on": true}`, `{}`, `inner.on is missing`},
		{`[{"at": "2026-01-02T03:04:05Z"}]`, `[{"at": "soon"}, 7]`, `items[0].at must be a time (ISO 8601 UTC), not string; items[1] must be an object, not number`},
	} {
		o, err := jsonfile.Parse([]byte(strings.Replace(sound, c.old, c.new, 1)))
		if err != nil {
			t.Fatal(err)
		}
		var v sample
		FillAll(o, &v)
		var found Findings
		found.Read(o, &sample{})
		var texts []string
		for _, f := range found {
			texts = append(texts, f.Text)
		}
		if got := strings.Join(texts, "; "); got != c.findings {
			t.Errorf("%s: found %q, want %q", c.new, got, c.findings)
		}
		if c.new != "-3" && v.Count != 3 || c.new == "-3" && v.Count != 0 || v.Ours != "" || fmt.Sprint(v.Any["n"]) != "12345678901234567" {
			t.Errorf("%s: %+v", c.new, v)
		}
	}
	o, _ := jsonfile.Parse([]byte(`{}`))
	for _, d := range TableOf(&sample{}).Check(o) {
		if d.Trouble != Absent {
			t.Errorf("an empty document: %+v", d)
		}
	}
	var v sample
	if o, _ := jsonfile.Parse([]byte(sound)); true {
		Fill(o, &v)
	}
	if v.Any != nil || v.Inner == nil || !v.Inner.On || len(v.Items) != 1 || v.Share == nil {
		t.Errorf("%+v", v)
	}
}
