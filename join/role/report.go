package role

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
)

// reportKeys identify a run's own report, the JSON object at the end of its output.
var reportKeys = []string{"status", "summary", "result", "issues", "errors", "next_steps", "next_actions", "output", "validation", "approval_status", "question"}

// longestSummary bounds the last message of a run in its report, in bytes.
const longestSummary = 2000

// reportOf makes the protocol's report of a run that has not reported itself: of its exit, and of its last message.
func (r *Runner) reportOf(e worker.Ended) protocol.Report {
	rep := protocol.Report{Kind: protocol.ReportDone, Agent: r.o.Role, Fields: map[string]any{}}
	text := strings.TrimSpace(e.Output)
	said := worker.FindReport(text, reportKeys...)
	if envelope, ok := said["result"].(string); ok { // an agent's own envelope around its last message
		text = strings.TrimSpace(envelope)
		failed, _ := said["is_error"].(bool)
		if said = worker.FindReport(text, reportKeys...); failed {
			rep.Kind = protocol.ReportFailed
		}
	}
	r.read(&rep, said)
	rep.Summary = cmp.Or(rep.Summary, lastMessage(text, said != nil))
	switch errs := e.Result.Errors; {
	case e.Result.Status != "completed" && len(errs) > 0: // a command that failed has not done its task
		rep.Kind = protocol.ReportFailed
		f := errs[0]
		rep.Failure = &protocol.Failure{Code: f.Code, Message: f.Message, Severity: f.Severity, File: f.File, Line: f.Line}
		rep.Summary = cmp.Or(rep.Summary, f.Message)
	case rep.Kind == protocol.ReportFailed && rep.Failure == nil:
		code := "EXECUTION_FAILED"
		if worker.Limited(rep.Summary) != "" {
			code = "RATE_LIMITED"
		}
		rep.Failure = failure(code, cmp.Or(rep.Summary, "the run reported a failure without a reason"))
	}
	rep.Summary = cmp.Or(rep.Summary, e.Result.Body.Summary)
	return rep
}

func failure(code, message string) *protocol.Failure {
	severity := "error"
	if code == "RATE_LIMITED" {
		severity = "warning"
	}
	return &protocol.Failure{Code: code, Message: message, Severity: severity}
}

// read takes over what a run says about itself. Keys without a place in Report become Fields.
func (r *Runner) read(rep *protocol.Report, said map[string]any) {
	text := func(key string) string { t, _ := said[key].(string); return t }
	rep.Summary = cmp.Or(text("summary"), text("message"), text("question"))
	for _, key := range slices.Sorted(maps.Keys(said)) {
		value := said[key]
		switch key {
		case "summary", "message", "question":
		case "status":
			r.readStatus(rep, strings.ToLower(text(key)))
		case "files_created", "artifacts_created", "filesCreated":
			rep.Created = append(rep.Created, texts(value, "")...)
		case "files_modified", "filesModified":
			rep.Modified = append(rep.Modified, texts(value, "")...)
		case "issues":
			if n, counted := value.(float64); counted && n > 0 {
				rep.Issues = append(rep.Issues, fmt.Sprintf("the run reports %v issues", n))
			}
			rep.Issues = append(rep.Issues, texts(value, "description")...)
		case "next_steps", "next_actions":
			rep.Next = append(rep.Next, texts(value, "action")...)
		case "options":
			rep.Options = texts(value, "label")
		case "errors":
			if all := texts(value, "message"); len(all) > 0 {
				rep.Failure = failure("EXECUTION_FAILED", all[0])
				if first, ok := value.([]any)[0].(map[string]any); ok {
					code, _ := first["code"].(string)
					rep.Failure.Code = cmp.Or(code, rep.Failure.Code)
				}
			}
		default:
			rep.Fields[r.o.Returns+key] = value
		}
	}
	if rep.Kind != protocol.ReportFailed {
		rep.Failure = nil
	}
}

// readStatus takes the kind of the report from a status. A word that names no kind is kept, for the protocol to read.
func (r *Runner) readStatus(rep *protocol.Report, status string) {
	switch status {
	case "", "completed", "complete", "done", "success":
	case "failed", "failure", "error", "timeout", "partial":
		rep.Kind = protocol.ReportFailed
	case "blocked":
		rep.Kind = protocol.ReportBlocked
	default:
		rep.Fields[r.o.Returns+"status"] = status
	}
}

// texts are the texts of a list, whose entries may be objects with the text under a key.
func texts(value any, key string) []string {
	list, _ := value.([]any)
	var all []string
	for _, entry := range list {
		if object, ok := entry.(map[string]any); ok {
			entry = object[key]
		}
		if text, ok := entry.(string); ok && text != "" {
			all = append(all, text)
		}
	}
	return all
}

// lastMessage is the end of a text that is not the run's own report.
func lastMessage(text string, reported bool) string {
	if reported {
		return ""
	}
	if len(text) > longestSummary {
		text = strings.ToValidUTF8(text[len(text)-longestSummary:], "")
		if _, rest, cut := strings.Cut(text, "\n"); cut {
			text = rest
		}
	}
	return strings.TrimSpace(text)
}
