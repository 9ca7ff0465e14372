package protocol

import (
	"path"
	"strings"
	"time"
)

// Lock is a claim on a shared resource, in a file or in the kernel.
type Lock struct {
	Resource string `json:"resource"`
	// Holder is the agent's name, or for a kernel lock a description of the process.
	Holder   string    `json:"holder"`
	Process  Identity  `json:"process,omitzero"`
	Acquired time.Time `json:"acquired,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	// Zoneless: its times have no zone.
	Zoneless bool `json:"zoneless,omitempty"`
	// Fence is the fencing token, if locks are numbered: it only grows. 0: none.
	Fence uint64 `json:"fence,omitempty"`
	// Kernel: the kernel holds the lock for a live process (flock) and releases it when the process ends. It is
	// display-only.
	Kernel bool `json:"kernel,omitempty"`
	// Ref is the file, with the sum of this lock's own entry: the sum changes when the lock is renewed.
	Ref Ref `json:"ref"`
}

// Question is an agent's request for a human decision.
type Question struct {
	ID       string   `json:"id"`
	Agent    string   `json:"agent"`
	Task     string   `json:"task,omitempty"`
	Text     string   `json:"text"` // one line: the question itself
	Detail   string   `json:"detail,omitempty"`
	Options  []string `json:"options,omitempty"` // verbatim
	Blocking bool     `json:"blocking"`
	Severity Severity `json:"severity"`
	// Due is when the operator is notified; until then another party may settle the question. Zero: at once.
	Due time.Time `json:"due,omitzero"`
	// Steers: the protocol's answer can stop the task and change its requirements.
	Steers bool `json:"steers,omitempty"`
	Ref    Ref  `json:"ref"`
}

// Finding is a problem that steward does not repair: a field, a transition, a violation. A finding of severity high or
// critical, or with Call, also alerts the operator, once per Subject, Code and Field, until the files no longer show
// it. Other findings are only listed.
type Finding struct {
	Subject  Subject  `json:"subject"`
	Code     string   `json:"code"` // closed set per adapter, e.g. "schema"
	Field    string   `json:"field,omitempty"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	// Path is the file that shows it, relative to the project; "" if no single file does.
	Path string `json:"path,omitempty"`
	// Call: the protocol requires an operator here, whatever the severity.
	Call bool `json:"call,omitempty"`
	// Settle is the label by which the operator settles the finding ("Reviewed"), if a decision ends the matter
	// although the files may keep showing it. "" offers nothing.
	Settle string `json:"settle,omitempty"`
}

// Locate completes the paths of the findings, which the adapter gives relative to base. A finding without a file gets
// the file of its task, agent or lock; the subject of a project's finding is the file itself.
func (s *Snapshot) Locate(base string) {
	var files map[Subject]string
	for i := range s.Findings {
		f := &s.Findings[i]
		switch {
		case f.Path != "":
		case f.Subject.Kind == KindProject:
			f.Path = f.Subject.ID
		default:
			if files == nil {
				files = s.filesOfSubjects()
			}
			f.Path = files[Subject{Kind: f.Subject.Kind, ID: f.Subject.ID}]
		}
		if f.Path != "" && base != "" && !strings.HasPrefix(f.Path, base+"/") && !strings.HasPrefix(f.Path, ".git/") {
			f.Path = path.Join(base, f.Path)
		}
	}
}

func (s *Snapshot) filesOfSubjects() map[Subject]string {
	files := make(map[Subject]string, len(s.Tasks)+len(s.Agents)+len(s.Locks))
	for i := range s.Tasks {
		files[Subject{Kind: KindTask, ID: s.Tasks[i].ID}] = s.Tasks[i].Ref.Path
	}
	for i := range s.Agents {
		files[Subject{Kind: KindAgent, ID: s.Agents[i].Name}] = s.Agents[i].Ref.Path
	}
	for i := range s.Locks {
		files[Subject{Kind: KindLock, ID: s.Locks[i].Resource}] = s.Locks[i].Ref.Path
	}
	return files
}

// Event is something that happened; Name is the protocol's own term for it.
type Event struct {
	Subject Subject   `json:"subject"`
	Name    string    `json:"name"`
	Agent   string    `json:"agent,omitempty"`
	At      time.Time `json:"at"`
	Text    string    `json:"text"`
	Ref     Ref       `json:"ref,omitzero"`
}

// Measure is one metric of a project, in its protocol's own terms. Name is from a closed set per adapter and ends with
// its unit (time_per_agent_seconds); Agent is "" if the metric covers all agents.
// See docs/decisions.md, "Adapters supply protocol-specific events and measures".
type Measure struct {
	Name  string  `json:"name"`
	Agent string  `json:"agent,omitempty"`
	Value float64 `json:"value"`
}
