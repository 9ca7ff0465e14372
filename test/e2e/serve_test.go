package e2e

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/supervisor"
)

// A taken metrics port does not stop the daemon: it raises an incident, and a reload with another address takes effect. A
// reload reports the settings that it cannot change.
func TestTakenMetricsPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := free.Addr().String()
	free.Close()
	config := func(addr string) string { return quietRig + "[status]\nmetrics_listen = \"" + addr + "\"\n" }
	r := rig.New(t, config(taken.Addr().String()))
	r.Boot("p")
	p := r.Start("p")
	r.Shows("metrics are not served", taken.Addr().String())
	r.Write("config.toml", config(other))
	if out := r.Steward("reload"); strings.Contains(out, "note") {
		t.Errorf("reload: %s", out)
	}
	r.Until("metrics are served", func() bool {
		res, err := http.Get("http://" + other + "/metrics")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	r.Until("the incident is over", func() bool { page, err := r.Status(); return err == nil && len(page.Incidents) == 0 })
	if !p.Alive() {
		t.Error("the daemon has ended")
	}
}

// A reload reports which settings take effect at the next start.
func TestReloadNamesWhatWaits(t *testing.T) {
	r := rig.New(t, quietRig)
	r.Boot("p")
	env := r.Env
	r.Env = append(append([]string{}, env...), "STEWARD_SOCKET=", "XDG_RUNTIME_DIR=")
	r.Write("config.toml", quietRig+"[status]\nsocket = \""+r.Socket+"\"\n")
	r.Start("p")
	r.Write("config.toml", quietRig+"[status]\nsocket = \""+r.Socket+".other\"\n")
	r.Env = env
	if out := r.Steward("reload"); !strings.Contains(out, "status.socket takes effect when steward is restarted") {
		t.Errorf("reload: %s", out)
	}
}

// A socket that was removed is bound again, with one line in the log.
func TestRemovedSocketComesBack(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quietRig)
	r.Boot("p")
	p := r.Start("p")
	if err := os.Remove(r.Socket); err != nil {
		t.Fatal(err)
	}
	r.Until("it answers again", func() bool { return !p.Alive() || r.Answers() })
	if !p.Alive() || strings.Count(readAll(t, r.Logs.Name()), "bound again") != 1 {
		t.Error("the socket did not come back in one step")
	}
}

func readAll(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestBootIsSuggestedAfterALook: before the first scan a project's protocol is unknown.
func TestBootIsSuggestedAfterALook(t *testing.T) {
	for _, looked := range []bool{false, true} {
		desk := supervisor.ProjectStatus{Name: "p", Path: "/p"}
		if looked {
			desk.LookedAt = time.Now()
		}
		var out strings.Builder
		daemon.TellHowToBoot(&out, &supervisor.State{Projects: []supervisor.ProjectStatus{desk}})
		if said := strings.Contains(out.String(), "speaks no protocol yet"); said != looked {
			t.Errorf("looked at: %v, said: %q", looked, out.String())
		}
		report := supervisor.ProjectReport{Name: "p"}
		if got := daemon.Describe(report, looked); strings.Contains(got, "no protocol") != looked {
			t.Errorf("looked at: %v, described as %q", looked, got)
		}
	}
}
