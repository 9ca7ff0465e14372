package envelope

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The verdicts of a security review (protocol 004, Approval Status).
const (
	verdictApproved    = "APPROVED"
	verdictConditional = "CONDITIONAL"
	verdictRejected    = "REJECTED"
)

// securityVerdict is the decision of a security review, read as a whole.
type securityVerdict struct {
	word          string // approval_status, folded; "" if it is missing
	blocking      bool   // blocking_deployment
	contradiction string // what in the review contradicts its approval
	high          bool   // high_issues is not empty: the approval is conditional at most
	counts        string // number of issues by severity; "" if there are none
}

// issueLists are the lists of protocol 004, Security Response Format, most severe first.
var issueLists = []string{"critical", "high", "medium", "low"}

// decodeVerdict reads a security review. Its flags and lists count at the top level, in output and in validation.
func decodeVerdict(r *fieldReader, o jsonfile.Object) (v securityVerdict) {
	places := []jsonfile.Object{o}
	var denials []string
	for _, key := range []string{"output", "validation"} {
		part := o.Get(key)
		if child, p := part.Object(); p == jsonfile.Present {
			places = append(places, child)
		} else if p != jsonfile.Missing {
			denials = append(denials, key+" is not an object")
		}
	}
	v.blocking = slices.ContainsFunc(places, func(place jsonfile.Object) bool { return raised(place.Get("blocking_deployment")) })
	var disagree bool
	if v.word, disagree = verdictWord(r, places); v.word == "" {
		return v
	}
	if disagree {
		denials = append(denials, "approval_status stands there twice, with different words")
	}
	denials = append(denials, v.flags(o, places)...)
	denials = append(denials, v.lists(r, places)...)
	if status := o.Get("status"); status.Kind() != "missing" {
		if s, p := status.Text(); p != jsonfile.Present || fold(s) != "COMPLETED" && fold(s) != "" {
			denials = append(denials, "status is not completed")
		}
	}
	v.contradiction = strings.Join(denials, "; ")
	return v
}

// verdictWord returns approval_status, and reports whether several values disagree.
func verdictWord(r *fieldReader, places []jsonfile.Object) (word string, disagree bool) {
	for _, place := range places {
		v := place.Get("approval_status")
		if v.Kind() == "missing" {
			continue
		}
		s, p := v.Text()
		if p != jsonfile.Present {
			r.note("schema", protocol.Medium, v.Path(), v.Path()+" must be a string, not "+v.Kind())
			s = v.Kind()
		}
		s = fold(clean(s, 60))
		if s == "" {
			s = "NOTHING"
		}
		if word == "" {
			word = s
		}
		disagree = disagree || s != word
	}
	return word, disagree
}

// flags returns the *_passed flags that deny, and unmet criteria. A conditional approval may have failed checks, because
// they are its condition, but it must have passed the security check itself.
// See docs/decisions.md, "A conditional review may fail checks, but not the security check".
func (v *securityVerdict) flags(o jsonfile.Object, places []jsonfile.Object) (denials []string) {
	for _, place := range places {
		for _, key := range place.Keys() {
			name := strings.ToLower(strings.TrimSpace(key))
			if !strings.HasSuffix(name, "_passed") || v.word == verdictConditional && name != "security_passed" {
				continue
			}
			if denies(place.Get(key)) {
				denials = append(denials, clean(key, 60)+" is not true")
			}
		}
		if v.word == verdictConditional {
			continue
		}
		if unmet := unmetCriteria(place.Get("acceptance_criteria_met")); unmet != "" {
			denials = append(denials, unmet)
		}
	}
	if validation, _ := o.Get("validation").Object(); v.word != verdictConditional && count(validation.Get("issues")) > 0 {
		denials = append(denials, "issues is not empty")
	}
	return denials
}

// lists reads the lists of issues. Critical issues deny, high issues make an approval conditional, others are only
// reported.
func (v *securityVerdict) lists(r *fieldReader, places []jsonfile.Object) (denials []string) {
	var counted []string
	for _, severity := range issueLists {
		key, n := severity+"_issues", 0
		for _, place := range places {
			list := place.Get(key)
			if kind := list.Kind(); kind != "missing" && kind != "array" {
				r.note("schema", protocol.Low, list.Path(), list.Path()+" must be an array, not "+kind)
			}
			n += count(list)
		}
		if n == 0 {
			continue
		}
		counted = append(counted, fmt.Sprintf("%d %s", n, severity))
		switch severity {
		case "critical":
			denials = append(denials, key+" is not empty")
		case "high":
			v.high = true
		}
	}
	v.counts = strings.Join(counted, ", ")
	return denials
}

// unmetCriteria returns how many entries of acceptance_criteria_met are not true; "" if all are, or if the field is
// missing.
func unmetCriteria(v jsonfile.Value) string {
	const key = "acceptance_criteria_met"
	items, p := v.Array()
	if p != jsonfile.Present {
		if v.Kind() != "missing" && denies(v) {
			return key + " is not true"
		}
		return ""
	}
	n := 0
	for _, item := range items {
		if denies(item) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d not true", key, n, len(items))
}

// denies reports whether a flag is present and not clearly true. See docs/decisions.md, "A field missing from a review denies nothing".
func denies(v jsonfile.Value) bool {
	if b, p := v.Bool(); p != jsonfile.Wrong {
		return p != jsonfile.Missing && !b
	}
	s, _ := v.Text()
	return !strings.EqualFold(strings.TrimSpace(s), "true")
}

// count returns how many things a list names. A value that is neither a list nor clearly empty counts as one.
func count(v jsonfile.Value) int {
	n := 0
	switch v.Kind() {
	case "missing", "null":
	case "array":
		items, _ := v.Array()
		for _, item := range items {
			if !blank(item) {
				n++
			}
		}
	case "object":
		o, _ := v.Object()
		n = len(o.Keys())
	case "number":
		if number, p := v.Number(); p != jsonfile.Present || number != 0 {
			n = 1
		}
	default:
		if !blank(v) && raised(v) {
			n = 1
		}
	}
	return n
}

// blank reports whether a text means "none".
func blank(v jsonfile.Value) bool {
	s, p := v.Text()
	return p == jsonfile.Present && slices.Contains([]string{"", "NONE", "0", "N/A", "NO_ISSUES"}, fold(s))
}

// raised reports whether a flag is raised: any value that is not clearly false or empty raises it.
func raised(v jsonfile.Value) bool {
	if b, p := v.Bool(); p == jsonfile.Present {
		return b
	}
	s, p := v.Text()
	return p == jsonfile.Present && s != "" && !strings.EqualFold(s, "false") || p == jsonfile.Wrong
}

// review is a SECURITY_AUDITOR's completion.
type review struct {
	securityVerdict
	task string
	at   time.Time
	void bool   // rejected afterwards
	text string // its summary
	file string
}

// denies reports whether the review forbids every deployment.
func (r *review) denies() bool {
	return r.void || r.blocking || r.contradiction != "" || r.word != verdictApproved && r.word != verdictConditional
}

// conditional reports whether the review, unless it denies, permits deployments to staging only.
func (r *review) conditional() bool { return r.word == verdictConditional || r.high }

// condition describes a conditional approval.
func (r *review) condition() string {
	name := clean(r.task, maxText)
	if r.counts != "" {
		name += ": " + r.counts
	}
	if r.word == verdictApproved {
		return "approval counts as conditional (" + name + ")"
	}
	return "conditional approval (" + name + ")"
}

// notice describes a conditional approval that does not block.
func (r *review) notice() string {
	return r.condition() + ": minor issues are to be fixed before production"
}

// refusal describes in one line why a review forbids deployment.
func (r *review) refusal() string {
	text := "the security review " + clean(r.task, maxText) + " says "
	switch {
	case r.word == verdictRejected:
		text += "REJECTED"
	case r.blocking:
		text += "blocking_deployment"
	case r.contradiction != "":
		return clean(fmt.Sprintf("the security review %s contradicts itself: %s", r.task, r.contradiction), maxText)
	default:
		text += fmt.Sprintf("%q", r.word)
	}
	if said := clean(r.text, maxText); said != "" {
		text += ": " + said
	}
	return text
}

// compare orders reviews by precedence: the newer review is greater, and at the same time the less permissive one.
func (r *review) compare(than *review) int {
	strictness := func(r *review) int {
		switch {
		case r.denies():
			return 2
		case r.conditional():
			return 1
		}
		return 0
	}
	return cmp.Or(r.at.Compare(than.at), cmp.Compare(strictness(r), strictness(than)), cmp.Compare(r.task, than.task))
}
