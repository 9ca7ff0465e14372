package service

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
)

// Where the machine's unit runs as the one who asks, that is the service: no second one is advised.
func TestServiceStatusBesideTheMachinesUnit(t *testing.T) {
	own := serviceReport{Status: service.Status{Manager: "systemd (user)", State: "unknown", Detail: "the manager does not answer: exit status 1"}}
	machine := serviceReport{Status: service.Status{Manager: "systemd (machine)", Installed: true, State: "active", Enabled: true, Unit: "/etc/systemd/system/steward.service"}}
	shown := func(me string) string {
		p := &terminal.Page{Now: time.Now(), Width: 200}
		renderService(p, besideMachine(own, machine, "jesse", me))
		return p.String()
	}
	if text := shown("jesse"); !strings.Contains(text, "systemd (machine): active") || strings.Contains(text, "install it with") {
		t.Errorf("for the account of the unit:\n%s", text)
	}
	if text := shown("ada"); !strings.Contains(text, "systemd (user): not installed") || !strings.Contains(text, "it runs as jesse") {
		t.Errorf("for another account:\n%s", text)
	}
}

// The definition that a package brings is no earlier service.
func TestInstallOrUpgrade(t *testing.T) {
	for want, before := range map[string]service.Status{
		"installed":              {Installed: true, State: "inactive"},
		"upgraded to ":           {Installed: true, Enabled: true, State: "inactive"},
		"upgraded to " + "1.2.3": {Installed: true, State: "active"},
	} {
		if got := done(before, "1.2.3"); !strings.HasPrefix(got, want) {
			t.Errorf("%+v: %s", before, got)
		}
	}
	p := &terminal.Page{Now: time.Now(), Width: 200}
	renderOutcome(p, service.Outcome{}, "", nothingThere)
	if text := p.String(); strings.Contains(text, "()") {
		t.Errorf("%s", text)
	}
}
