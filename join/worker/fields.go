package worker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// fields reads a JSON object strictly: steward must run exactly what was requested, and pass on exactly what was
// reported. An absent field and null give the zero value.
type fields struct {
	values  map[string]any
	prefix  string  // of the names in problem
	problem *string // the first field that cannot be used
}

func (f fields) refuse(key, format string, args ...any) {
	if *f.problem == "" {
		*f.problem = line(f.prefix+key+" "+fmt.Sprintf(format, args...), longestMessage)
	}
}

func (f fields) has(key string) bool { return f.values[key] != nil }

func get[T any](f fields, key, want string) T {
	v, ok := f.values[key].(T)
	if !ok && f.has(key) {
		f.refuse(key, "must be %s, not %s", want, kindOf(f.values[key]))
	}
	return v
}

func (f fields) text(key string) string { return get[string](f, key, "a string") }

// given reads a text that must be there, but may be empty.
func (f fields) given(key string) string {
	if !f.has(key) {
		f.refuse(key, "is missing")
	}
	return f.text(key)
}

// filled reads a text that must be there and not be empty.
func (f fields) filled(key string) string {
	s := f.given(key)
	if s == "" {
		f.refuse(key, "is empty")
	}
	return s
}

func (f fields) word(key string, set ...string) string {
	s := f.text(key)
	if f.has(key) && !slices.Contains(set, s) {
		f.refuse(key, "is %q, not one of %s", line(s, 60), strings.Join(set, ", "))
		return ""
	}
	return s
}

// list reads an array whose items are all of type T; the others are left out.
func list[T any](f fields, key, want string) []T {
	var all []T
	for i, item := range get[[]any](f, key, "an array") {
		if v, ok := item.(T); ok {
			all = append(all, v)
		} else {
			f.refuse(fmt.Sprintf("%s[%d]", key, i), "must be %s, not %s", want, kindOf(item))
		}
	}
	return all
}

func (f fields) texts(key string) []string { return list[string](f, key, "a string") }

// objects reads an array of objects, at most limit of them.
func (f fields) objects(key string, limit int) []fields {
	var all []fields
	for i, values := range list[map[string]any](f, key, "an object") {
		if i < limit {
			all = append(all, fields{values, fmt.Sprintf("%s%s[%d].", f.prefix, key, i), f.problem})
		}
	}
	return all
}

func (f fields) flag(key string, otherwise bool) bool {
	if !f.has(key) {
		return otherwise
	}
	return get[bool](f, key, "true or false")
}

// seconds returns 0 when the field is absent.
func (f fields) seconds(key string) time.Duration {
	n, isNumber := number(f.values[key])
	switch {
	case !f.has(key):
		return 0
	case !isNumber:
		f.refuse(key, "must be a number of seconds, not %s", kindOf(f.values[key]))
		return 0
	case !(n > 0) || math.IsInf(n, 0):
		f.refuse(key, "is %v; use a number of seconds above 0", n)
		return 0
	}
	return duration(n)
}

// duration converts seconds, capped at 1e9 s (some 30 years).
func duration(seconds float64) time.Duration {
	return time.Duration(min(seconds, 1e9) * float64(time.Second))
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a number"
}
