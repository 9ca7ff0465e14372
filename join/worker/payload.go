package worker

import (
	"fmt"
	"math"
	"time"
)

// parameters reads a request's payload.parameters strictly: steward must run exactly what was requested. problem holds
// the first field that cannot be used.
type parameters struct {
	fields  map[string]any
	problem string
}

func (p *parameters) refuse(field, format string, args ...any) {
	if p.problem == "" {
		p.problem = "payload.parameters." + field + " " + fmt.Sprintf(format, args...)
	}
}

func (p *parameters) text(key string, required bool) string {
	v, there := p.fields[key]
	s, isText := v.(string)
	switch {
	case !there || v == nil:
		if required {
			p.refuse(key, "is missing")
		}
	case !isText:
		p.refuse(key, "must be a string, not %s", kindOf(v))
	case s == "" && required:
		p.refuse(key, "is empty")
	}
	return s
}

func (p *parameters) list(key string) []string {
	v, there := p.fields[key]
	if !there || v == nil {
		return nil
	}
	items, isList := v.([]any)
	if !isList {
		p.refuse(key, "must be an array of strings, not %s", kindOf(v))
		return nil
	}
	list := make([]string, 0, len(items))
	for i, item := range items {
		s, isText := item.(string)
		if !isText {
			p.refuse(fmt.Sprintf("%s[%d]", key, i), "must be a string, not %s", kindOf(item))
			return nil
		}
		list = append(list, s)
	}
	return list
}

func (p *parameters) flag(key string, otherwise bool) bool {
	v, there := p.fields[key]
	if !there || v == nil {
		return otherwise
	}
	b, isFlag := v.(bool)
	if !isFlag {
		p.refuse(key, "must be true or false, not %s", kindOf(v))
		return otherwise
	}
	return b
}

// seconds returns 0 when the field is absent.
func (p *parameters) seconds(key string) time.Duration {
	v, there := p.fields[key]
	if !there || v == nil {
		return 0
	}
	n, isNumber := number(v)
	switch {
	case !isNumber:
		p.refuse(key, "must be a number of seconds, not %s", kindOf(v))
		return 0
	case !(n > 0) || math.IsInf(n, 0):
		p.refuse(key, "is %v; use a number of seconds above 0", v)
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
