package packaging_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	packagedBin  = "/usr/bin/steward"
	packagedUnit = "/usr/lib/systemd/user/steward.service"
)

// TestDeb installs the package on a machine, upgrades it under a running service that holds a task, and removes it.
func TestDeb(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: short, and this boots machines")
	}
	whyNot(t)
	lacks(t, "dpkg-deb")
	dir := t.TempDir()
	var debs programs
	for version, deb := range map[string]*string{"1.0.0": &debs.old, "1.1.0": &debs.next} {
		*deb = strings.TrimSpace(says(t, "sh", "ci/deb.sh", version, filepath.Join(dir, version)))
	}
	for form, system := range map[string]bool{"user": false, "machine": true} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := &site{boot(t), debs, system, packagedBin}
			s.root("rm", "-f", "/usr/sbin/policy-rc.d") // on a build machine it forbids packages to touch services
			s.dpkg("--install", debs.old)
			s.furnish()
			fromPackage(s)
		})
	}
}

// dpkg runs it on the machine; a deb is copied there first.
func (s *site) dpkg(verb, what string) result {
	s.t.Helper()
	if strings.HasSuffix(what, ".deb") {
		inside := "/var/cache/" + filepath.Base(what)
		s.install(what, inside)
		what = inside
	}
	return s.must(s.root("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", verb, what))
}

func fromPackage(s *site) {
	if s.root("systemctl", "is-enabled", "steward").code == 0 || s.ctl("is-enabled", "steward").code == 0 {
		s.t.Error("the package enabled a service that nobody asked for")
	}
	s.installed()
	unit := s.show("FragmentPath")
	if !s.system && unit != packagedUnit || s.system && unit != systemUnits+"/steward.service" {
		s.t.Errorf("the unit is %s", unit)
	}
	s.play()
	facts, pid := s.facts(), s.pid()
	verify := s.neverShown(full)
	s.dpkg("--install", s.next)
	s.eventually("the new program runs", 15*time.Second, func() (string, bool) {
		r := s.steward("status", "-o", "json")
		return r.all(), strings.Contains(r.out, `"version": "1.1.0"`) && s.pid() != pid
	})
	s.keeps(facts, "an upgrade of the package")
	s.lastEnd("handed over")
	verify()
	if r := s.must(s.service("install", "-o", "json")); !strings.Contains(r.out, `"changed": false`) {
		s.t.Errorf("after the upgrade there is something left to install: %s", r.out)
	}
	s.dpkg("--remove", "steward")
	s.eventually("what it held is free", 10*time.Second, func() (string, bool) {
		return "", s.has(tasks+full+".request.json") && !s.has(tasks+full+".request.json.held")
	})
	if state := s.show("LoadState"); state != "not-found" {
		s.t.Errorf("the unit is still %s", state)
	}
	if r := s.root("find", "/etc/systemd", "/usr/lib/systemd", "/run/steward", "/run/user", userUnits, "-name", "*steward*"); strings.TrimSpace(r.out) != "" {
		s.t.Errorf("the removal leaves\n%s", r.out)
	}
	s.dpkg("--purge", "steward")
	if !s.has(userConfig) || !s.system && !s.has(userState+"/incidents") {
		s.t.Error("the removal of the package took something of jesse's own")
	}
}
