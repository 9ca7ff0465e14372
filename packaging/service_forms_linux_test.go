package packaging_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// refused: what is lacking is said in one line, and nothing is left behind.
func refused(t *testing.T, p programs) {
	s := newSite(t, p, true) // nobody has logged in: there is no user manager
	before := strings.Join(s.traces(), "\n")
	for what, line := range map[string][]string{
		"root":         {program, "service", "install", "--system"},
		"user manager": {program, "service", "install"},
	} {
		r := s.jesse(line...)
		if r.code != 1 && r.code != 5 || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, what) || r.out != "" {
			t.Errorf("without a %s: exit %d, want 1 or 5 and one line: %q, %q", what, r.code, r.err, r.out)
		}
	}
	if after := strings.Join(s.traces(), "\n"); after != before {
		t.Errorf("a refused installation leaves something:\n%s", after)
	}
	// Never as root: that needs a name.
	if r := s.root(program, "service", "install", "--system"); r.code == 0 {
		t.Errorf("a machine service of root's: %s", r.all())
	}
	if r := s.root(program, "service", "install", "--system", "--user", "nobody-here"); r.code == 0 || strings.Count(r.err, "\n") != 1 {
		t.Errorf("a machine service for a user that does not exist: exit %d: %s", r.code, r.all())
	}
	if s.has(systemUnits + "/steward.service") {
		t.Error("a unit is left")
	}
}

// plantedLinks: root works in folders that belong to the user, and must not follow what the user has put there.
func plantedLinks(t *testing.T, p programs) {
	s := newSite(t, p, true)
	s.installed()
	s.play()
	s.folder(garden, jesseID)
	names := []string{"handover.json", "run.json", "heartbeat.json", "status.json", "steward.lock", "incidents"}
	plant := func() {
		for _, name := range names {
			s.write("/etc/victims/"+name, "root's\n", 0)
			s.must(s.jesse("ln", "-sfnT", "/etc/victims/"+name, "/tmp/"+name))
			s.jesse("sh", "-c", "rm -rf "+systemState+"/"+name+"; mv -T /tmp/"+name+" "+systemState+"/"+name)
		}
	}
	intact := func(after string) {
		t.Helper()
		for _, name := range names {
			r := s.root("stat", "-c", "%u", "/etc/victims/"+name)
			if got := s.read("/etc/victims/" + name); got != "root's\n" || r.out != "0\n" {
				t.Errorf("after %s /etc/victims/%s is %q, of user %q", after, name, got, r.out)
			}
		}
	}
	for _, line := range [][]string{{"restart"}, {"install", "--project", garden}, {"stop"}, {"start"}, {"uninstall", "--purge"}} {
		plant()
		s.service(line[0], line[1:]...) // whether it succeeds is not the question
		intact("service " + line[0])
	}
}

// lateBus: the user's session bus appears after the machine's service has started, and it is reached all the same.
func lateBus(t *testing.T, p programs) {
	s := newSite(t, p, true)
	s.write(userConfig, strings.Replace(settings, "channels = []", `channels = ["desktop"]`, 1), jesseID)
	s.installed()
	if s.has("/run/user/1000/bus") {
		t.Fatal("the bus is there already")
	}
	s.linger()
	s.must(s.jesse("systemd-run", "--user", "--unit", "witness", "dbus-monitor"))
	s.reaches("/run/user/1000/bus")
	s.submit(broken, 1)
	s.fail(broken, "GIT_CONFLICT", "fatal")
	s.eventually("somebody is looked for on the user's bus who shows popups", 20*time.Second, func() (string, bool) {
		said := s.root("journalctl", "--no-pager", "-o", "cat", "_SYSTEMD_USER_UNIT=witness.service").out
		return said, strings.Contains(said, `"org.freedesktop.Notifications"`)
	})
	// The user logs out and in again: another bus, in another folder of the same name.
	s.must(s.root("loginctl", "disable-linger", "jesse"))
	s.eventually("the user manager has gone", 20*time.Second, func() (string, bool) { return "", !s.has("/run/user/1000") })
	s.linger()
	s.reaches("/run/user/1000/bus")
}

// reaches expects a socket to be open to the service, from where it stands.
func (s *site) reaches(socket string) {
	s.t.Helper()
	r := s.root("nsenter", "-t", strconv.Itoa(s.pid()), "-m", "--", "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--",
		"dbus-send", "--bus=unix:path="+socket, "--dest=org.freedesktop.DBus", "--print-reply", "/", "org.freedesktop.DBus.ListNames")
	if r.code != 0 {
		s.t.Errorf("the service does not reach %s: %s", socket, r.all())
	}
}

var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// verified: systemd's own judges have nothing to say against the units.
func verified(t *testing.T, p programs) {
	s := newSite(t, p, true)
	s.linger()
	for _, form := range []struct {
		system bool
		dir    string
		limit  float64
	}{{true, systemUnits, 2.0}, {false, userUnits, 5.5}} {
		s.system = form.system
		s.must(s.service("install"))
		as, scope := s.root, "--system"
		if !form.system {
			as, scope = s.jesse, "--user"
		}
		unit := form.dir + "/steward.service"
		if r := as("systemd-analyze", scope, "--man=no", "verify", unit, form.dir+"/steward-failed.service"); r.code != 0 || r.all() != "" {
			t.Errorf("systemd-analyze %s verify: exit %d: %s", scope, r.code, r.all())
		}
		threshold := strconv.Itoa(int(form.limit * 10))
		for _, name := range []string{"/steward.service", "/steward-failed.service"} {
			r := as("systemd-analyze", scope, "--no-pager", "--offline=true", "--threshold="+threshold, "security", form.dir+name)
			found := exposure.FindStringSubmatch(r.out)
			if found == nil {
				t.Errorf("systemd-analyze %s security: exit %d: %s", scope, r.code, r.all())
				continue
			}
			t.Logf("%s %s: exposure %s", scope, name, found[1])
			if score, _ := strconv.ParseFloat(found[1], 64); r.code != 0 || score > form.limit {
				t.Errorf("systemd-analyze %s security: exit %d, over %.1f:\n%s", scope, r.code, form.limit, r.all())
			}
		}
		if live := as("systemd-analyze", scope, "--no-pager", "security", "steward.service"); exposure.MatchString(live.out) {
			t.Logf("%s while it runs: exposure %s", scope, exposure.FindStringSubmatch(live.out)[1])
		}
		s.must(s.service("uninstall"))
	}
}

// poweredOff: the machine goes down in order, and nothing stays held.
func poweredOff(t *testing.T, p programs) {
	s := newSite(t, p, false)
	s.installed()
	s.play()
	home, err := s.files.OpenRoot("home/jesse") // open beyond the end of the mount
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	s.root("systemctl", "poweroff")
	request := strings.TrimPrefix(tasks, "/home/jesse/") + full + ".request.json"
	s.eventually("nothing is held when the machine is off", 15*time.Second, func() (string, bool) {
		_, open := home.Stat(request)
		_, held := home.Stat(request + ".held")
		return "", open == nil && held != nil
	})
}
