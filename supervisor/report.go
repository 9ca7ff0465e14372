package supervisor

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// Report is the status document of GET /v1/status.
type Report struct {
	Started  time.Time       `json:"started"`
	LastLook time.Time       `json:"last_look"`
	Looks    int             `json:"looks"`
	Load     LoadReport      `json:"load"`
	Projects []ProjectReport `json:"projects"`
	Agents   []AgentReport   `json:"agents"`
	Tasks    []TaskReport    `json:"tasks"`
	Locks    []LockReport    `json:"locks"`
	Goals    []Goal          `json:"goals"`
	Done     []Done          `json:"done"`
}

// LoadReport is the load per dimension as used shares; null means unknown.
type LoadReport struct {
	Used    protocol.Share `json:"used"`
	Binding string         `json:"binding"`
	CPU     protocol.Share `json:"cpu"`
	Memory  protocol.Share `json:"memory"`
	Files   protocol.Share `json:"files"`
	Disk    protocol.Share `json:"disk"`
	Unknown []string       `json:"unknown"`
	// Disks are the disks of the projects, by project name.
	Disks map[string]capacity.Disk `json:"disks,omitempty"`
}

// AgentReport is an agent and its verdict.
type AgentReport struct {
	Project  string              `json:"project"`
	Protocol string              `json:"protocol"`
	Name     string              `json:"name"`
	State    protocol.AgentState `json:"state"`
	// Reason explains a silence that is no fault: expected, absent, gone or left.
	Reason        protocol.Absence `json:"reason,omitempty"`
	LastBeat      *time.Time       `json:"last_beat"`
	SilentSeconds float64          `json:"silent_seconds"`
	PID           *int             `json:"pid"`
	Status        string           `json:"status,omitempty"`
	Error         string           `json:"error,omitempty"`
	Used          protocol.Share   `json:"used"`
	Tasks         []string         `json:"tasks,omitempty"`
	Why           string           `json:"why"`
	// Usage is what its processes used at the last scan; absent if they are not known.
	Usage *UsageReport `json:"usage,omitempty"`
}

// UsageReport is the resource usage of an agent's processes; cores is null until two scans were made.
type UsageReport struct {
	Cores     *float64 `json:"cores"`
	Memory    uint64   `json:"memory_bytes"`
	Processes int      `json:"processes"`
	Files     int      `json:"open_files,omitempty"` // of the process closest to its limit
	FileLimit int      `json:"file_limit,omitempty"`
}

// TaskReport is a task and its verdict.
type TaskReport struct {
	Project   string             `json:"project"`
	Protocol  string             `json:"protocol"`
	ID        string             `json:"id"`
	State     protocol.TaskState `json:"state"`
	Agent     string             `json:"agent"`
	Type      string             `json:"type,omitempty"`
	Priority  protocol.Priority  `json:"priority"`
	Attempt   int                `json:"attempt"`
	Created   *time.Time         `json:"created_at"` // null if the files do not say
	NotBefore *time.Time         `json:"not_before"`
	Progress  *ProgressReport    `json:"progress,omitempty"`
	Next      []string           `json:"next,omitempty"` // next actions from its result
	Steps     []protocol.Step    `json:"steps,omitempty"`
	Reason    protocol.Reason    `json:"reason"`
	Why       string             `json:"why"`
}

// ProgressReport is the progress that a running task reports.
type ProgressReport struct {
	Percent float64   `json:"percent"`
	Step    string    `json:"step,omitempty"`
	At      time.Time `json:"at"`
	// EverySeconds is the update interval that the request asked for; 0 if it asked for none.
	EverySeconds float64 `json:"every_seconds,omitempty"`
}

// Report builds the status document.
func (p *State) Report() Report {
	l := p.View.Load.Fresh(p.View.Now)
	r := Report{Started: p.Started.UTC(), LastLook: p.Plan.Memory.LastLook.UTC(), Looks: p.Looks,
		Load:     LoadReport{Used: l.Used(), Binding: l.Binding(), CPU: l.CPU, Memory: l.Memory, Files: l.Files, Disk: l.Disk, Disks: l.Disks, Unknown: l.Unknown()},
		Projects: []ProjectReport{}, Agents: []AgentReport{}, Tasks: []TaskReport{}, Locks: []LockReport{},
		Goals: p.Goals(), Done: append([]Done{}, p.Done...)}
	for _, d := range p.Projects {
		r.Projects = append(r.Projects, p.project(d))
	}
	for i := range p.View.Snapshots {
		s := &p.View.Snapshots[i]
		for j := range s.Agents {
			r.Agents = append(r.Agents, p.agent(s, &s.Agents[j]))
		}
		for j := range s.Tasks {
			r.Tasks = append(r.Tasks, p.task(s, &s.Tasks[j]))
		}
		for j := range s.Locks {
			r.Locks = append(r.Locks, p.lock(s, &s.Locks[j]))
		}
	}
	slices.SortStableFunc(r.Tasks, func(a, b TaskReport) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), -cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	})
	slices.Reverse(r.Done)
	return r
}

func (p *State) project(d ProjectStatus) ProjectReport {
	r := ProjectReport{Name: d.Name, Path: d.Path, Protocols: []string{}, Mode: map[string]string{}, Faults: []protocol.Fault{}, Findings: []FindingReport{}, Measures: []MeasureReport{}}
	for _, sp := range d.Speaks {
		r.Protocols = append(r.Protocols, sp.Protocol)
		r.Mode[sp.Protocol] = d.mode(sp)
		if sp.Why != "" {
			r.Notes = append(r.Notes, sp.Why)
		}
	}
	if d.Paused != "" {
		r.Notes = append(r.Notes, "paused: "+d.Paused)
	}
	if d.Problem != nil {
		r.Faults = append(r.Faults, *d.Problem)
	}
	r.Faults = append(r.Faults, d.Failing...)
	for i := range p.View.Snapshots {
		s := &p.View.Snapshots[i]
		if s.Project == d.Name {
			r.found(s, p.judged(s))
		}
	}
	r.Repairs = p.repairs(d)
	return r
}

func (p *State) agent(s *protocol.Snapshot, a *protocol.Agent) AgentReport {
	v := p.Plan.Agents.Of(s.Subject(protocol.KindAgent, a.Name))
	r := AgentReport{Project: s.Project, Protocol: s.Protocol, Name: a.Name, State: v.State, SilentSeconds: v.Silent.Seconds(),
		Status: a.Status, Error: v.Error, Used: a.Used, Tasks: a.Tasks, Why: words.Sentence(v.Cause, p.View.Now), LastBeat: instant(a.Beat.Last())}
	r.State, r.Reason = cmp.Or(r.State, protocol.AgentUnknown), v.Absence
	if pid := cmp.Or(a.Process.PID, a.PID); pid > 0 {
		r.PID = &pid
	}
	r.Usage = p.usage(a.Process, p.Plan.Memory.Agents.Of(s.Subject(protocol.KindAgent, a.Name)).Proven)
	return r
}

// usage finds the resource usage of the first known identity.
func (p *State) usage(ids ...protocol.Identity) *UsageReport {
	for _, id := range ids {
		for i := range p.View.Usage {
			u := &p.View.Usage[i]
			if !id.Proves() || u.Identity != id {
				continue
			}
			r := &UsageReport{Memory: u.Memory, Processes: u.Processes, Files: u.Files, FileLimit: u.FileLimit}
			if u.Cores >= 0 {
				cores := math.Round(u.Cores*1000) / 1000
				r.Cores = &cores
			}
			return r
		}
	}
	return nil
}

func (p *State) task(s *protocol.Snapshot, t *protocol.Task) TaskReport {
	v := p.Plan.Tasks.Of(s.Subject(protocol.KindTask, t.ID))
	r := TaskReport{Project: s.Project, Protocol: s.Protocol, ID: t.ID, State: v.State, Agent: t.Agent, Type: t.Type,
		Priority: t.Priority, Attempt: t.Attempt(), Created: instant(t.Created), NotBefore: instant(v.NotBefore), Reason: v.Reason, Why: words.Sentence(v.Cause, p.View.Now), Steps: t.Steps}
	r.State = cmp.Or(r.State, protocol.TaskPending)
	if g := t.Progress; !g.At.IsZero() {
		r.Progress = &ProgressReport{Percent: g.Percent, Step: g.Step, At: g.At.UTC(), EverySeconds: g.Every.Seconds()}
	}
	if o := t.Outcome; o != nil {
		r.Next = append(append(r.Next, o.ForHuman...), o.Next...)
	}
	return r
}
