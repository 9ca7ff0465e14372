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

// reviewReader gathers what the fields of a security review say.
type reviewReader struct {
	securityVerdict
	message *message
	denials []string
	checks  []string         // they deny an approval, and may fail where it is conditional
	issues  map[string]int   // by severity
	lists   []jsonfile.Value // of issues
}

// decodeVerdict reads a security review. Its fields count at the top level, in output and in validation.
func decodeVerdict(m *message, o jsonfile.Object) securityVerdict {
	r := reviewReader{message: m, issues: map[string]int{}}
	r.read(o)
	for _, key := range []string{"output", "validation"} {
		if child, p := o.Object(key); p.OK() {
			r.read(child)
		} else if p != jsonfile.Missing {
			r.denials = append(r.denials, key+" is not an object")
		}
	}
	if r.word == "" {
		return r.securityVerdict // no review
	}
	for _, list := range r.lists {
		if kind := list.Kind(); kind != "array" {
			m.note("schema", protocol.Low, list.Path(), list.Path()+" must be an array, not "+kind)
		}
	}
	if validation, _ := o.Object("validation"); count(validation.Get("issues")) > 0 {
		r.checks = append(r.checks, "issues is not empty")
	}
	if r.issues["critical"] > 0 {
		r.denials = append(r.denials, "critical_issues is not empty")
	}
	if status, p := o.String("status"); p != jsonfile.Missing && fold(status) != "COMPLETED" && (!p.OK() || fold(status) != "") {
		r.denials = append(r.denials, "status is not completed")
	}
	if r.word != verdictConditional {
		r.denials = append(r.checks, r.denials...)
	}
	r.contradiction, r.high, r.counts = strings.Join(r.denials, "; "), r.issues["high"] > 0, countText(r.issues)
	return r.securityVerdict
}

// read reads the fields of one object.
func (r *reviewReader) read(o jsonfile.Object) {
	for _, key := range o.Keys() {
		value, name := o.Get(key), strings.ToLower(strings.TrimSpace(key))
		severity, isList := strings.CutSuffix(key, "_issues")
		switch {
		case key == "approval_status":
			r.setWord(value)
		case key == "blocking_deployment":
			r.blocking = r.blocking || raised(value)
		case name == "security_passed" && denies(value):
			// See docs/decisions.md, "A conditional review may fail checks, but not the security check".
			r.denials = append(r.denials, clean(key, 60)+" is not true")
		case strings.HasSuffix(name, "_passed") && denies(value):
			r.checks = append(r.checks, clean(key, 60)+" is not true")
		case key == "acceptance_criteria_met" && unmetCriteria(value) != "":
			r.checks = append(r.checks, unmetCriteria(value))
		case isList && slices.Contains(severities, severity):
			r.issues[severity] += count(value)
			r.lists = append(r.lists, value)
		}
	}
}

// setWord reads approval_status. A second value must agree with the first.
func (r *reviewReader) setWord(value jsonfile.Value) {
	word, p := value.Text()
	if !p.OK() {
		r.message.note("schema", protocol.Medium, value.Path(), value.Path()+" must be a string, not "+value.Kind())
		word = value.Kind()
	}
	word = cmp.Or(fold(clean(word, 60)), "NOTHING")
	if r.word = cmp.Or(r.word, word); r.word != word {
		r.denials = append(r.denials, "approval_status is listed twice with different words")
	}
}

// severities are those of the lists of issues (protocol 004, Security Response Format), most severe first.
var severities = []string{"critical", "high", "medium", "low"}

func countText(issues map[string]int) string {
	var counted []string
	for _, severity := range severities {
		if n := issues[severity]; n > 0 {
			counted = append(counted, fmt.Sprintf("%d %s", n, severity))
		}
	}
	return strings.Join(counted, ", ")
}

// unmetCriteria returns how many entries of acceptance_criteria_met are not true; "" if all are, or if the field is
// missing.
func unmetCriteria(v jsonfile.Value) string {
	const key = "acceptance_criteria_met"
	items, p := v.Array()
	if !p.OK() && denies(v) {
		return key + " is not true"
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
func (r *review) denies() bool { return r.void || r.securityVerdict.denies() }

func (v *securityVerdict) denies() bool {
	return v.blocking || v.contradiction != "" || v.word != verdictApproved && v.word != verdictConditional
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
