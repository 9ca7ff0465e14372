package agentstatus

import (
	"cmp"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// beat is a heartbeat file (protocol 000, Heartbeat Schema) or a variant from the field with other key names.
type beat struct {
	name, status, complaint string
	stated                  jsonfile.Stated
	used                    protocol.Share
	tasks                   []string
	kept                    bool // written by steward
	fresh                   bool // its values are those that the boot scripts write (protocol 000, Boot Integration)
	issues                  folder.Findings
}

// healthFields are the fields about the machine. measuredBy marks those that repeat steward's own measurement: they
// describe the machine, which steward reports anyway, so they are not the agent's complaint. An agent that writes its
// own heartbeat omits the mark.
var healthFields = [...]string{"cpu_ok", "memory_ok", "disk_ok"}

const measuredBy = "measured_by"

// decodeBeat decodes a heartbeat.json: every field of the schema is required.
func decodeBeat(o jsonfile.Object) beat { return beatOf(o, false) }

// decodeStatusFile decodes an <agent>.status.json. Protocol 000 does not define this file, so a missing field is no
// finding.
func decodeStatusFile(o jsonfile.Object) beat { return beatOf(o, true) }

// heartbeatFile is a heartbeat file (protocol 000, Heartbeat Schema).
type heartbeatFile struct {
	Name   string    `json:"agent_name" check:"required,filled"`
	Status string    `json:"status" check:"required,filled,active|idle|busy|paused|error"`
	Last   time.Time `json:"last_heartbeat" check:"required"`
	Uptime *float64  `json:"uptime_seconds" check:"required,0..1e12"`
	Free   *float64  `json:"current_capacity" check:"required,0..1"`
	Tasks  []string  `json:"active_tasks" check:"required"`
	Health *struct {
		CPU    *bool  `json:"cpu_ok" check:"required"`
		Memory *bool  `json:"memory_ok" check:"required"`
		Disk   *bool  `json:"disk_ok" check:"required"`
		Error  string `json:"last_error" check:"required,null"`
	} `json:"health" check:"required"`
}

func beatOf(o jsonfile.Object, optional bool) beat {
	var v heartbeatFile
	folder.Fill(o, &v)
	b := beat{name: cmp.Or(v.Name, text(o, "agent"), text(o, "name")), status: v.Status, tasks: v.Tasks, kept: text(o, keptBy) == ourName}
	b.stated = o.FirstStated("last_heartbeat", "heartbeat", "updated_at", "last_update", "last_seen")
	if v.Free != nil && *v.Free >= 0 && *v.Free <= 1 {
		b.used = protocol.Used(1 - *v.Free)
	}
	if h := v.Health; h != nil {
		health, _ := o.Object("health")
		var wrong []string
		for i, ok := range []*bool{h.CPU, h.Memory, h.Disk} {
			if ok != nil && !*ok && text(health, measuredBy) != ourName {
				wrong = append(wrong, healthFields[i]+" is false")
			}
		}
		if last := folder.Line(h.Error, 300); last != "" {
			wrong = append(wrong, "last_error: "+last)
		}
		b.complaint = strings.Join(wrong, ", ")
	}
	b.fresh = v.Uptime != nil && *v.Uptime == 0 && b.status == "active" && len(b.tasks) == 0 && b.complaint == "" && !b.kept
	for _, d := range folder.TableOf(&v).Check(o) {
		if !optional || d.Trouble != folder.Absent {
			b.issues.Defect(d)
		}
	}
	if b.complaint != "" {
		b.issues.Add("health", "health", protocol.Medium, b.complaint)
	}
	return b
}

// current is current_task.json: the task that an executor says it works on. Protocol 000 defines no schema for the
// file.
type current struct{ task string }

func decodeCurrent(o jsonfile.Object) current {
	if task, p := o.Object("current_task"); p.OK() {
		o = task
	}
	return current{cmp.Or(text(o, "task_id"), text(o, "current_task"), text(o, "id"))}
}

// Beat is the content of a heartbeat (protocol 000, Heartbeat Schema).
type Beat struct {
	Status    string // active, idle, busy, paused, error
	Uptime    time.Duration
	Free      *float64 // current_capacity: the available share; nil leaves what is there
	Tasks     []string // in addition to the tasks that the agent has claimed
	LastError string
	DiskFull  bool

	boot bool // written before the agent itself runs
}

// keptBy marks a heartbeat that steward writes. An agent that writes its own heartbeat omits the mark, and from then
// on steward leaves the heartbeat alone: otherwise it would hide a hanging agent. See docs/decisions.md, "Kept heartbeats carry a mark".
const keptBy = "kept_by"

func editedBeat(old []byte, edits func(old jsonfile.Object) []jsonfile.Set) ([]byte, error) {
	o, err := jsonfile.Parse(old)
	if err != nil { // it is missing, or torn and its writer is gone
		old = []byte("{}\n")
	}
	sets := edits(o)
	if len(sets) == 0 {
		return nil, nil
	}
	return jsonfile.Edit(old, sets...)
}

// beatEdits are the edits for a heartbeat in the agent's own name.
func (f *statusFiles) beatEdits(old jsonfile.Object, agent string, b Beat, tasks []string) []jsonfile.Set {
	sets := []jsonfile.Set{set(agent, "agent_name"), set(b.Status, "status"), set(jsonfile.FormatTime(f.Now), "last_heartbeat"),
		set(int64(b.Uptime/time.Second), "uptime_seconds")}
	if b.Free != nil {
		sets = append(sets, set(*b.Free, "current_capacity"))
	} else if !old.Has("current_capacity") {
		sets = append(sets, set(1.0, "current_capacity"))
	}
	sets = append(sets, set(append([]string{}, tasks...), "active_tasks"))
	if b.Free != nil && !b.boot { // an agent that reports its own load knows whether it can write
		sets = append(sets, set(true, "health", "disk_ok"))
	}
	sets = append(sets, f.healthEdits(old)...)
	if b.DiskFull {
		sets = append(sets, set(false, "health", "disk_ok"))
	}
	var lastError any
	if b.LastError != "" {
		lastError = folder.Line(b.LastError, 300)
	}
	return append(sets, set(lastError, "health", "last_error"), jsonfile.Remove(keptBy))
}

// healthFresh is the maximum age of a daemon measurement (capacity.json) that a heartbeat may repeat.
const healthFresh = 30 * time.Second

// healthEdits returns the edits that set a heartbeat's health fields from the daemon's last measurement. A field
// without a recent measurement keeps its value; if it has no value, it becomes true, because the schema requires it.
func (f *statusFiles) healthEdits(old jsonfile.Object) (sets []jsonfile.Set) {
	measured := jsonfile.Object{}
	if o, _, ok := f.object(capacityDoc); ok {
		if at, found := o.Time("updated_at"); found.OK() && f.Now.Sub(at).Abs() <= healthFresh {
			measured, _ = o.Object("health")
		}
	}
	before, _ := old.Object("health")
	short := false // true if any resource is short
	for _, field := range healthFields {
		ok, found := measured.Bool(field)
		if was, had := before.Bool(field); !found.OK() && had.OK() {
			short = short || !was
			continue
		}
		short = short || found.OK() && !ok
		sets = append(sets, set(ok || !found.OK(), "health", field))
	}
	if short {
		return append(sets, set(ourName, "health", measuredBy))
	}
	return append(sets, jsonfile.Remove("health", measuredBy))
}
