package agentstatus

import (
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The two agents of protocol 000 (Agent Topology), and their folders.
const (
	livhana    = "livhana-layer1.1"
	codex      = "codex-cursor"
	livhanaDir = "livhana_status"
	codexDir   = "codex_status"
)

// aliases maps the short names of the two agents of protocol 000, which its folder names use, to their full names.
var aliases = map[string]string{"codex": codex, "livhana": livhana, "liv-hana": livhana}

// profile is what the boot scripts of protocol 000 write for an agent.
type profile struct {
	kind, environment string
	capabilities      []string
	free              float64
	event, message    string
}

func profileOf(agent string) profile {
	switch agent {
	case livhana:
		return profile{"orchestrator", "claude-code-cli", []string{"voice", "orchestration", "task_delegation"}, 1.0,
			"session_start", "Inter-agent communication initialized"}
	case codex:
		return profile{"executor", "cursor-ide", []string{"code_execution", "file_operations", "git_operations"}, 0.8,
			"agent_ready", "CODEX agent initialized and ready for tasks"}
	}
	return profile{"executor", "unknown", []string{}, 1.0, "agent_ready", agent + " initialized and ready for tasks"}
}

// KnownAgents lists the agent names that imply this protocol.
func KnownAgents() []string { return []string{livhana, codex} }

// registryContent is the agent registry (protocol 000, Agent Registry Schema).
type registryContent struct {
	agents map[string]member
	issues folder.Findings
}

type member struct {
	status string
	pid    int
	seen   time.Time // if the stated time has no zone, the latest time that it can mean
}

// registryEntry is an agent in the registry, as far as its fields are checked alike.
type registryEntry struct {
	Type         string   `json:"type" check:"required"`
	Environment  string   `json:"environment" check:"required"`
	Status       string   `json:"status" check:"required,active|idle|busy|error|unknown"` // the boot script writes unknown
	Capabilities []string `json:"capabilities" check:"required"`
}

func decodeRegistry(o jsonfile.Object) registryContent {
	r := registryContent{agents: map[string]member{}}
	if !o.Has("last_update") { // the key that clients in the field use
		r.issues.Read(o, &struct {
			At time.Time `json:"updated_at" check:"required"`
		}{})
	}
	r.issues.Read(o, &struct {
		Agents struct{} `json:"agents" check:"required"`
	}{})
	agents, _ := o.Object("agents")
	for _, name := range agents.Keys() {
		switch a, p := agents.Object(name); {
		case !p.OK():
			r.issues.Schema(protocol.Low, agents.Get(name).Path(), "must be an object, not %s", agents.Get(name).Kind())
		case name != "":
			r.agents[name] = decodeMember(&r.issues, a)
		}
	}
	return r
}

func decodeMember(issues *folder.Findings, o jsonfile.Object) member {
	var v registryEntry
	issues.Read(o, &v)
	seen := o.FirstStated("last_seen", "last_update")
	if seen.At.IsZero() && o.Get("last_seen").Kind() != "null" { // the boot script writes null for an agent that has not booted yet
		issues.Read(o, &struct {
			Seen time.Time `json:"last_seen" check:"required"`
		}{})
	}
	return member{status: v.Status, seen: seen.Latest(), pid: pidOf(issues, o)}
}

// pidOf reads a pid, which some clients write as a string.
func pidOf(issues *folder.Findings, o jsonfile.Object) int {
	v := o.Get("pid")
	if n, p := v.Int(); p.OK() && n > 0 && n < 1<<31 {
		return int(n)
	}
	switch s, p := v.Text(); {
	case v.Kind() == "null":
	case v.Kind() == "missing":
		issues.Schema(protocol.Low, v.Path(), "is missing")
	case p.OK():
		issues.Schema(protocol.Low, v.Path(), "must be a number, not a string")
		if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32); err == nil && n > 0 {
			return int(n)
		}
	default:
		issues.Schema(protocol.Low, v.Path(), "is not a process id")
	}
	return 0
}

// editRegistry applies the edits that judge derives from the registry's present content, and reports whether there
// was anything to change. It applies the same edits again to a late write of a client.
func (f *statusFiles) editRegistry(judge folder.Judge) (wrote bool, err error) {
	var sets []jsonfile.Set
	return f.Edit(folder.Edit{File: registry, Max: maxFile, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		sets, err = judge(o)
		return sets, err
	}, Again: func(jsonfile.Object) ([]jsonfile.Set, error) { return sets, nil }, Merge: changedAgents})
}

// changedAgents lists the agents that a client changed and no other writer has changed since. Nothing more is merged
// into a registry that others have written.
func changedAgents(base, theirs, present jsonfile.Object) []jsonfile.Set {
	before, _ := base.Object("agents")
	after, _ := theirs.Object("agents")
	now, _ := present.Object("agents")
	var sets []jsonfile.Set
	for _, name := range after.Keys() {
		value, was := after.Get(name), string(before.Get(name).Raw())
		if string(value.Raw()) != was && string(now.Get(name).Raw()) == was {
			sets = append(sets, set(value, "agents", name))
		}
	}
	return sets
}

// bootEdits are the edits that enter an agent into the registry as the boot scripts do.
func bootEdits(o jsonfile.Object, agent string, pid any, status string, seen any) (sets []jsonfile.Set) {
	agents, _ := o.Object("agents")
	entry, _ := agents.Object(agent)
	pr := profileOf(agent)
	for _, f := range []struct {
		key   string
		value any
		keep  bool // what is there
	}{{"type", pr.kind, true}, {"environment", pr.environment, true}, {"pid", pid, false}, {"status", status, false},
		{"last_seen", seen, false}, {"capabilities", pr.capabilities, true}} {
		if !f.keep || !entry.Has(f.key) {
			sets = append(sets, set(f.value, "agents", agent, f.key))
		}
	}
	return sets
}
