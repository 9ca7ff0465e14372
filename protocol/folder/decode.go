package folder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Decoder fills structs from documents, field by field, by the fields' json tags. A field of the wrong type counts as
// missing: other clients' documents must not be lost for one field. The check tag of a field states its schema. A
// violation becomes a finding; the value still counts. The rules of a tag, separated by commas:
//
//	required    the field must exist
//	0..3600     limits of a number
//	low|high    the words that the schema lists
//	uuid        a UUID v4
//	path        an absolute path, or a list of such paths
//	-           no finding about this field
type Decoder struct {
	Optional bool // no field is required
	Maps     bool // fill maps too, which hold arbitrary JSON
	Findings []protocol.Finding

	quiet bool
}

// MaxFindings bounds the findings of one document: the first findings show what is wrong with it.
const MaxFindings = 50

// Fields fills v without checking it.
func Fields(o jsonfile.Object, v any) { (&Decoder{quiet: true}).Decode(o, v) }

// Decode fills v, a pointer to a struct.
func (d *Decoder) Decode(o jsonfile.Object, v any) { d.object(o, reflect.ValueOf(v).Elem()) }

func (d *Decoder) object(o jsonfile.Object, to reflect.Value) {
	for i := range to.NumField() {
		f := to.Type().Field(i)
		if f.Anonymous {
			d.object(o, to.Field(i))
			continue
		}
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
			d.field(o.Get(key), to.Field(i), ruleOf(f.Tag.Get("check")))
		}
	}
}

// Add adds a finding about a field.
func (d *Decoder) Add(severity protocol.Severity, field, format string, args ...any) {
	if !d.quiet && len(d.Findings) < MaxFindings {
		d.Findings = append(d.Findings, protocol.Finding{Code: "schema", Field: field, Severity: severity, Text: field + " " + fmt.Sprintf(format, args...)})
	}
}

// rule is a parsed check tag.
type rule struct {
	required, silent, uuid, path, limited bool
	low, high                             float64
	words                                 []string
}

func ruleOf(tag string) (r rule) {
	for part := range strings.SplitSeq(tag, ",") {
		switch low, high, limits := strings.Cut(part, ".."); {
		case limits:
			r.limited = true
			r.low, _ = strconv.ParseFloat(low, 64)
			r.high, _ = strconv.ParseFloat(high, 64)
		case part == "required":
			r.required = true
		case part == "-":
			r.silent = true
		case part == "uuid":
			r.uuid = true
		case part == "path":
			r.path = true
		case part != "":
			r.words = strings.Split(part, "|")
		}
	}
	return r
}

// present adds a finding for a field that is missing or of the wrong type, and reports whether the field can be used.
func (d *Decoder) present(v jsonfile.Value, p jsonfile.Presence, want string, r rule) bool {
	switch required := r.required && !d.Optional; {
	case p == jsonfile.Present:
		return true
	case r.silent:
	case p == jsonfile.Wrong:
		d.Add(protocol.Low, v.Path(), "must be %s, not %s", want, v.Kind())
	case required && p == jsonfile.Null:
		d.Add(protocol.Low, v.Path(), "must be %s, not null", want)
	case required:
		d.Add(protocol.Low, v.Path(), "is missing")
	}
	return false
}

func (d *Decoder) field(v jsonfile.Value, to reflect.Value, r rule) {
	var p jsonfile.Presence
	switch into := to.Addr().Interface().(type) {
	case *string:
		if *into, p = v.Text(); d.present(v, p, "a string", r) {
			d.text(v, *into, r)
		}
	case *bool:
		*into, p = v.Bool()
		d.present(v, p, "true or false", r)
	case **bool:
		if b, p := v.Bool(); d.present(v, p, "true or false", r) {
			*into = &b
		}
	case *float64:
		*into, _ = d.number(v, r)
	case **float64:
		if n, ok := d.number(v, r); ok {
			*into = &n
		}
	case *int:
		if f, ok := d.number(v, r); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 && (!r.limited || f >= r.low && f <= r.high) {
			*into = int(f)
		}
	case *time.Time:
		*into, p = v.Time()
		d.present(v, p, "a time (ISO 8601 UTC)", r)
	case *[]string:
		*into = d.list(v, r)
	case *map[string]any:
		if _, p := v.Object(); d.present(v, p, "an object", r) && d.Maps {
			*into = anything(v.Raw())
		}
	default:
		d.nested(v, to, r)
	}
}

// nested fills a struct, a pointer to a struct, or a slice of structs.
func (d *Decoder) nested(v jsonfile.Value, to reflect.Value, r rule) {
	if to.Kind() == reflect.Slice {
		items, p := v.Array()
		d.present(v, p, "an array", r)
		for _, item := range items {
			if o, p := item.Object(); d.present(item, p, "an object", rule{required: true, silent: r.silent}) {
				next := reflect.New(to.Type().Elem()).Elem()
				d.object(o, next)
				to.Set(reflect.Append(to, next))
			}
		}
		return
	}
	o, p := v.Object()
	if !d.present(v, p, "an object", r) {
		return
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	d.object(o, to)
}

func (d *Decoder) number(v jsonfile.Value, r rule) (n float64, ok bool) {
	n, p := v.Number()
	if !d.present(v, p, "a number", r) {
		return 0, false
	}
	if r.limited && (n < r.low || n > r.high) {
		d.Add(protocol.Low, v.Path(), "is %v, outside %v to %v", n, r.low, r.high)
	}
	return n, true
}

// list reads an array of strings. It leaves out items of another type, which become findings.
func (d *Decoder) list(v jsonfile.Value, r rule) (list []string) {
	items, p := v.Array()
	d.present(v, p, "an array", r)
	for _, item := range items {
		if s, p := item.Text(); d.present(item, p, "a string", rule{required: true, silent: r.silent}) {
			d.text(item, s, r)
			list = append(list, s)
		}
	}
	return list
}

// text checks a string's form. A word outside the schema's list is kept, means nothing to policies, and gives only an
// info finding: most words in practice are outside.
func (d *Decoder) text(v jsonfile.Value, s string, r rule) {
	switch {
	case r.path && !strings.HasPrefix(s, "/") && !filepath.IsAbs(s):
		d.Add(protocol.Low, v.Path(), "is %q, not an absolute path", Line(s, 80))
	case s == "":
	case r.uuid && !uuid4().MatchString(s):
		d.Add(protocol.Low, v.Path(), "is %q, not a UUID v4", Line(s, 60))
	case r.words != nil && !slices.Contains(r.words, s):
		d.Add(protocol.Info, v.Path(), "is %q, not one of %s", Line(s, 40), strings.Join(r.words, ", "))
	}
}

var uuid4 = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)
})

// anything decodes an object with arbitrary keys. Integers stay integers.
func anything(raw []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if d.Decode(&m) != nil {
		return nil
	}
	whole, _ := numbers(m).(map[string]any)
	return whole
}

// numbers converts the JSON numbers of a document to Go numbers.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return json.RawMessage(v) // out of Go's range
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}
