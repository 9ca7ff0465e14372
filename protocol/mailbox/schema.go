package mailbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The document's two message types. Other types occur in practice.
const (
	taskAssignment   = "task_assignment"
	completionReport = "completion_report"
)

// shape is the form that a required field must have.
type shape uint8

const (
	aText shape = iota
	aList
	anObject
	aTime
	aNumber
	aBool
)

var shapeWords = [...]string{"a text", "a list", "an object", "a time", "a number", "true or false"}

// need is a required field.
type need struct {
	key string
	as  shape
}

// base lists the required fields of every message.
var base = []need{{"taskId", aText}, {"platform", aText}, {"timestamp", aTime}}

// required lists the required fields by type (protocol 003, Message Types; the last five are the program's own).
var required = map[string][]need{
	taskAssignment:         {{"title", aText}, {"instructions", aText}, {"filesToCreate", aList}, {"architecture", aText}},
	completionReport:       {{"status", aText}, {"summary", aText}, {"filesCreated", aList}, {"filesModified", aList}, {"buildResult", anObject}},
	"planning_document":    {{"productVision", aText}, {"coreFeatures", aList}, {"userFlows", aList}, {"requirements", aList}},
	"design_specification": {{"designTokens", anObject}, {"componentSpecs", aList}},
	"design_verification":  {{"verified", aBool}, {"discrepancies", aList}, {"summary", aText}},
	"review_result":        {},
	"discovery_result":     {},
}

// buildNeeds are the required fields of a build result. A build that was not run has no command.
var buildNeeds = []need{{"status", aText}, {"command", aText}, {"errors", aNumber}}

var (
	platforms   = []string{"web", "android", "ios", "custom"}
	buildStates = []string{buildSuccess, buildFailed, buildNotApplicable, buildNotVerified}
)

// checkLetter records what a message lacks. It names fields like messages[0].architecture.
func checkLetter(l *message, o jsonfile.Object) {
	at := o.Value().Path()
	if id := textOf(o, "taskId"); id != "" && l.task == "" {
		l.issues.schema(at+".taskId", "taskId is no plain name")
	}
	needs, known := required[l.kind]
	switch {
	case l.kind == "":
		l.issues.schema(at+".type", "type is missing")
		return
	case !known && (pleaKinds[l.kind] != "" || l.isAnswer()):
		return
	case !known:
		l.issues.add("type", at+".type", protocol.Low, fmt.Sprintf("the protocol has no message of type %q", l.kind))
		return
	}
	checkNeeds(&l.issues, at, o, base)
	checkNeeds(&l.issues, at, o, needs)
	if word, ok := o.String("platform"); ok.OK() && word != "" && !slices.Contains(platforms, word) {
		l.issues.add("schema", at+".platform", protocol.Low, fmt.Sprintf("platform is %q, want one of %s", line(word, 40), strings.Join(platforms, ", ")))
	}
	if l.kind == completionReport {
		l.checkReport(at, o)
	}
}

func checkNeeds(l *issues, at string, o jsonfile.Object, needs []need) {
	for _, n := range needs {
		v := o.Get(n.key)
		switch {
		case v.Kind() == "missing" || v.Kind() == "null":
			l.schema(at+"."+n.key, n.key+" is missing")
		case !n.as.fits(v):
			l.schema(at+"."+n.key, n.key+" is not "+shapeWords[n.as])
		case n.as == aText && blank(v):
			l.schema(at+"."+n.key, n.key+" is empty")
		}
	}
}

func (s shape) fits(v jsonfile.Value) bool {
	ok := jsonfile.Missing
	switch s {
	case aText:
		_, ok = v.Text()
	case aList:
		_, ok = v.Array()
	case anObject:
		_, ok = v.Object()
	case aTime:
		_, ok = v.Time()
	case aNumber:
		_, ok = v.Number()
	case aBool:
		_, ok = v.Bool()
	}
	return ok.OK()
}

func blank(v jsonfile.Value) bool {
	s, _ := v.Text()
	return strings.TrimSpace(s) == ""
}

// checkReport checks a completion report against Completion Report, Build Result Object and Build Failures. A defect in
// the build of a task has the same field name wherever the report stands.
func (m *message) checkReport(at string, o jsonfile.Object) {
	l := &m.issues
	if word, ok := o.String("status"); ok.OK() && word != awaitingReview && word != "" {
		l.schema(at+".status", fmt.Sprintf("status is %q, must be %s", line(word, 40), awaitingReview))
	}
	r, ok := o.Object("buildResult")
	if !ok.OK() {
		return
	}
	if at += ".buildResult"; m.task != "" {
		at = "buildResult"
	}
	word, _ := r.String("status")
	needs := buildNeeds
	if word == buildNotApplicable || word == buildNotVerified {
		needs = []need{{"errors", aNumber}}
	}
	checkNeeds(l, at, r, needs)
	if word != "" && !slices.Contains(buildStates, word) {
		l.add("schema", at+".status", protocol.Low, fmt.Sprintf("status is %q, want one of %s", line(word, 40), strings.Join(buildStates, ", ")))
	}
	if word == buildFailed && textOf(r, "output") == "" {
		l.schema(at+".output", "the build failed, and its output is missing")
	}
}
