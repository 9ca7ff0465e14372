package packaging_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestAgentsAsServices has a real systemd run the agents of a steward that is itself a service, and takes that steward away.
func TestAgentsAsServices(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: short, and this boots a machine")
	}
	p := build(t)
	t.Run("user", func(t *testing.T) { t.Parallel(); agentsOutliveSteward(newSite(t, p, false)) })
	t.Run("machine", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, p, true)
		s.linger() // a machine's unit that runs as jesse asks jesse's own manager
		agentsOutliveSteward(s)
	})
}

const agentSettings = settings + `
[keep]
backoff = "50ms"
max_backoff = "100ms"
stop = "2s"
[[agent]]
name = "codex-cursor"
project = "/home/jesse/shop"
command = ["sh", "-c", "sleep 601 & setsid sleep 602 & echo 'a $HOME %h'; exec sleep 600"]
[[agent]]
name = "leaves"
project = "/home/jesse/shop"
command = ["sh", "-c", "sleep 1.5; exit 0"]
[[agent]]
name = "stops"
project = "/home/jesse/shop"
command = ["sh", "-c", "sleep 1.5; exit 7"]
restart = "never"
`

func agentsOutliveSteward(s *site) {
	s.write(userConfig, agentSettings, jesseID)
	s.installed()
	first := s.agentUnit(1)
	if cg := s.read("/proc/" + strconv.Itoa(first) + "/cgroup"); !strings.Contains(cg, "steward-agents.slice") || strings.Contains(cg, "steward.service") {
		s.t.Errorf("it is not a service of its own: %s", cg)
	}
	if env := s.root("cat", "/proc/"+strconv.Itoa(first)+"/environ").out; strings.Contains(env, "NOTIFY_SOCKET=") || strings.Contains(env, "WATCHDOG_") || !strings.Contains(env, "STEWARD_AGENT=codex-cursor") {
		s.t.Errorf("its environment: %q", env)
	}
	s.eventually("one that leaves rests, one that fails with never has failed", 15*time.Second, func() (string, bool) {
		a, b := s.agentRecord("leaves"), s.agentRecord("stops")
		return a + b, strings.Contains(a, `"rested"`) && strings.Contains(b, `"code": 7`) && strings.Contains(b, `"rested"`)
	})
	// Stop, kill and restart of steward leave it alone.
	for what, do := range map[string]func(){
		"a kill":    func() { s.kill("KILL") },
		"a restart": func() { s.must(s.service("restart")) },
	} {
		before := s.pid()
		do()
		s.eventually("another steward after "+what, 20*time.Second, func() (string, bool) { n := s.pid(); return fmt.Sprint(n), n != 0 && n != before })
		s.up("after " + what)
		if now := s.agentUnit(1); now != first {
			s.t.Errorf("after %s the agent is %d, and was %d", what, now, first)
		}
	}
	// An adopted one that is killed is replaced, by one; what it had started goes.
	s.must(s.root("kill", "-KILL", strconv.Itoa(first)))
	second := s.agentUnit(2)
	s.eventually("what it left behind is gone", 15*time.Second, func() (string, bool) {
		out := s.root("pgrep", "-x", "-c", "sleep").out
		return out, strings.TrimSpace(out) == "3"
	})
	if log := s.read(s.agentState() + "/agents/shop.codex-cursor.log"); log != "a $HOME %h\na $HOME %h\n" {
		s.t.Errorf("its words: %q", log)
	}
	// A service of the next life's name is the next life: its call was on its way when an earlier steward was killed.
	s.must(s.jesse("systemd-run", "--user", "--unit", "steward-agent-shop-codex-cursor-3", "sleep", "603"))
	third := s.agentUnit(3)
	s.must(s.root("kill", "-KILL", strconv.Itoa(second)))
	s.eventually("the service that is there is taken on", 15*time.Second, func() (string, bool) {
		r := s.agentRecord("codex-cursor")
		return r, strings.Contains(r, fmt.Sprintf("\"pid\": %d,", third)) && strings.Contains(r, `"generation": 3`)
	})
	// A row that goes takes its service along.
	s.write(userConfig, settings, jesseID)
	s.must(s.steward("reload"))
	s.eventually("the agent is gone with its service", 15*time.Second, func() (string, bool) {
		units := s.jesse("systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", "steward-agent-*").out
		return units, units == "" && !s.has("/proc/"+strconv.Itoa(third))
	})
}

func (s *site) agentState() string {
	if s.system {
		return systemState
	}
	return userState
}

func (s *site) agentRecord(agent string) string {
	return s.read(s.agentState() + "/agents/shop." + agent + ".json")
}

// agentUnit waits for the service of a life of codex-cursor, and gives its main process.
func (s *site) agentUnit(life int) (pid int) {
	s.t.Helper()
	unit := fmt.Sprintf("steward-agent-shop-codex-cursor-%d.service", life)
	s.eventually(unit+" runs", 15*time.Second, func() (string, bool) {
		r := s.jesse("systemctl", "--user", "show", "--value", "-p", "MainPID", unit)
		pid, _ = strconv.Atoi(strings.TrimSpace(r.out))
		return r.all() + s.journal(), pid > 0
	})
	return pid
}
