package mailbox

import (
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// board is status.json: the roles and their current work.
type board struct {
	roles     []role
	there     bool // the orchestrator has an entry
	running   bool
	failed    int // tasks that failed in the orchestrator's last cycle
	pid       int
	startedAt jsonfile.Stated
	started   time.Time    // what startedAt means
	sum       jsonfile.Sum // of the orchestrator's entry
	issues    folder.Findings
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
	{"planner", "planner"}, {"designer", "designer"}, {"techLead", lead}, {"teamLead", lead}, {"developer", developer},
}

const (
	orchestratorName = "orchestrator"
	developer        = "developer"
	lead             = "tech-lead" // the document's team lead
)

func decodeBoard(o jsonfile.Object) board {
	var b board
	for _, k := range roleKeys {
		if k.key == "teamLead" && o.Has("techLead") || !o.Has(k.key) {
			continue
		}
		if entry, ok := o.Object(k.key); ok.OK() {
			b.roles = append(b.roles, b.decodeRole(k.key, k.name, entry))
		} else {
			b.issues.Schema(protocol.Medium, k.key, "is not an object")
		}
	}
	entry, ok := o.Object(orchestratorName)
	b.there = ok.OK()
	if ok == jsonfile.Wrong {
		b.issues.Schema(protocol.Medium, orchestratorName, "is not an object")
	}
	b.running, _ = entry.Bool("running")
	cycle, _ := o.Object("lastCycle")
	b.failed = boundedInt(cycle, "failed", 1<<20)
	b.startedAt = entry.FirstStated("startedAt")
	b.sum = jsonfile.SumOf(entry.Value().Raw())
	if n, err := pidOf(entry.Get("pid")); err == nil {
		b.pid = n
	} else if b.there {
		b.issues.Schema(protocol.Medium, "orchestrator.pid", "is not a process number")
	}
	return b
}

func (b *board) decodeRole(key, name string, o jsonfile.Object) role {
	r := role{name: name, status: line(folder.FirstText(o, "status"), 40), mark: string(jsonfile.SumOf(o.Value().Raw()))}
	if r.status == "" {
		b.issues.Schema(protocol.Medium, key+".status", "is missing")
	}
	at, ok := o.Stated("lastActivity")
	if r.stated = at; ok == jsonfile.Wrong {
		b.issues.Schema(protocol.Medium, key+".lastActivity", "is not a time")
	}
	if task := folder.FirstText(o, "currentTask"); plainID(task) {
		r.task = task
	} else if task != "" {
		b.issues.Schema(protocol.Medium, key+".currentTask", "is not a task id")
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

// pidOf reads a pid: a number or a text. It returns 0 for a missing value, null and 0.
func pidOf(v jsonfile.Value) (int, error) {
	text, isText := v.Text()
	n, isNumber := v.Int()
	switch kind := v.Kind(); {
	case kind == "missing", kind == "null", isNumber.OK() && n == 0:
		return 0, nil
	case !isText.OK():
		text = strconv.FormatInt(n, 10)
	}
	return folder.ParsePID([]byte(text))
}

// decodePID reads orchestrator.pid: a number, or an object with the number under "pid".
func decodePID(text []byte) (int, error) {
	if o, err := jsonfile.Parse(text); err == nil {
		return pidOf(o.Get("pid"))
	}
	return folder.ParsePID(text)
}

// silence records since when a role has shown no sign of life.
type silence struct {
	mark  string // its entry in status.json
	since time.Time
}

// heard records which roles have shown signs of life: the time that a role states, or any change to its entry.
func heard(clock *folder.Clock, st status, known map[string]silence) map[string]silence {
	if len(st.Value.roles) == 0 { // a file that is missing for a moment says nothing about the roles
		return known
	}
	list, written := make(map[string]silence, len(st.Value.roles)), clock.Past(st.Stamp.ModTime())
	for i := range st.Value.roles {
		r := &st.Value.roles[i]
		q, old := known[r.name]
		if !old || q.mark != r.mark {
			at := clock.Past(r.at)
			switch {
			case old && (r.stated.Zoneless || written.Sub(at) > jsonfile.ClockSlack):
				at = folder.Later(q.since, written)
			case old && !at.After(q.since):
				at = clock.Now
			case at.IsZero():
				at = written
			}
			q = silence{r.mark, at}
		}
		list[r.name] = q
	}
	return list
}

// atWork reports whether a role works under a living orchestrator. Such a role counts as present however silent it is: it
// is the orchestrator's child, and the orchestrator notices its end.
func (v *queueView) atWork(r *role) bool { return v.orchestrator.lives() && !r.idle() }

// agents returns the orchestrator and the roles. Without an orchestrator nothing is expected of the roles, because they
// are its children.
func (v *queueView) agents() (list []protocol.Agent) {
	if a, ok := v.orchestratorAgent(); ok {
		list = append(list, a)
	}
	for i := range v.status.Value.roles {
		r := &v.status.Value.roles[i]
		a := protocol.Agent{Name: r.name, Status: r.status, Limit: r.limit(v.opts), Idle: r.idle() || !v.orchestrator.lives(),
			Beat: protocol.Beat{Mark: r.mark, At: v.Past(r.stated.Latest()), Stated: r.stated.At, Zoneless: r.stated.Zoneless}}
		if v.atWork(r) {
			a.Presence, a.Evidence = protocol.PresenceHere, v.orchestrator.presence()
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
