package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// Summary describes a task's outcome in plain text lines: its agent's summary, artifacts, changed files, errors with
// their place. Human names the person who makes decisions. Project goes into the commands of the next actions; "" when
// the reader is already in the project.
func Summary(d agentstatus.Detail, human, project string) []string {
	r := d.Result
	if r == nil {
		return []string{Standing(d)}
	}
	first := Standing(d)
	if r.Seconds > 0 {
		first += " after " + Span(time.Duration(min(r.Seconds, 1e9)*float64(time.Second)))
	}
	lines := []string{joined(": ", first, terminal.Clean(r.Body.Summary))}
	for _, name := range r.Body.Artifacts {
		lines = append(lines, "  created   "+terminal.Clean(name))
	}
	for _, name := range r.Body.Modified {
		lines = append(lines, "  modified  "+terminal.Clean(name))
	}
	for _, e := range r.Errors {
		lines = append(lines, "  "+Failure(e))
	}
	if d.Output != "" {
		lines = append(lines, "  output    "+terminal.Clean(d.Output))
	}
	return append(lines, actions(d, human, project)...)
}

// Failure is one error of a result: severity, code, place and message.
func Failure(e agentstatus.TaskError) string {
	text := fmt.Sprintf("%-8s  %s", cmp.Or(terminal.Clean(e.Severity), "error"), terminal.Clean(e.Code))
	if e.File != "" {
		text += "  " + terminal.Clean(e.File)
		if e.Line > 0 {
			text += ":" + strconv.Itoa(e.Line)
		}
	}
	return joined(": ", text, terminal.Clean(e.Message))
}

// actions lists the recommended next actions, each with the command that submits it.
func actions(d agentstatus.Detail, human, project string) []string {
	var lines []string
	for i, next := range d.Result.Next {
		text := "next " + strconv.Itoa(i+1)
		if next.Priority != "" {
			text += " (" + terminal.Clean(next.Priority) + ")"
		}
		if next.Human {
			text += ", " + terminal.Clean(human) + " must decide"
		}
		lines = append(lines, text+": "+terminal.Clean(next.Action), "  "+Line(d.ID, i+1, next, project))
	}
	return lines
}

// Fact is one line of a task's page: a name and its value.
type Fact struct{ Name, Text string }

// Facts lists everything known about a task, for people. Unknown values are left out.
func Facts(d agentstatus.Detail, now time.Time) []Fact {
	var f facts
	f.request(d.Request)
	f.history(d, now)
	f.claim(d.Claim, now)
	if p := d.Progress; p != nil {
		f.add("progress", joined(", ", percent(p), steps(p), terminal.Clean(p.Step), ago(p.At, now)))
	}
	if r := d.Result; r != nil {
		f.result(r, now)
	}
	f.add("output", terminal.Clean(d.Output))
	return f
}

type facts []Fact

func (f *facts) add(name, text string) {
	if text != "" {
		*f = append(*f, Fact{name, text})
	}
}

func (f *facts) request(r *agentstatus.Request) {
	if r == nil {
		return
	}
	f.add("asks for", What(r))
	f.add("directive", terminal.Clean(r.Context.Directive))
	f.add("from", terminal.Clean(r.Source)+" to "+terminal.Clean(r.Target))
	f.add("priority", terminal.Clean(r.Priority))
	f.add("created", stamp("", r.Created))
	f.add("timeout", Span(Patience(r)-margin))
	if r.Throttle != nil {
		f.add("throttle", fmt.Sprintf("waits while its agent or the machine is over %.0f %%", 100**r.Throttle))
	}
	f.add("after", plainList(r.Coordination.After))
	f.add("related", plainList(r.Context.Related))
	f.add("to modify", plainList(r.Payload.Modify))
	f.add("to read", plainList(r.Payload.Read))
	f.add("expected", plainList(r.Payload.Artifacts))
	f.values(r.Payload.Parameters)
}

// What describes what a request asks for: its type and its main parameters.
func What(r *agentstatus.Request) string {
	text := func(key string) string {
		s, _ := r.Payload.Parameters[key].(string)
		return s
	}
	what := terminal.Clean(r.Type)
	switch r.Type {
	case Execute:
		what += " " + terminal.Clean(text("script_path"))
		args, _ := r.Payload.Parameters["args"].([]any)
		for _, a := range args {
			if s, ok := a.(string); ok {
				what += " " + terminal.Clean(terminal.ShellQuote(s))
			}
		}
	case Research:
		what = joined(": ", what, terminal.Clean(text("query")))
	case Validate:
		what += " " + terminal.Clean(text("validation_type"))
	case Deploy:
		what += " " + terminal.Clean(text("service_name")) + " to " + terminal.Clean(text("environment"))
	}
	if dry, _ := r.Payload.Parameters["dry_run"].(bool); dry {
		what += " (dry run)"
	}
	return strings.TrimSpace(what)
}

func (f *facts) history(d agentstatus.Detail, now time.Time) {
	for _, k := range d.Attempts {
		text := fmt.Sprintf("%d: %s, then %s", k.N, terminal.Clean(k.Code), terminal.Clean(k.Action))
		if k.Rule != "" {
			text += " by rule " + terminal.Clean(k.Rule)
		}
		twice := ""
		if k.Twice {
			twice = "may have run twice"
		}
		f.add("attempt", joined(", ", text, stamp("due ", k.Due), twice))
	}
	if d.State == agentstatus.StateHeld && d.Hold != nil {
		why := joined(": ", terminal.Clean(d.Hold.Reason), terminal.Clean(d.HoldWhy))
		f.add("held", joined(", ", why, stamp("since ", d.Hold.Since)))
	}
	if !d.Due.IsZero() && d.State != agentstatus.StateEnded {
		due := stamp("", d.Due)
		if left := d.Due.Sub(now); left > 0 {
			due += " (in " + Span(left) + ")"
		}
		f.add("due", due)
	}
	if d.Buried {
		f.add("dead letter", "on record")
	}
	if d.Cancelled {
		f.add("cancelled", cmp.Or(terminal.Clean(d.CancelWhy), "yes"))
	}
}

func (f *facts) claim(k *agentstatus.Claim, now time.Time) {
	if k == nil {
		return
	}
	pid := func(what string, id protocol.Identity) string {
		if !id.Proves() {
			return ""
		}
		return fmt.Sprintf("%s pid %d", what, id.PID)
	}
	f.add("claimed by", joined(", ", terminal.Clean(k.Agent), fmt.Sprintf("attempt %d", k.Attempt), pid("worker", k.Worker), pid("runs as", k.Runner), ago(k.At, now)))
}

func (f *facts) result(r *agentstatus.Result, now time.Time) {
	f.add("result", joined(", ", terminal.Clean(r.Status)+" by "+terminal.Clean(r.Source), ago(r.Completed, now)))
	f.values(r.Body.Metrics)
}

// values adds what another program has written, by name.
func (f *facts) values(all map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if raw, err := json.Marshal(all[key]); err == nil {
			f.add("  "+terminal.Clean(key), short(terminal.Clean(string(raw))))
		}
	}
}

func plainList(items []string) string {
	all := make([]string, len(items))
	for i, s := range items {
		all[i] = terminal.Clean(s)
	}
	return strings.Join(all, ", ")
}

// stamp is a time after a word; "" for none.
func stamp(word string, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return word + t.Local().Format(time.DateTime)
}

func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < 0:
		return "in " + Span(-d)
	default:
		return Span(d) + " ago"
	}
}
