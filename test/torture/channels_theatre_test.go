//go:build linux

package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/status"
)

// theatre is a test rig in which each part can fail: the bus, the wall and the voice.
type theatre struct {
	*rig.Room
	daemon  string // dbus-daemon
	client  *status.Client
	project string
	still   func() // stops the agent's heartbeat
	wall    *wall
	walls   int
}

// newTheatre creates a home without a bus, with a project that speaks 000 and 004, and a working voice.
func newTheatre(t *testing.T, config string) *theatre {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	s := &theatre{Room: &rig.Room{Rig: rig.New(t, config)}, daemon: daemon, project: "p"}
	run := filepath.Dir(s.Socket)
	s.Bus, s.Tools = "unix:path="+filepath.Join(run, "bus"), s.At("tools")
	s.WriteTools()
	s.Env = append(s.Env, "PATH="+s.Tools, "XDG_RUNTIME_DIR="+run, "DBUS_SESSION_BUS_ADDRESS="+s.Bus)
	s.Write("bus.conf", `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>`+s.Bus+`</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`)
	s.client = status.NewClient(s.Socket)
	s.Boot(s.project)
	if err := os.MkdirAll(s.At(s.project, ".agents/messages"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.still = s.Beats(s.project, 0.9)
	return s
}

// startBus starts the session bus, or replaces a dead one.
func (s *theatre) startBus() *rig.Child {
	s.Helper()
	c := exec.Command(s.daemon, "--config-file="+s.At("bus.conf"), "--nofork", "--print-address")
	out, err := c.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	c.Stderr = s.Logs
	p := s.Spawn(c)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		s.Fatalf("dbus-daemon: %v", err)
	}
	return p
}

// raiseWall connects a wall to the bus.
func (s *theatre) raiseWall(m manner) *wall {
	s.Helper()
	s.walls++
	w, err := newWall(s.Bus, fmt.Sprint(s.walls), nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { w.conn.Close() })
	w.behave(m)
	s.wall = w
	return w
}

// mute breaks the voice in one of several ways.
func (s *theatre) mute(how string) {
	switch how {
	case "dead sink":
		s.Script("paplay", "echo 'Connection refused' >&2\nexit 1\n")
	case "hung":
		s.Script("paplay", fmt.Sprintf("exec %s 10000\n", rig.Tool(s.Room, "sleep")))
	case "missing":
		for _, name := range []string{"espeak-ng", "paplay"} {
			if err := os.Remove(filepath.Join(s.Tools, name)); err != nil {
				s.Fatal(err)
			}
		}
	default:
		s.Fatalf("no such trouble: %s", how)
	}
}

// said counts the sentences that were played to the end and say so.
func (s *theatre) said(words string) (n int) {
	for _, sentence := range s.Heard() {
		if strings.Contains(sentence, words) {
			n++
		}
	}
	return n
}

// fails makes task n fail finally, which raises its own critical incident.
func (s *theatre) fails(n int) {
	id := rig.TaskID(n)
	s.Put(s.Task(s.project, id, ".request.json"), rig.RequestOf(id, 1))
	s.Outcome(s.project, id, fmt.Sprintf("FAULT_N%d:fatal", n))
}

// faultWords are in the summary of task n's incident, and in that of no other.
func faultWords(n int) string { return fmt.Sprintf("Fault n%d.", n) }

// asks makes an agent ask question n: an incident of high severity, with its own options.
func (s *theatre) asks(n int, options ...string) {
	name := fmt.Sprintf("question-%d.json", n)
	d := rig.Doc{"message_type": "BLOCKER_ESCALATION", "task_id": fmt.Sprintf("q_%d", n), "from_agent": "INTEGRATIONS", "blocker_type": "clarification_needed",
		"severity": "high", "timestamp": rig.Stamp(), "description": questionWords(n), "options": options, "suggested_resolution": options[0], "context": "", "escalate_to": "human"}
	s.putMessage(name, d)
}

func questionWords(n int) string { return fmt.Sprintf("Question n%d?", n) }

// putMessage writes a message atomically, by way of a neighboring folder.
func (s *theatre) putMessage(name string, d rig.Doc) {
	s.Helper()
	data, _ := json.MarshalIndent(d, "", "  ")
	if err := os.WriteFile(s.At(name), data, 0o644); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(s.At(name), s.At(s.project, ".agents/messages", name)); err != nil {
		s.Fatal(err)
	}
}

// settles makes another agent settle question n, so that the files show it as settled.
func (s *theatre) settles(n int) {
	s.putMessage(fmt.Sprintf("settled-%d.json", n), rig.Doc{"message_type": "BLOCKER_RESOLUTION", "task_id": fmt.Sprintf("q_%d", n), "from_agent": "ORCHESTRATOR",
		"to_agent": "INTEGRATIONS", "timestamp": time.Now().UTC().Add(time.Second).Format(time.RFC3339), "decision": "never mind", "rationale": "",
		"modified_requirements": []string{}, "resume_task": true})
}

// replies are the answers to question n that steward wrote for the agents in the operator's name.
func (s *theatre) replies(n int) (decisions []string) {
	files, _ := filepath.Glob(s.At(s.project, ".agents/messages/resolution-*.json"))
	for _, file := range files {
		var r struct {
			Task     string `json:"task_id"`
			Decision string `json:"decision"`
		}
		data, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(data, &r) == nil && r.Task == fmt.Sprintf("q_%d", n) {
			decisions = append(decisions, r.Decision)
		}
	}
	return decisions
}

// decisions are steward's decisions about task n, the current one first.
func (s *theatre) decisions(n int) (labels []string) {
	files := []string{s.Task(s.project, rig.TaskID(n), ".decision.json")}
	older, _ := filepath.Glob(s.Attempts(s.project, rig.TaskID(n)+".*.decision.json"))
	for _, file := range append(files, older...) {
		var d struct {
			Decision string `json:"decision"`
		}
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &d) == nil {
			labels = append(labels, d.Decision)
		}
	}
	return labels
}

// answer answers over the socket.
func (s *theatre) answer(i escalate.Incident, a status.Answer) error {
	ctx, cancel := context.WithTimeout(s.Context(), rig.Patience)
	defer cancel()
	return s.client.Post(ctx, "/v1/incidents/"+i.Key+"/answer", a, nil)
}

// incidents reads the ledger from its files.
func (s *theatre) incidents() (list []escalate.Incident) {
	files, _ := filepath.Glob(filepath.Join(s.State, "incidents", "*.json"))
	for _, file := range files {
		var i escalate.Incident
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &i) == nil {
			list = append(list, i)
		}
	}
	return list
}

// proved reports whether any channel has delivered the incident.
func proved(i escalate.Incident) bool {
	for _, d := range i.Deliveries {
		if d.OK && !d.Recovery && d.Result != escalate.ResultWithdrawn {
			return true
		}
	}
	return false
}

// timesLogged counts the lines of the daemons' log that say so.
func timesLogged(r *rig.Rig, words string) int {
	data, _ := os.ReadFile(r.Logs.Name())
	return bytes.Count(data, []byte(words))
}
