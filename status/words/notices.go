package words

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// texts are the templates of a notice. Empty lines of the detail are left out. A template may name the facts of the notice,
// and: human, cause (the sentence of the verdict), follows, title, directive, list and the other names in noticeFact.
type texts struct {
	summary string
	detail  []string
	spoken  string
}

var notices = map[protocol.Phrase]texts{
	protocol.PhraseUntakenLong: {"No agent has taken {title} for {limit exact}",
		[]string{"Its request has been open since {at zoned}; [{?name}{agent} is {name}|its agent is not known here].{directive}"}, "No agent takes {title}."},
	protocol.PhraseOverrun:  {"{title} is over its time; {base}", []string{"Its limit of {limit exact} passed at {at zoned}.{directive}"}, "{title} is over its time."},
	protocol.PhraseStalled:  {"No progress of {title}", []string{"It promised an update every {limit exact}; the last sign was at {at}.{directive}"}, "No progress of {title}."},
	protocol.PhraseTaskLost: {"{title} is lost", []string{"{cause}.{directive}"}, "{human}, {title} is lost."},
	protocol.PhraseDecision: {"Your decision is needed: {text}", []string{"{title} asks: {asked}.{directive}"}, "{human}, your decision is needed: {text}."},
	protocol.PhraseRetriesUsed: {"{name} has used its {count} retries of this hour", []string{"Further retries wait until the hour is over ({text})."},
		"{human}, the retries of project {name} are used up."},

	protocol.PhraseAgentDead: {"{agent} is dead[, probably in task {task}]", []string{"{cause}[{?task}. In flight: {list}.{directive} {follows}]"},
		"{human}, the agent {agent} is dead."},
	protocol.PhraseAgentSilentIn: {"{agent} is silent, probably in task {task}", []string{"{cause}. In flight: {list}.{directive} {follows}"},
		"{human}, the agent {agent} is dead."},
	protocol.PhraseAgentHangs: {"{agent} hangs[ in task {task}]", []string{"{cause}[{?task}. In flight: {list}.{directive}]"}, "{human}, the agent {agent} hangs."},
	protocol.PhraseAgentEnded: {"{agent} hung in task {task}, and was ended", []string{"{cause}"}, "{human}, the agent {agent} hung and was ended."},
	protocol.PhraseAgentError: {"{agent} reports an error", []string{"{text}", "[{?task}In flight: {list}.{directive}]"}, "{human}, the agent {agent} reports an error."},
	protocol.PhraseManySilent: {"{count} agents fell silent at once", []string{"{names}: no heartbeat, no live process, no progress. " +
		"steward itself had trouble reading files just then, so it waited {limit exact} longer.[ In flight: {list}.]"}, "{human}, {count} agents fell silent at once."},
	protocol.PhraseLockOvertime: {"{agent} holds the lock on {name} over its time", []string{"It ended at {at zoned}: {cause}."},
		"{agent} holds the lock on {name} over its time."},

	protocol.PhraseQuestion: {"{agent}: {text}", []string{"{cut}", "{name}", "[Task: {task}]", "{directive}", "[{count} more options are left out]"},
		"{human}, {agent} asks: {text}"},
	protocol.PhraseFinding: {"{text}", []string{"{cut}", "[{?list}steward only observes {name} here and ends no process. To end them: kill {pids}. " +
		"To let steward do it: {setting} = \"act\".]", "{directive}"}, "{human}, {text}."},
	protocol.PhraseRepairs: {"{repair}? {subjects}", []string{"steward asks before it changes anything here:", "{repairs}"}, "{human}, {repair}?"},
	protocol.PhraseFault:   {"{name}: [{text}|{base}]", []string{"{lines}", "It has been so since {at recent}."}, "{human}, in project {name}: [{text}|{base}]."},
	protocol.PhraseFaults:  {"{name}: {faults}", []string{"{lines}", "[and {of} more; see: steward status]"}, "{human}, in project {name} {faults}."},

	protocol.PhraseGateShut: {"No room for {tasks} since {at}: {list}", []string{"Tasks have been held back since {at zoned} because of {list}." +
		"[ They allow no more than {percent} to be used.][ Largest consumers: {text}]"},
		"{human}, tasks are held back [because {agent} is full|for lack of {name}]."},
	protocol.PhraseStarving: {"{Tasks have} waited for room since {at}", []string{"Others were admitted meanwhile. These wait: {list}[ and {of} more]. " +
		"'steward explain' says what each waits for, 'steward release' releases it."}, "{human}, tasks have waited for room for very long."},
	protocol.PhraseFilesRunOut: {"Open files run out", []string{"At this rate none will be left in less than half a minute. {name}. " +
		"Tasks are held back meanwhile.[ Largest consumers: {text}]"}, "{human}, this machine is running out of open files."},
}

// noticePhrases are sentences within notices: what steward does, and why an incident is over.
var noticePhrases = map[protocol.Phrase]string{
	protocol.PhraseTooManyFiles:  "too many open files, so steward cannot see or change some of what is there",
	protocol.PhraseNoLongerSo:    "it is no longer so",
	protocol.PhraseTaskCancelled: "the task was cancelled",
	protocol.PhraseNowCompleted:  "the task completed",
	protocol.PhraseIssuedAgain:   "the task was issued again",

	protocol.PhraseOnlyObserves: "steward only observes here and changes nothing",
	protocol.PhraseAsks:         "steward asks before it changes anything here",
	protocol.PhraseYields:       "steward changes nothing now: {text}",
	protocol.PhrasePutsBack:     "steward puts it back once nothing has shown work on it for a while",
	protocol.PhraseIssuesAgain: "'steward retry ID' issues one again now, 'steward cancel ID' gives it up; otherwise it is issued again " +
		"once its attempt is proved over",

	protocol.PhraseSaidProgress: "{title}: {count} percent complete[, {text}].",
	protocol.PhraseSaidResult:   "{title} is completed[: {text}].",

	protocol.PhraseProcessesEnded:  `Its processes are ended (hung_action = "end").`,
	protocol.PhraseEndedBefore:     nothingEnded + "they were ended for this work once, and the next ones hang too.",
	protocol.PhraseNoTaskInHand:    nothingEnded + "it has no task in hand.",
	protocol.PhraseWorkerNotIts:    nothingEnded + "the worker that has its task is not among its living processes.",
	protocol.PhraseNoClaimNames:    nothingEnded + "no claim names the process that has its task.",
	protocol.PhraseSeveralBearName: nothingEnded + "several processes bear its name, and nothing says which of them has the task.",
	protocol.PhraseNoneRuns:        nothingEnded + "it has no process on record that runs.",
}

const nothingEnded = `Nothing is ended (hung_action = "end"): `

// labels are the labels of the options that steward itself offers.
var labels = map[string]string{"retry": "Run it again", "complete": "It is done", "leave": "Leave it", "done": "Taken care of", "wait": "Wait", "give_up": "Give its tasks up"}

// Alert returns the alert with the texts of its notice, if it has one, and with the labels of its options. human is the name
// that addresses the operator.
func Alert(a rules.Alert, human string, now time.Time) rules.Alert {
	a.Options = append([]rules.Option{}, a.Options...)
	for i, o := range a.Options {
		if o.Label == "" {
			if a.Options[i].Label = labels[o.ID]; a.Notice != nil && a.Options[i].Label == "" {
				a.Options[i].Label = repairLabel(a.Notice.Repairs, o.Dangerous)
			}
			if o.ID == "retry" && a.Kind == "agent_dead" {
				a.Options[i].Label = "Issue its tasks again"
			}
		}
	}
	if len(a.Options) == 0 {
		a.Options = nil
	}
	n := a.Notice
	if n == nil {
		return a
	}
	switch get := noticeFacts(n, human, now); {
	case a.Resolve:
		a.Detail = fill(template(n.Phrase, ""), get)
	case n.Failure != nil:
		a.Summary, a.Spoken, a.Detail = failure(n, human, now)
	default:
		t := notices[n.Phrase]
		a.Summary, a.Spoken = fill(t.summary, get), fill(t.spoken, get)
		var lines []string
		for _, line := range t.detail {
			if line = strings.TrimSpace(fill(line, get)); line != "" {
				lines = append(lines, line)
			}
		}
		if a.Detail = strings.Join(lines, "\n"); n.Phrase == protocol.PhraseAgentHangs && n.Follows != "" {
			a.Detail = strings.TrimSuffix(a.Detail, ".") + ". " + fill(template(n.Follows, ""), get)
		}
	}
	a.Summary = clip(a.Summary, rules.MaxSummary)
	return a
}

// failure words a task that needs a person.
func failure(n *rules.Notice, human string, now time.Time) (summary, spoken, detail string) {
	task, ruling := n.Failure.Task, n.Failure.Ruling
	ruling.Cause = n.Cause
	if lost := Sentence(n.Failure.Lost, now); lost != "" {
		o := *task.Outcome
		o.Failures = append([]protocol.Failure{}, o.Failures...)
		o.Failures[0].Message = lost
		task.Outcome = &o
	}
	summary, spoken, detail = Announce(task, ruling, human)
	if len(n.List) > 0 {
		detail += " It asks: " + strings.Join(n.List, "; ") + "."
	}
	return summary, spoken, detail
}

// noticeFacts looks up what the templates of a notice name.
func noticeFacts(n *rules.Notice, human string, now time.Time) lookup {
	return func(name string) (string, bool) {
		if text, known := noticeFact(name, n, human, now); known {
			return text, text != ""
		}
		return fact(name, &n.Facts, now)
	}
}

// noticeFact returns what a notice adds to its facts; known says that there is such a name.
func noticeFact(name string, n *rules.Notice, human string, now time.Time) (text string, known bool) {
	switch name {
	case "human":
		return human, true
	case "title":
		return n.Title, true
	case "cause":
		return Sentence(n.Cause, now), true
	case "follows":
		return fill(template(n.Follows, ""), noticeFacts(n, human, now)), true
	case "directive":
		if n.Quote == "" {
			return "", true
		}
		return " You had asked: “" + n.Quote + "”", true
	case "cut": // the summary, if it is too long
		summary := fill(notices[n.Phrase].summary, noticeFacts(n, human, now))
		if clip(summary, rules.MaxSummary) == summary {
			summary = ""
		}
		return summary, true
	case "list", "?list":
		return strings.Join(n.List, ", "), true
	case "asked":
		return strings.Join(n.List, "; "), true
	case "pids":
		return strings.Join(n.List, " "), true
	case "names":
		return strings.Join(n.Names, ", "), true
	case "repair":
		return cmp.Or(repairLabel(n.Repairs, false), repairLabel(n.Repairs, true)), true
	case "subjects", "repairs":
		return repairFacts(n.Repairs, name, now), true
	case "lines":
		return lines(n), true
	case "setting":
		return "[project.mode] " + n.Name, true
	case "faults":
		if n.Count == 1 {
			return "one more fault stays", true
		}
		return strconv.Itoa(n.Count) + " faults stay", true
	case "tasks":
		if n.Count == 1 {
			return "a task", true
		}
		return strconv.Itoa(n.Count) + " tasks", true
	case "Tasks have":
		if n.Count == 1 {
			return "A task has", true
		}
		return strconv.Itoa(n.Count) + " tasks have", true
	case "percent":
		if n.Line == 0 {
			return "", true
		}
		return fmt.Sprintf("%.0f %%", 100*n.Line), true
	}
	return "", false
}

func lines(n *rules.Notice) string {
	if len(n.List) == 0 {
		return strings.Join(n.Names, "\n")
	}
	var list []string
	for _, line := range n.List {
		list = append(list, clip(line, 2*rules.MaxSummary))
	}
	return strings.Join(list, "\n")
}

// clip shortens a text to n characters.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
