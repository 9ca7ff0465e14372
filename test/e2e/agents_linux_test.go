package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/livhana/steward/test/agents"
	"github.com/livhana/steward/test/model"
	"github.com/livhana/steward/test/rig"
)

// agentRows are the settings of roles whose commands are the real Claude Code and Codex, by turns.
func agentRows(t *testing.T, r *rig.Rig, p agents.Programs, server *model.Server, protocolName, orchestrator string, roles ...string) string {
	home, err := os.MkdirTemp(agentCache(t), "home-") // Codex refuses helper programs below the temporary folder
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, role := range roles {
			if t.Failed() {
				out, _ := r.Command("steward", "logs", role, "--project", "p").CombinedOutput()
				t.Logf("the log of %s:\n%s", role, out[max(0, len(out)-3000):])
			}
		}
		os.RemoveAll(home)
	})
	env := append(agents.Home(t, home, server.URL(), r.At("p")), "STEWARD_STATE_DIR="+r.State, "STEWARD_CONFIG="+r.At("config.toml"))
	environment, err := json.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	rows := quietRig + "[capacity]\ndimensions = []\n[worker]\npoll = \"1s\"\nwritable = [\"" + home + "\"]\n[[project]]\npath = \"" + r.At("p") + "\"\n"
	rows += fmt.Sprintf("[[role]]\nname = %q\nproject = %q\nprotocol = %q\n", orchestrator, r.At("p"), protocolName)
	for i, role := range roles {
		command := []string{p.Claude, "-p", "--permission-mode", "acceptEdits", "--allowedTools", "Bash", "--", "{prompt}"}
		if i%2 == 1 {
			command = []string{p.Codex, "exec", "--skip-git-repo-check", "{prompt}"}
		}
		argv, _ := json.Marshal(command)
		rows += fmt.Sprintf("[[role]]\nname = %q\nproject = %q\nprotocol = %q\ncommand = %s\nenvironment = %s\n", role, r.At("p"), protocolName, argv, environment)
	}
	return rows
}

func agentCache(t *testing.T) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// as matches one role's prompt about one kind of message. $1 is the command that reports, $2 the task's id.
func as(role, kind string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)You are the agent ` + role + ` in .*\nKind: ` + kind + `.*\n  (\S+ task) progress (\S+) 40`)
}

// TestAgentsCarryOutHandoffs: Claude Code and Codex carry out the example flow of protocol 001. A user asks for a feature; the planner
// and the fixer report with steward's commands, the builder and the reviewer by their last message.
func TestAgentsCarryOutHandoffs(t *testing.T) {
	programs := agents.Install(t)
	server := model.Start(t,
		model.Rule{When: as("planner", "task_handoff"), Say: "The spec is written.", Steps: []model.Step{
			{Shell: `mkdir -p specs && echo "JWT" >specs/auth.md && $1 done $2 --summary "the spec is written" --spec specs/auth.md`}}},
		model.Rule{When: as("builder", "task_handoff"), Say: "Done.\n" + `{"status": "completed", "summary": "the login is built", "commit": "abc123", "files_created": ["auth.go"]}`,
			Steps: []model.Step{{Shell: "echo login >auth.go"}}},
		model.Rule{When: as("reviewer", "review_request"), Say: `{"status": "needs_fixes", "issues": ["no test", "a password in the log"]}`},
		model.Rule{When: as("fixer", "fix_request"), Say: "Both are fixed.", Steps: []model.Step{
			{Shell: `echo fixed >>auth.go`}, {Shell: `$1 done $2 --summary "both are fixed" --set payload.status=fixes_applied`}}},
		model.Rule{When: as("reviewer", "rereview_request"), Say: `{"status": "approved", "summary": "it can be merged"}`})
	r := rig.New(t, "")
	if err := os.Mkdir(r.At("p"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Write("config.toml", agentRows(t, r, programs, server, "handoffs", "orchestrator", "planner", "builder", "reviewer", "fixer"))
	r.Steward("boot", "planner", "--protocol", "handoffs", "--project", "p")
	r.Spawn(r.Command("steward", "run"))
	r.Until("the daemon answers", r.Answers)
	id := strings.TrimSpace(r.Steward("task", "submit", "--project", "p", "Add user auth"))
	r.Until("the workflow is complete", func() bool { return taskState(r, id) == "done" })

	if data, _ := os.ReadFile(r.At("p", "auth.go")); string(data) != "login\nfixed\n" {
		t.Errorf("auth.go: %q", data)
	}
	if log, _ := os.ReadFile(r.At("p/.claude/agent_events.jsonl")); !strings.Contains(string(log), `"spec":"specs/auth.md"`) {
		t.Errorf("no event names the planner's spec:\n%s", log)
	}
	kinds := map[string]int{}
	files, _ := filepath.Glob(r.At("p/.claude/handoffs/completed/*.json"))
	for _, file := range files {
		var m struct{ Type string }
		data, _ := os.ReadFile(file)
		_ = json.Unmarshal(data, &m)
		kinds[m.Type]++
	}
	for kind, n := range map[string]int{"review_request": 1, "fix_request": 1, "rereview_request": 1, "escalation": 0} {
		if kinds[kind] != n {
			t.Errorf("%d completed messages of type %s, want %d: %v", kinds[kind], kind, n, kinds)
		}
	}
	left, _ := filepath.Glob(r.At("p/.claude/handoffs/[ap]*ed*/*.json"))
	if len(left) > 0 {
		t.Errorf("left open: %v", left)
	}
}

// TestAgentsCarryOutAPipeline: Claude Code and Codex carry out the pipeline of protocol 004 up to the deployment to staging. The first
// security review is a rejection, so the developer fixes what it names.
func TestAgentsCarryOutAPipeline(t *testing.T) {
	programs := agents.Install(t)
	task := func(role, id string) *regexp.Regexp { // $1 is the id, $2 the command that reports
		return regexp.MustCompile(`(?s)You are the agent ` + role + ` in .*\nTask: (` + id + `)\n.*\n  (\S+ task) progress `)
	}
	server := model.Start(t,
		model.Rule{When: task("SECURITY_AUDITOR", "chat-security_auditor"), Say: `{"status": "completed", "summary": "a password is logged", "approval_status": "REJECTED", ` +
			`"output": {"critical_issues": ["a password is logged"], "high_issues": [], "medium_issues": [], "low_issues": [], "recommendations": [], "blocking_deployment": true}, ` +
			`"validation": {"security_passed": false, "production_readiness_passed": true, "scalability_passed": true, "all_passed": true}}`},
		model.Rule{When: task("SECURITY_AUDITOR", "chat-security_auditor-2"), Say: "It can go.", Steps: []model.Step{
			{Shell: `$2 done $1 --summary "it can go" --set approval_status=APPROVED`}}},
		model.Rule{When: task("DEVELOPER", "chat-developer.*?"), Say: "Built $1.", Steps: []model.Step{{Shell: "echo $1 >>chat.go"}}},
		model.Rule{When: task("DEPLOYMENT", ".*?"), Say: "Deployed to staging.", Steps: []model.Step{{Shell: "cp chat.go staging.go"}}})
	r := rig.New(t, "")
	if err := os.MkdirAll(r.At("p/.agents/messages"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Write("config.toml", agentRows(t, r, programs, server, "envelope", "ORCHESTRATOR",
		"ARCHITECT", "DESIGNER", "DEVELOPER", "INTEGRATIONS", "TESTING", "SECURITY_AUDITOR", "DOCUMENTATION", "DEPLOYMENT"))
	r.Spawn(r.Command("steward", "run"))
	r.Until("the daemon answers", r.Answers)
	r.Steward("task", "submit", "--project", "p", "--type", "pipeline", "--id", "chat", "--title", "Chat", "--text", "Users write messages", "--criterion", "✓ Messages arrive")
	for _, id := range []string{"chat-architect", "chat-designer", "chat-developer", "chat-testing", "chat-security_auditor", "chat-developer-fix-1", "chat-security_auditor-2", "chat-deployment", "chat"} {
		r.Until(id+" is complete", func() bool { return taskState(r, id) == "done" })
	}
	if data, _ := os.ReadFile(r.At("p", "staging.go")); string(data) != "chat-developer\nchat-developer-fix-1\n" {
		t.Errorf("staging.go: %q", data)
	}
}

// taskState is the state of a task as `task show` prints it; "" if it does not.
func taskState(r *rig.Rig, id string) string {
	var shown struct{ State string }
	out, err := r.Command("steward", "task", "show", id, "--project", "p", "-o", "json").Output()
	if err != nil || json.Unmarshal(out, &shown) != nil {
		return ""
	}
	return shown.State
}
