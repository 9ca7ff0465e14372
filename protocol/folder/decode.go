package folder

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Fill fills v, a pointer to a struct, field by field, by the fields' json tags. A field of the wrong type counts as
// missing: other clients' documents must not be lost for one field. Maps, which hold arbitrary JSON, stay nil.
func Fill(o jsonfile.Object, v any) { filler(false).object(o, reflect.ValueOf(v).Elem()) }

// FillAll fills maps too.
func FillAll(o jsonfile.Object, v any) { filler(true).object(o, reflect.ValueOf(v).Elem()) }

// TableOf returns the table that the tags of a struct describe; v is a pointer to it. The check tag of a field has these
// rules, separated by commas:
//
//	required    the field must exist
//	null        null is a value of it
//	filled      a writer must not leave it blank
//	0..3600     limits of a number
//	low|high    the words that the schema lists
//	uuid        a UUID v4
//	path        an absolute path, or a list of such paths
//	-           the field is no part of the document's schema
func TableOf(v any) *Table { return &structureOf(reflect.TypeOf(v).Elem()).table }

// structure is a struct type as documents fill it.
type structure struct {
	table  Table
	fields []structField
}

type structField struct {
	index []int
	field Field
}

var structures sync.Map // of *structure, by reflect.Type

func structureOf(t reflect.Type) *structure {
	if known, ok := structures.Load(t); ok {
		return known.(*structure)
	}
	s := &structure{}
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || key == "" || key == "-" {
			continue
		}
		tag := f.Tag.Get("check")
		field := fieldOf(key, f.Type, strings.Split(tag, ","))
		s.fields = append(s.fields, structField{f.Index, field})
		if tag != "-" {
			s.table.Fields = append(s.table.Fields, field)
		}
	}
	structures.Store(t, s)
	return s
}

var times = Form{"a time (ISO 8601 UTC)", Time.Fits, nil, Time.Schema}

// fieldOf describes a field of a struct.
func fieldOf(key string, t reflect.Type, rules []string) Field {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	f := Field{Key: key, Need: Optional}
	item := &f
	switch t.Kind() {
	case reflect.String:
		f.Form = String
	case reflect.Bool:
		f.Form = Boolean
	case reflect.Int, reflect.Float64:
		f.Form = Number
	case reflect.Map:
		f.Form = Object
	case reflect.Slice:
		each := fieldOf("", t.Elem(), nil)
		each.Need = Required
		f.Form, f.Item, item = List, &each, &each
	case reflect.Struct:
		if f.Form = times; t != reflect.TypeFor[time.Time]() {
			f.Form, f.Inside = Object, structureOf(t).table
		}
	}
	for _, rule := range rules {
		switch low, high, limits := strings.Cut(rule, ".."); {
		case limits:
			f.Limits = &Limits{}
			f.Limits.Low, _ = strconv.ParseFloat(low, 64)
			f.Limits.High, _ = strconv.ParseFloat(high, 64)
		case rule == "required":
			f.Need = Required
		case rule == "null":
			f.Null = true
		case rule == "filled":
			f.Form = Text
		case rule == "uuid":
			item.Format = UUID
		case rule == "path":
			item.Format = absolutePath
		case rule != "" && rule != "-":
			item.Words = strings.Split(rule, "|")
		}
	}
	return f
}

const uuid4 = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}`

var isUUID = Pattern("^" + uuid4 + "$")

// UUID is a UUID v4, or no text.
var UUID = Format{"a UUID v4", func(s string) bool { return s == "" || isUUID().MatchString(s) }, `"pattern": "^(` + uuid4 + `)?$"`}

var absolutePath = Format{"an absolute path", func(s string) bool { return strings.HasPrefix(s, "/") || filepath.IsAbs(s) }, `"pattern": "^/"`}

// filler fills structs; true: maps too.
type filler bool

func (maps filler) object(o jsonfile.Object, to reflect.Value) {
	s := structureOf(to.Type())
	for i := range s.fields {
		f := &s.fields[i]
		maps.field(o.Get(f.field.Key), to.FieldByIndex(f.index), &f.field)
	}
}

func (maps filler) field(v jsonfile.Value, to reflect.Value, f *Field) {
	switch into := to.Addr().Interface().(type) {
	case *string:
		*into, _ = v.Text()
	case *bool:
		*into, _ = v.Bool()
	case *float64:
		*into, _ = v.Number()
	case *int:
		n, _ := v.Number()
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 && (f.Limits == nil || n >= f.Limits.Low && n <= f.Limits.High) {
			*into = int(n)
		}
	case *time.Time:
		*into, _ = v.Time()
	case *[]string:
		*into, _ = v.Strings()
	case *map[string]any:
		if _, p := v.Object(); p.OK() && bool(maps) {
			*into = anything(v.Raw())
		}
	default:
		maps.nested(v, to, f)
	}
}

// nested fills a struct, a pointer, or a slice of structs.
func (maps filler) nested(v jsonfile.Value, to reflect.Value, f *Field) {
	switch to.Kind() {
	case reflect.Slice:
		items, _ := v.Array()
		for _, item := range items {
			if o, p := item.Object(); p.OK() {
				next := reflect.New(to.Type().Elem()).Elem()
				maps.object(o, next)
				to.Set(reflect.Append(to, next))
			}
		}
	case reflect.Pointer:
		if f.Form.Fits(v) {
			to.Set(reflect.New(to.Type().Elem()))
			maps.field(v, to.Elem(), f)
		}
	default:
		if o, p := v.Object(); p.OK() {
			maps.object(o, to)
		}
	}
}

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
