package ralph

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// result is the content of a step's result file (protocol 002, Epoch-Named Result Files).
type result struct {
	gate        string // PASS, FAIL, FIX, SKIP, or a word that the agent defines
	invalidGate string // invalid content in place of a gate value
	status      string // success, failure, partial, or another word
	completed   jsonfile.Stated
	errors      []string

	exitCode   *int64
	seconds    float64
	iterations int64
	pr         string
}

// gateWord matches any value that an agent may define for itself (protocol 002, Gate Result Values).
var gateWord = folder.Pattern(`^[A-Z]{3,10}$`)

const maxErrors = 5

func decodeResult(o jsonfile.Object) result {
	r := result{}
	r.status, _ = o.String("status")
	r.status = folder.Line(r.status, 40)
	r.completed = o.FirstStated("completed_at", "started_at")
	outputs, _ := o.Object("outputs")
	if word, ok := outputs.String("gate_result"); ok.OK() && gateWord().MatchString(word) {
		r.gate = word
	} else if ok != jsonfile.Missing && ok != jsonfile.Null {
		r.invalidGate = folder.Line(string(outputs.Get("gate_result").Raw()), 40)
	}
	if code, ok := o.Int("exit_code"); ok.OK() {
		r.exitCode = &code
	}
	r.seconds, _ = o.Number("duration_seconds")
	r.iterations, _ = o.Int("iterations_completed")
	url, _ := outputs.String("pr_url")
	r.pr = folder.Line(url, 300)
	items, _ := o.Array("errors")
	for _, v := range items {
		if text := errorText(v); text != "" && len(r.errors) < maxErrors {
			r.errors = append(r.errors, text)
		}
	}
	return r
}

// errorText reads an error given as a text, or as an object with a message.
func errorText(v jsonfile.Value) string {
	if text, ok := v.Text(); ok.OK() {
		return folder.Line(text, 300)
	}
	o, _ := v.Object()
	return folder.Line(folder.FirstText(o, "message", "error", "reason"), 300)
}

// checkpoint is a structured checkpoint (protocol 002, Structured Checkpoints).
type checkpoint struct {
	step string // the next step, else the status
	at   jsonfile.Stated
}

func decodeCheckpoint(o jsonfile.Object) checkpoint {
	c := checkpoint{at: o.FirstStated("timestamp")}
	status, _ := o.String("status")
	c.step = folder.Line(status, 40)
	next, _ := o.Strings("next_steps")
	for _, n := range next {
		if n = folder.Line(strings.TrimSpace(n), 200); n != "" {
			c.step = n
			break
		}
	}
	return c
}

// resume is the state of the program's own attempts to resume a worker (resume-state.json).
type resume struct {
	attempts, most int64
	cooling        time.Time
	terminal       bool
	reason         string
}

// mostResumes is the default for a missing max_attempts.
const mostResumes = 5

// usedUp reports whether the program does not try again.
func (r *resume) usedUp() bool { return r.terminal || r.attempts >= r.most }

func decodeResume(o jsonfile.Object) resume {
	r := resume{most: mostResumes}
	for _, key := range []string{"attempts", "attempt_count"} { // the second counts if both are there
		if n, ok := o.Int(key); ok.OK() && n >= 0 {
			r.attempts = n
		}
	}
	if n, ok := o.Int("max_attempts"); ok.OK() && n >= 0 {
		r.most = n
	}
	if n, ok := o.Number("cooldown_until"); !ok.OK() || n > 0 {
		r.cooling = o.FirstStated("cooldown_until").Latest()
	}
	r.terminal, _ = o.Bool("terminal")
	r.reason, _ = o.String("terminal_reason")
	r.reason = folder.Line(r.reason, 200)
	return r
}

// decodeViolation reads violation_status.txt: its first line (protocol 002, On Violation).
func decodeViolation(text []byte) (string, error) {
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return folder.Line(string(bytes.TrimSpace(first)), 200), nil
}

// decodeBlocked lists the blockers that an iteration summary names (protocol 002, Iteration Summaries).
func decodeBlocked(text []byte) ([]string, error) {
	var items []string
	in := false
	for line := range bytes.Lines(text) {
		bare := strings.TrimSpace(string(line))
		if strings.HasPrefix(bare, "#") {
			in = strings.EqualFold(strings.TrimSpace(strings.TrimLeft(bare, "#")), "blocked")
			continue
		}
		item, ok := strings.CutPrefix(bare, "- ")
		if in && ok && len(items) < maxErrors && !strings.EqualFold(strings.Trim(item, " .()"), "none") && strings.TrimSpace(item) != "" {
			items = append(items, folder.Line(strings.TrimSpace(item), 200))
		}
	}
	return items, nil
}

var errNotWorker = errors.New("no worker folder's name")

// workerName splits "worker-TASK-001-1234567890". A planning run has a word between id and epoch.
func workerName(name string) (id string, epoch int64, plan bool, err error) {
	rest, ok := strings.CutPrefix(name, "worker-")
	id = taskID().FindString(rest)
	if !ok || id == "" || !strings.HasPrefix(rest, id+"-") || !jsonfile.PlainName(name) {
		return "", 0, false, errNotWorker
	}
	rest = rest[len(id)+1:]
	plan = strings.HasPrefix(rest, "plan-")
	if i := strings.LastIndexByte(rest, '-'); i >= 0 {
		rest = rest[i+1:]
	}
	// Some examples in the document end in a word that is not an epoch; such names count as oldest.
	epoch, numErr := strconv.ParseInt(rest, 10, 64)
	if numErr != nil || epoch < 0 || epoch > 1<<40 {
		epoch = 0
	}
	return id, epoch, plan, nil
}

// resultName splits "1705312200-engineering.security-audit-result.json" into epoch and step.
func resultName(name string) (step string, epoch int64, ok bool) {
	bare, ok := strings.CutSuffix(name, "-result.json")
	head, step, cut := strings.Cut(bare, "-")
	if !ok || !cut || step == "" {
		return "", 0, false
	}
	epoch, err := strconv.ParseInt(head, 10, 64)
	return step, epoch, err == nil && epoch >= 0
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
