package mailbox

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The states of a task (protocol 003, Task State Transitions).
const (
	pending        = "pending"
	inProgress     = "in_progress"
	awaitingReview = "awaiting_review"
	completed      = "completed"
	rejected       = "rejected"
)

// The states of a build (protocol 003, Build Result Object).
const (
	buildSuccess       = "success"
	buildFailed        = "failed"
	buildNotApplicable = "not_applicable"
	buildNotVerified   = "not_verified"
)

// issue is a defect of a file that can still be used.
type issue struct {
	code, field string
	severity    protocol.Severity
	text        string
}

// maxIssues limits the issues recorded of one file.
const maxIssues = 40

// issues collects defects, up to maxIssues.
type issues []issue

func (l *issues) add(code, field string, severity protocol.Severity, text string) {
	switch {
	case len(*l) < maxIssues:
		*l = append(*l, issue{code, line(field, 120), severity, text})
	case len(*l) == maxIssues:
		*l = append(*l, issue{"schema", "", protocol.Low, "more is wrong with this file than is listed"})
	}
}

func (l *issues) schema(field, text string) { l.add("schema", field, protocol.Medium, text) }

// plainID reports whether an id may become part of a file name.
func plainID(id string) bool {
	return jsonfile.PlainName(id) && !strings.HasPrefix(id, ".") && len(id) <= 120
}

// line turns a foreign text into one line for display, cut after n bytes.
func line(s string, n int) string {
	cut := len(s) > 4*n
	if cut {
		s = s[:4*n]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(s) <= n && !cut {
		return s
	}
	s = s[:min(len(s), n)]
	return strings.ToValidUTF8(s, "") + "…"
}

// priorityOf reads a priority: one of the protocol's words, or a number where 0 is critical and 1 is high.
func priorityOf(v jsonfile.Value) protocol.Priority {
	word, isText := v.Text()
	n, isNumber := v.Int()
	if i, err := strconv.Atoi(strings.TrimPrefix(strings.ToLower(word), "p")); isText.OK() && err == nil {
		n, isNumber = int64(i), jsonfile.Present
	}
	if !isNumber.OK() {
		p, _ := protocol.ParsePriority(strings.TrimSpace(word))
		return p
	}
	switch {
	case n <= 0:
		return protocol.PriorityCritical
	case n == 1:
		return protocol.PriorityHigh
	case n == 2:
		return protocol.PriorityMedium
	}
	return protocol.PriorityLow
}

// textOf returns the first of the fields that contains text.
func textOf(o jsonfile.Object, keys ...string) string {
	for _, key := range keys {
		if s, ok := o.String(key); ok.OK() && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// past limits a stated time to the time of the scan, because other clocks may be ahead.
func (p *Project) past(t time.Time) time.Time {
	if t.After(p.Now) {
		return p.Now
	}
	return t
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// sortedKeys lists a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
