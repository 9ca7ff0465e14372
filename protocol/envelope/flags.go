package envelope

import (
	"slices"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// contradiction says what in a security review speaks against the approval that it gives; "" when nothing does.
func contradiction(o, product, validation jsonfile.Object) string {
	for _, key := range []string{"all_passed", "security_passed"} {
		if denies(validation.Get(key)) {
			return key + " is not true"
		}
	}
	if counts(product.Get("critical_issues")) || counts(o.Get("critical_issues")) {
		return "critical_issues is not empty"
	}
	status, p := o.String("status")
	if p == jsonfile.Wrong || p == jsonfile.Present && fold(status) != "COMPLETED" && fold(status) != "" {
		return "status is not completed"
	}
	return ""
}

// denies reports whether a flag is there and not plainly true.
func denies(v jsonfile.Value) bool {
	if b, p := v.Bool(); p != jsonfile.Wrong {
		return p == jsonfile.Present && !b
	}
	s, _ := v.Text()
	return !strings.EqualFold(strings.TrimSpace(s), "true")
}

// counts reports whether a list, or a number of things, is there and not empty.
func counts(v jsonfile.Value) bool {
	switch v.Kind() {
	case "missing", "null":
		return false
	case "array":
		items, _ := v.Array()
		return len(items) > 0
	case "object":
		o, _ := v.Object()
		return len(o.Keys()) > 0
	case "number":
		n, p := v.Number()
		return p != jsonfile.Present || n != 0
	}
	s, _ := v.Text()
	return !slices.Contains([]string{"", "NONE", "0"}, fold(s)) && says(v)
}

// says reports whether a flag stands against something: whatever is not plainly false or empty does.
func says(v jsonfile.Value) bool {
	if b, p := v.Bool(); p == jsonfile.Present {
		return b
	}
	s, p := v.Text()
	return p == jsonfile.Present && s != "" && !strings.EqualFold(s, "false") || p == jsonfile.Wrong
}
