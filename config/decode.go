package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
)

// decode merges the file's values into c and records unknown keys and wrong types. It replaces the library's decoding into
// structs, which reuses slice elements (a row would inherit from the row previously at its index), ignores the case of
// keys, reads a bare 90 as 90 ns, and stops at the first error.
func (s *decoder) decode(c *Config) { s.table(reflect.ValueOf(c).Elem(), s.tree, "") }

func (s *decoder) value(dst reflect.Value, src any, at keyPath) {
	switch {
	case dst.Type() == reflect.TypeFor[time.Duration]():
		s.duration(dst, src, at)
	case dst.Kind() == reflect.Struct:
		s.table(dst, src, at)
	case dst.Kind() == reflect.Map:
		s.names(dst, src, at)
	case dst.Kind() == reflect.Slice:
		s.list(dst, src, at)
	default:
		s.scalar(dst, src, at)
	}
}

// table merges a table's keys into the fields of a struct.
func (s *decoder) table(dst reflect.Value, src any, at keyPath) {
	tree, ok := src.(map[string]any)
	if !ok {
		s.mismatch(at, "a table", src)
		return
	}
	fields := fieldsOf(dst.Type())
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		if index, ok := fields[key]; ok {
			s.value(dst.FieldByIndex(index), tree[key], at.key(key))
		} else if !s.dropped(at.key(key)) {
			s.problem(at.key(key), "unknown key %s%s", at.key(key), hint(dst.Type(), at, key, tree[key]))
		}
	}
	if limits, ok := dst.Interface().(heartbeat.Limits); ok {
		s.zeroLimits(limits, tree, at)
	}
}

// zeroLimits rejects limits written as 0, which heartbeat would treat as inherited.
func (s *decoder) zeroLimits(l heartbeat.Limits, tree map[string]any, at keyPath) {
	for key, limit := range map[string]time.Duration{"late": l.Late, "dead": l.Dead, "hung": l.Hung} {
		if _, written := tree[key]; written && limit == 0 && !s.bad[at.key(key)] {
			s.problem(at.key(key), "%s: must be more than zero; without the key the general limit holds", at.key(key))
		}
	}
}

// names merges a table into a map: an existing entry is modified, not replaced.
func (s *decoder) names(dst reflect.Value, src any, at keyPath) {
	tree, ok := src.(map[string]any)
	if !ok {
		s.mismatch(at, "a table", src)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		name, entry := reflect.ValueOf(key), reflect.New(dst.Type().Elem()).Elem()
		if dst.IsNil() {
			dst.Set(reflect.MakeMap(dst.Type()))
		}
		if old := dst.MapIndex(name); old.IsValid() {
			entry.Set(old)
		}
		s.value(entry, tree[key], at.key(key))
		dst.SetMapIndex(name, entry)
	}
}

// list replaces a slice. Its elements start as zero values.
func (s *decoder) list(dst reflect.Value, src any, at keyPath) {
	from := reflect.ValueOf(src)
	if from.Kind() != reflect.Slice {
		what := "a list"
		if dst.Type().Elem().Kind() == reflect.Struct {
			what = fmt.Sprintf("a list of tables, [[%s]]", at)
		}
		s.mismatch(at, what, src)
		return
	}
	fresh := reflect.MakeSlice(dst.Type(), from.Len(), from.Len())
	for i := range from.Len() {
		s.value(fresh.Index(i), from.Index(i).Interface(), at.entry(i))
	}
	dst.Set(fresh)
}

func (s *decoder) duration(dst reflect.Value, src any, at keyPath) {
	switch src := src.(type) {
	case string:
		d, err := time.ParseDuration(src)
		if err != nil {
			s.problem(at, `%s: %q is not a duration; write it like "250ms", "90s", "10m" or "1h30m"`, at, src)
			return
		}
		dst.SetInt(int64(d))
	case int64, float64:
		s.problem(at, `%s: a bare %v has no unit; write "%vs" for seconds`, at, src, src)
	default:
		s.mismatch(at, `a duration like "90s"`, src)
	}
}

func (s *decoder) scalar(dst reflect.Value, src any, at keyPath) {
	switch dst.Kind() {
	case reflect.String:
		if text, ok := src.(string); ok {
			dst.SetString(text)
			return
		}
		s.mismatch(at, "a string", src)
	case reflect.Bool:
		if yes, ok := src.(bool); ok {
			dst.SetBool(yes)
			return
		}
		s.mismatch(at, "true or false", src)
	case reflect.Int:
		if n, ok := src.(int64); ok && !dst.OverflowInt(n) {
			dst.SetInt(n)
			return
		}
		s.mismatch(at, "a whole number", src)
	case reflect.Float64:
		switch n := src.(type) {
		case float64:
			dst.SetFloat(n)
		case int64: // threshold = 1
			dst.SetFloat(float64(n))
		default:
			s.mismatch(at, "a number", src)
		}
	case reflect.Uint64: // capacity.Size is the only such setting
		text, ok := src.(string)
		if !ok {
			s.mismatch(at, `a size like "5GiB"`, src)
			return
		}
		if err := dst.Addr().Interface().(*capacity.Size).UnmarshalText([]byte(text)); err != nil {
			s.problem(at, "%s: %v", at, err)
		}
	default:
		s.problem(at, "%s: this program cannot read a %s", at, dst.Type())
	}
}

func (s *decoder) mismatch(at keyPath, want string, got any) {
	s.problem(at, "%s: must be %s, not %s", at, want, kindOf(got))
}

// kindOf describes a TOML value's type in TOML's terms.
func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case bool:
		return fmt.Sprint(v)
	case map[string]any:
		return "a table"
	case time.Time:
		return "a date or time"
	}
	return "a list"
}
