package agentstatus

import (
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// beat is a heartbeat file (protocol 000, Heartbeat Schema) or a variant from the field with other key names.
type beat struct {
	name, status, complaint string
	at                      time.Time
	zoneless                bool // at has no time zone
	used                    protocol.Share
	tasks                   []string
	kept                    bool // written by steward
	fresh                   bool // its values are those that the boot scripts write (protocol 000, Boot Integration)
	issues                  []issue
}

// decodeBeat decodes a heartbeat.json: every field of the schema is required.
func decodeBeat(o jsonfile.Object) beat { return readBeat(o, true) }

// decodeRelative decodes an <agent>.status.json. Protocol 000 does not define this file, so a missing field is no
// finding.
func decodeRelative(o jsonfile.Object) beat { return readBeat(o, false) }

func readBeat(o jsonfile.Object, strict bool) beat {
	c := &check{}
	b := beat{name: c.text(o, "agent_name", strict), status: c.word(o, "status", strict, "active", "idle", "busy", "paused", "error")}
	for _, key := range []string{"agent", "name"} {
		if b.name == "" {
			b.name, _ = o.String(key)
		}
	}
	b.at = c.instant(o, "last_heartbeat", strict)
	b.zoneless = o.Get("last_heartbeat").Zoneless()
	if b.at.IsZero() {
		b.at, b.zoneless = firstTime(o, "heartbeat", "updated_at", "last_update", "last_seen")
	}
	uptime, timed := c.number(o, "uptime_seconds", 0, 1e12, strict)
	if free, ok := c.number(o, "current_capacity", 0, 1, strict); ok && free >= 0 && free <= 1 {
		b.used = protocol.Used(1 - free)
	}
	b.tasks = c.list(o, "active_tasks", strict)
	b.kept = text(o, keptBy) == ourName
	if health, ok := c.child(o, "health", strict); ok {
		b.health(c, health, strict)
	}
	b.fresh = timed && uptime == 0 && b.status == "active" && len(b.tasks) == 0 && b.complaint == "" && !b.kept
	b.issues = c.findings
	return b
}

func (b *beat) health(c *check, o jsonfile.Object, strict bool) {
	var wrong []string
	measured := text(o, measuredBy) == ourName
	for _, key := range []string{"cpu_ok", "memory_ok", "disk_ok"} {
		if ok, known := c.boolean(o, key, strict); known && !ok && !measured {
			wrong = append(wrong, key+" is false")
		}
	}
	if strict && !o.Has("last_error") {
		c.add("health.last_error", "is missing")
	}
	if text := folder.Line(c.text(o, "last_error", false), 300); text != "" {
		wrong = append(wrong, "last_error: "+text)
	}
	if b.complaint = strings.Join(wrong, ", "); b.complaint != "" {
		c.findings = append(c.findings, issue{code: "health", field: "health", severity: protocol.Medium, text: b.complaint})
	}
}

// firstTime returns the time of the first key that has one, and whether that time has no zone.
func firstTime(o jsonfile.Object, keys ...string) (at time.Time, zoneless bool) {
	for _, key := range keys {
		if t, p := o.Time(key); p.OK() {
			return t, o.Get(key).Zoneless()
		}
	}
	return at, false
}

// current is current_task.json: the task that an executor says it works on. Protocol 000 defines no schema for the
// file.
type current struct{ task string }

func decodeCurrent(o jsonfile.Object) current {
	if task, p := o.Object("current_task"); p.OK() {
		o = task
	}
	for _, key := range []string{"task_id", "current_task", "id"} {
		if s, p := o.String(key); p.OK() && s != "" {
			return current{task: s}
		}
	}
	return current{}
}

// registryContent is the agent registry (protocol 000, Agent Registry Schema).
type registryContent struct {
	agents map[string]member
	issues []issue
}

type member struct {
	status string
	pid    int
	seen   time.Time // if the stated time has no zone, the latest time that it can mean
}

func decodeRoll(o jsonfile.Object) registryContent {
	c := &check{}
	if !o.Has("last_update") { // the key that clients in the field use
		c.instant(o, "updated_at", true)
	}
	r := registryContent{agents: map[string]member{}}
	agents, _ := c.child(o, "agents", true)
	for _, name := range agents.Keys() {
		if a, ok := c.child(agents, name, true); ok && name != "" {
			r.agents[name] = decodeMember(c, a)
		}
	}
	r.issues = c.findings
	return r
}

func decodeMember(c *check, o jsonfile.Object) member {
	c.text(o, "type", true)
	c.text(o, "environment", true)
	// The boot script of protocol 000 writes "unknown" and no time for an agent that has not booted yet.
	m := member{status: c.word(o, "status", true, "active", "idle", "busy", "error", "unknown")}
	seen, zoneless := firstTime(o, "last_seen", "last_update")
	if m.seen = seen; zoneless {
		m.seen = seen.Add(jsonfile.ZoneSlack)
	}
	if m.seen.IsZero() && o.Get("last_seen").Kind() != "null" {
		c.instant(o, "last_seen", true)
	}
	c.list(o, "capabilities", true)
	m.pid = pidOf(c, o)
	return m
}

// pidOf reads a pid, which some clients write as a string.
func pidOf(c *check, o jsonfile.Object) int {
	v := o.Get("pid")
	if n, p := v.Int(); p.OK() && n > 0 && n < 1<<31 {
		return int(n)
	}
	switch s, p := v.Text(); {
	case v.Kind() == "null":
	case !o.Has("pid"):
		c.add(v.Path(), "is missing")
	case p.OK():
		c.add(v.Path(), "must be a number, not a string")
		if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32); err == nil && n > 0 {
			return int(n)
		}
	default:
		c.add(v.Path(), "is no process id")
	}
	return 0
}
