package folder

import (
	"fmt"
	"slices"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// CodeSchema is the code of a finding about a field that is missing or has the wrong form.
const CodeSchema = "schema"

// MaxFindings limits the findings of one document: the first show what is wrong with it.
const MaxFindings = 50

// Findings are those of one document, at most MaxFindings and one that says that there are more. They have no subject yet.
type Findings []protocol.Finding

// Add records a finding.
func (l *Findings) Add(code, field string, severity protocol.Severity, text string) {
	switch {
	case len(*l) < MaxFindings:
		*l = append(*l, protocol.Finding{Code: code, Field: Line(field, 120), Severity: severity, Text: text})
	case len(*l) == MaxFindings:
		*l = append(*l, protocol.Finding{Code: CodeSchema, Severity: protocol.Low, Text: "this file has more defects than are listed here"})
	}
}

// Schema records a field of the wrong form. The text follows the field's name.
func (l *Findings) Schema(severity protocol.Severity, field, format string, args ...any) {
	l.Add(CodeSchema, field, severity, field+" "+fmt.Sprintf(format, args...))
}

// Defect records a defect as a low finding. A word that the document does not list is kept, means nothing to policies, and
// gives only an info finding: most words in practice are outside. An empty text is no finding.
func (l *Findings) Defect(d Defect) {
	switch severity := protocol.Low; d.Trouble {
	case Empty:
	case Unlisted:
		severity = protocol.Info
		fallthrough
	default:
		l.Schema(severity, d.Value.Path(), "%s", d.Problem)
	}
}

// Read fills v, a pointer to a struct, and records how the object differs from the struct's table.
func (l *Findings) Read(o jsonfile.Object, v any) {
	Fill(o, v)
	for _, d := range TableOf(v).Check(o) {
		l.Defect(d)
	}
}

// About returns the findings with a subject.
func (l Findings) About(s protocol.Subject) []protocol.Finding {
	list := slices.Clone(l)
	for i := range list {
		list[i].Subject = s
	}
	return list
}
