package service

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func jesse() Spec {
	return Spec{Binary: "/usr/local/bin/steward", User: "jesse", UID: 1000, Home: "/home/jesse"}
}

// value returns the values of a unit's key, joined by " | ".
func value(unit, key string) string {
	var all []string
	for line := range strings.Lines(unit) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			all = append(all, v)
		}
	}
	return strings.Join(all, " | ")
}

func TestUnits(t *testing.T) {
	machine := jesse()
	machine.System, machine.Projects = true, []string{"/home/jesse/shop", "/srv/two words"}
	for _, c := range []struct {
		name    string
		spec    Spec
		version int
		file    int
		want    map[string]string
	}{
		{"user", jesse(), 257, 0, map[string]string{
			"ExecStart": "/usr/local/bin/steward run --service", "Type": "notify", "KillMode": "process", "Restart": "on-failure",
			"WatchdogSec": "180s", "WantedBy": "default.target", "OnFailure": "steward-failed.service", "User": "", "ReadWritePaths": "",
			"ProtectSystem": "", "PrivateUsers": "", "PrivateMounts": "", "ProtectHostname": "", "NoNewPrivileges": "yes", "MemoryDenyWriteExecute": "", "PrivateTmp": ""}},
		{"user, whose systemd does not tell", jesse(), 0, 0, map[string]string{"PrivateMounts": "", "ProtectKernelTunables": ""}},
		{"user, older systemd", jesse(), 252, 0, map[string]string{"PrivateMounts": "yes", "ProtectClock": "", "CapabilityBoundingSet": ""}},
		{"machine", machine, 257, 0, map[string]string{
			"User": "jesse", "WantedBy": "multi-user.target", "StateDirectory": "steward", "RuntimeDirectory": "steward", "RemoveIPC": "",
			"ProtectHome": "read-only", "ProtectSystem": "strict", "PrivateUsers": "", "ProtectProc": "",
			"ReadWritePaths":    `-/run/user/1000 -/home/jesse/shop "-/srv/two words"`,
			"RequiresMountsFor": `/home/jesse /home/jesse/shop "/srv/two words"`}},
		{"machine, given up", machine, 257, 1, map[string]string{
			"ExecStart": "/usr/local/bin/steward service failed", "Type": "oneshot", "User": "jesse", "StateDirectory": "steward", "WantedBy": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, err := units(c.spec, "/etc/x", c.version)
			if err != nil || len(files) != 2 {
				t.Fatal(files, err)
			}
			if filepath.Dir(files[c.file].Path) != "/etc/x" || !ours(files[c.file].Text) {
				t.Errorf("%s: %.60q", files[c.file].Path, files[c.file].Text)
			}
			for key, want := range c.want {
				if key == "PrivateUsers" && strings.Contains(files[c.file].Text, key) {
					t.Error("in a user namespace of its own it would not see the folders of other processes")
				}
				if got := value(files[c.file].Text, key); got != want && key != "WantedBy" || key == "WantedBy" && want != "" && got != want {
					t.Errorf("%s=%s, want %s", key, got, want)
				}
			}
		})
	}
}

// TestUnitsQuote: systemd parses the quoted words back to the original; words that it could not parse are rejected.
func TestUnitsQuote(t *testing.T) {
	s := jesse()
	s.Binary = `/opt/a b/100%/"x"\y`
	s.Args = []string{"--config", "/home/jesse/$HOME;c.toml"}
	files, err := units(s, "/x", 257)
	if err != nil {
		t.Fatal(err)
	}
	want := `"/opt/a b/100%%/\"x\"\\y" run --service --config "/home/jesse/$$HOME;c.toml"`
	if got := value(files[0].Text, "ExecStart"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := value(files[0].Text, "ExecStopPost"); !strings.HasPrefix(got, "-\"/opt") || !strings.Contains(got, "service ended --config") {
		t.Errorf("ExecStopPost=%s", got)
	}
	for _, bad := range []string{"/opt/{{x}}/steward", "/opt/a\nb", "/opt/$x/steward"} {
		s.Binary = bad
		if _, err := units(s, "/x", 257); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestSystemdReadsTheUnits checks the units with systemd-analyze, which reports errors on stderr and exits with 0.
func TestSystemdReadsTheUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("skipped: systemd-analyze is not installed")
	}
	s := jesse()
	s.Binary = "/bin/true"
	m := &systemd{user: "jesse", run: Exec}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	files, err := m.Render(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.verify(t.Context(), files); err != nil {
		t.Error(err)
	}
	files[0].Text = strings.Replace(files[0].Text, "KillMode=process", "KillMode=sometimes", 1)
	if err := m.verify(t.Context(), files); err == nil {
		t.Error("a unit that systemd cannot read was let through")
	}
}

func TestStatusOfSystemd(t *testing.T) {
	var st Status
	st.read(`LoadState=loaded
ActiveState=active
SubState=running
Result=success
MainPID=4711
NRestarts=3
FragmentPath=/home/jesse/.config/systemd/user/steward.service
UnitFileState=enabled
ActiveEnterTimestamp=@1795304033
ExecStart={ path=/usr/bin/steward ; argv[]=/usr/bin/steward run --service ; ignore_errors=no ; pid=4711 }
StatusText=looks after 2 projects`)
	if !st.Installed || !st.Enabled || !st.Running() || st.PID != 4711 || st.Restarts != 3 || st.Binary != "/usr/bin/steward" ||
		!st.Since.Equal(time.Unix(1795304033, 0)) || st.Detail != "running, looks after 2 projects" {
		t.Errorf("%+v", st)
	}
	st = Status{}
	st.read("LoadState=not-found\nActiveState=inactive\nSubState=dead\nActiveEnterTimestamp=\nMainPID=0")
	if st.Installed || st.Running() || !st.Since.IsZero() {
		t.Errorf("%+v", st)
	}
	st = Status{}
	st.read("LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=start-limit-hit")
	if st.Running() || st.Detail != "failed, last result: start-limit-hit" {
		t.Errorf("%+v", st)
	}
}

func TestOrderIn(t *testing.T) {
	for jobs, want := range map[string]Order{
		"":                                    OrderNone,
		"412 steward.service restart running": OrderRestart,
		"411 other.service restart waiting\n412 steward.service try-restart running": OrderRestart,
		"412 steward.service stop running":                                           OrderStop,
		"411 other.service restart waiting":                                          OrderNone,
		"No jobs running.":                                                           OrderNone,
	} {
		if got := orderIn(jobs); got != want {
			t.Errorf("%q: %v", jobs, got)
		}
	}
}
