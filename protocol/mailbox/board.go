package mailbox

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// board is status.json: the roles and their current work.
type board struct {
	roles     []role
	there     bool // the orchestrator has an entry
	running   bool
	pid       int
	startedAt jsonfile.Stated
	started   time.Time    // what startedAt means
	sum       jsonfile.Sum // of the orchestrator's entry
	issues    issues
}

// role is one agent's entry.
type role struct {
	name, status, task string
	stated             jsonfile.Stated // lastActivity
	at                 time.Time       // what stated means
	mark               string
}

// roleKeys maps the keys of status.json to agents; teamLead is the older spelling of techLead.
var roleKeys = [...]struct{ key, name string }{
	{"planner", "planner"}, {"designer", "designer"}, {"techLead", "tech-lead"}, {"teamLead", "tech-lead"}, {"developer", developer},
}

const (
	orchestrator = "orchestrator"
	developer    = "developer"
)

func decodeBoard(o jsonfile.Object) board {
	var b board
	for _, k := range roleKeys {
		if k.key == "teamLead" && o.Has("techLead") || !o.Has(k.key) {
			continue
		}
		entry, ok := o.Object(k.key)
		if !ok.OK() {
			b.issues.schema(k.key, k.key+" is not an object")
			continue
		}
		b.roles = append(b.roles, b.role(k.key, k.name, entry))
	}
	entry, ok := o.Object(orchestrator)
	b.there = ok.OK()
	if ok == jsonfile.Wrong {
		b.issues.schema(orchestrator, "orchestrator is not an object")
	}
	b.running, _ = entry.Bool("running")
	b.startedAt = entry.FirstStated("startedAt")
	b.sum = jsonfile.SumOf(entry.Value().Raw())
	if n, err := pidOf(entry.Get("pid")); err == nil {
		b.pid = n
	} else if b.there {
		b.issues.schema("orchestrator.pid", "orchestrator.pid is not a process number")
	}
	return b
}

func (b *board) role(key, name string, o jsonfile.Object) role {
	r := role{name: name, mark: string(jsonfile.SumOf(o.Value().Raw()))}
	r.status = line(textOf(o, "status"), 40)
	if r.status == "" {
		b.issues.schema(key+".status", key+".status is missing")
	}
	if at, ok := o.Stated("lastActivity"); ok.OK() {
		r.stated = at
	} else if ok == jsonfile.Wrong {
		b.issues.schema(key+".lastActivity", key+".lastActivity is not a time")
	}
	if task := textOf(o, "currentTask"); plainID(task) {
		r.task = task
	} else if task != "" {
		b.issues.schema(key+".currentTask", key+".currentTask is not a task id")
	}
	return r
}

// idleWords are the statuses in which nothing is expected of an agent; every other status means work.
var idleWords = map[string]bool{"": true, "idle": true, "completed": true, "complete": true, "done": true, "stopped": true, "offline": true,
	"waiting": true, "error": true, "failed": true, "none": true}

func (r *role) idle() bool { return idleWords[strings.ToLower(r.status)] }

// limit is how long the role may be silent in its current work.
func (r *role) limit(o Options) time.Duration {
	switch {
	case r.name == developer:
		return o.Developer
	case strings.Contains(strings.ToLower(r.status), "review"):
		return o.Review
	}
	return o.Lead
}

// maxPID is above every pid that a system assigns.
const maxPID = 1 << 30

// pidOf reads a pid. It returns 0 for a missing value, null and 0.
func pidOf(v jsonfile.Value) (int, error) {
	if n, ok := v.Int(); ok.OK() && n >= 0 && n < maxPID {
		return int(n), nil
	}
	if s, ok := v.Text(); ok.OK() {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err == nil && n >= 0 && n < maxPID {
			return n, nil
		}
	}
	if k := v.Kind(); k == "missing" || k == "null" {
		return 0, nil
	}
	return 0, fmt.Errorf("%w: no process number", jsonfile.ErrBad)
}

// decodePID reads orchestrator.pid: a number, or an object with the number under "pid".
func decodePID(text []byte) (int, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return 0, fmt.Errorf("read process number: %w", jsonfile.ErrTorn)
	}
	if o, err := jsonfile.Parse(text); err == nil {
		return pidOf(o.Get("pid"))
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n <= 0 || n >= maxPID {
		return 0, fmt.Errorf("read process number: %w: %q", jsonfile.ErrBad, line(string(text), 40))
	}
	return n, nil
}

// atWork reports whether a role works under a living orchestrator. Such a role counts as present however silent it is: it
// is the orchestrator's child, and the orchestrator notices its end.
func (p *Project) atWork(r *role) bool { return p.chief.lives() && !r.idle() }

// agents returns the roles as agents. Without an orchestrator nothing is expected of them, because they are its children.
func (p *Project) agents(b *board) []protocol.Agent {
	var list []protocol.Agent
	if a, ok := p.chiefAgent(b); ok {
		list = append(list, a)
	}
	for i := range b.roles {
		r := &b.roles[i]
		a := protocol.Agent{Name: r.name, Status: r.status, Limit: r.limit(p.opts), Idle: r.idle() || !p.chief.lives(),
			Beat: protocol.Beat{Mark: r.mark, At: p.past(r.stated.Latest()), Stated: r.stated.At, Zoneless: r.stated.Zoneless}}
		if p.atWork(r) {
			a.Presence, a.Evidence = protocol.PresenceHere, p.chief.presence()
		}
		if word := strings.ToLower(r.status); word == "error" || word == "failed" {
			a.Failed, a.Complaint = true, "its status is "+word
		}
		if r.task != "" {
			a.Tasks = []string{r.task}
		}
		list = append(list, a)
	}
	return list
}
