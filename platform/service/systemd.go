package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	kardianos "github.com/kardianos/service"
	"github.com/livhana/steward/platform"
)

// systemd installs units for one user or machine-wide.
type systemd struct {
	system bool
	user   string
	uid    int
	home   string
	run    run
}

const (
	machineUnits = "/etc/systemd/system"
	runtimeDir   = "/run/steward"
	stateDir     = "/var/lib/steward"
	lingerDir    = "/var/lib/systemd/linger"
)

// packagedUnits returns the folders in which distributions and packages install user units.
func packagedUnits() []string { return []string{"/usr/lib/systemd/user", "/lib/systemd/user"} }

func (m *systemd) name() string {
	if m.system {
		return "systemd (machine)"
	}
	return "systemd (user)"
}

func (m *systemd) dir() string {
	if m.system {
		return machineUnits
	}
	return filepath.Join(m.home, ".config", "systemd", "user")
}

// Render returns the units that Install would write.
func (m *systemd) Render(spec Spec) ([]File, error) { return units(spec, m.dir(), m.version()) }

// version returns systemd's version, or 0 if it is not known.
func (m *systemd) version() int {
	out, err := m.run(context.Background(), "systemctl", "--version")
	if err != nil {
		return 0
	}
	var n int
	if _, err := fmt.Sscanf(out, "systemd %d", &n); err != nil {
		return 0
	}
	return n
}

// ctl runs systemctl for this service's manager.
func (m *systemd) ctl(ctx context.Context, args ...string) (string, error) {
	argv := []string{"systemctl"}
	if !m.system {
		argv = append(argv, "--user")
	}
	return m.run(ctx, append(append(argv, "--no-pager"), args...)...)
}

// lacks returns an error if a precondition for a change is missing.
func (m *systemd) lacks(ctx context.Context) error {
	if m.system {
		if os.Geteuid() != 0 {
			return &Lack{"the machine's unit is changed by root alone", "run the same with sudo, or leave out --system for your own service"}
		}
		return nil
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if _, err := os.Stat(filepath.Join(dir, "systemd", "private")); dir == "" || err != nil {
		return &Lack{"no user manager of systemd is running for " + m.user,
			"log in once as that user (not by su or sudo), or have root run: loginctl enable-linger " + m.user}
	}
	if out, err := m.ctl(ctx, "is-system-running"); errors.Is(err, exec.ErrNotFound) {
		return &Lack{"systemctl is not to be found", "put its folder into PATH (usually /usr/bin)"}
	} else if err != nil && (out == "" || strings.Contains(out, "Failed to connect")) {
		return &Lack{fmt.Sprintf("the user manager of %s does not answer (%v)", m.user, err), "log in again, or have root run: systemctl restart user@" + strconv.Itoa(m.uid)}
	}
	return nil
}

// outer returns kardianos/service with a literal unit, to write, enable, disable and remove it.
func (m *systemd) outer(spec Spec, unit string) (kardianos.Service, error) {
	return kardianos.New(nil, &kardianos.Config{Name: Name, Executable: spec.Binary, Option: kardianos.KeyValue{
		"UserService": !m.system, "SystemdScript": unit}})
}

// Start starts the service, even after systemd's start limit has stopped it.
func (m *systemd) Start(ctx context.Context) error { return m.order(ctx, "start") }

// Stop stops the service, which then releases its holds.
func (m *systemd) Stop(ctx context.Context) error { return m.order(ctx, "stop") }

// Restart restarts the service.
func (m *systemd) Restart(ctx context.Context) error { return m.order(ctx, "restart") }

func (m *systemd) order(ctx context.Context, verb string) error {
	if err := m.lacks(ctx); err != nil {
		return err
	}
	st, err := m.Status(ctx)
	if err != nil {
		return err
	}
	if !st.Installed {
		return ErrNotInstalled
	}
	if err := foreign(st.Unit); err != nil {
		return err
	}
	if verb != "stop" {
		_, _ = m.ctl(ctx, "reset-failed", unitName) // an operator's command does not count against the start limit
	}
	begun := time.Now()
	if _, err := m.ctl(ctx, verb, unitName); err != nil {
		return doing(verb+" the service", m.withWords(ctx, begun, err))
	}
	return nil
}

// foreign returns an error for a unit with steward's name that starts a different program.
func foreign(unit string) error {
	text, err := os.ReadFile(unit)
	if err != nil || strings.Contains(string(text), " run --service") {
		return nil
	}
	return &Lack{unit + " is not steward's", "move it away, then: steward service install"}
}

// withWords prepends the last message that the program has printed since then to systemctl's error.
func (m *systemd) withWords(ctx context.Context, since time.Time, err error) error {
	argv := []string{"journalctl", "--no-pager", "-q", "-o", "cat", "-n", "50", "--since", "@" + strconv.FormatInt(since.Unix(), 10)}
	if m.system {
		argv = append(argv, "-u", unitName)
	} else {
		argv = append(argv, "--user", "-u", unitName)
	}
	out, e := m.run(ctx, argv...)
	if e != nil {
		return err
	}
	said := ""
	for _, line := range strings.Split(out, "\n") {
		if words, ok := strings.CutPrefix(line, "steward: "); ok {
			said = words
		}
	}
	if said == "" {
		return err
	}
	return fmt.Errorf("%s (%w)", said, err)
}

// Status queries systemd. If the manager does not answer, the files still show what is installed.
func (m *systemd) Status(ctx context.Context) (Status, error) {
	st := Status{Manager: m.name(), State: "unknown"}
	if lingers, known := Lingers(Account{User: m.user}); known && !m.system {
		st.Lingers = &lingers
	}
	out, err := m.ctl(ctx, "show", unitName, "--timestamp=unix",
		"-p", "LoadState,ActiveState,SubState,Result,MainPID,NRestarts,FragmentPath,UnitFileState,ActiveEnterTimestamp,ExecStart,StatusText")
	if err != nil {
		path := filepath.Join(m.dir(), unitName)
		if _, e := os.Stat(path); e == nil {
			st.Installed, st.Unit = true, path
		}
		st.Detail = "the manager does not answer: " + err.Error()
		return st, nil
	}
	st.read(out)
	return st, nil
}

// read parses the output of `systemctl show`.
func (st *Status) read(out string) {
	facts := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		key, value, _ := strings.Cut(line, "=")
		facts[key] = value
	}
	st.Installed = facts["LoadState"] == "loaded"
	if facts["LoadState"] == "masked" {
		facts["SubState"] = "masked; undo that with: systemctl unmask steward, or systemctl --user unmask steward"
	}
	st.Unit, st.Enabled = facts["FragmentPath"], strings.HasPrefix(facts["UnitFileState"], "enabled")
	st.State = facts["ActiveState"]
	st.Detail = facts["SubState"]
	if r := facts["Result"]; r != "" && r != "success" {
		st.Detail += ", last result: " + r
	}
	if s := facts["StatusText"]; s != "" && st.State != "inactive" {
		st.Detail += ", " + s
	}
	st.PID, _ = strconv.Atoi(facts["MainPID"])
	st.Restarts, _ = strconv.Atoi(facts["NRestarts"])
	if n, err := strconv.ParseInt(strings.TrimPrefix(facts["ActiveEnterTimestamp"], "@"), 10, 64); err == nil && n > 0 {
		st.Since = time.Unix(n, 0).UTC()
	}
	if _, rest, ok := strings.Cut(facts["ExecStart"], "path="); ok {
		st.Binary, _, _ = strings.Cut(rest, " ; ")
	}
}

// Uninstall stops the service and removes its units and links.
func (m *systemd) Uninstall(ctx context.Context) (Outcome, error) {
	var o Outcome
	if err := m.lacks(ctx); err != nil {
		return o, err
	}
	st, err := m.Status(ctx)
	if err != nil {
		return o, err
	}
	paths := []string{filepath.Join(m.dir(), unitName), filepath.Join(m.dir(), failedName)}
	own, err := keep([]File{{Path: paths[0]}, {Path: paths[1]}})
	if err != nil {
		return o, err
	}
	if !st.Installed && !own.wasThere() {
		return o, nil
	}
	o.Unit = st.Unit
	_, stopErr := m.ctl(ctx, "stop", unitName)
	_, _ = m.ctl(ctx, "stop", failedName)
	_, disableErr := m.ctl(ctx, "disable", unitName)
	gone, removeErr := remove(paths...)
	_, reloadErr := m.ctl(ctx, "daemon-reload")
	_, _ = m.ctl(ctx, "reset-failed", unitName)
	_, _ = m.ctl(ctx, "reset-failed", failedName)
	o.Changed, o.Removed = len(gone) > 0 || st.Enabled || st.Running(), gone
	if m.system {
		_ = os.RemoveAll(runtimeDir)
	}
	if o.Unit != "" && o.Unit != paths[0] {
		o.Notes = append(o.Notes, o.Unit+" belongs to a package and stays, disabled")
	}
	if dropIns := filepath.Join(m.dir(), unitName+".d"); exists(dropIns) {
		o.Notes = append(o.Notes, "your own settings in "+dropIns+" stay")
	}
	return o, errors.Join(doing("stop the service", stopErr), doing("disable the service", disableErr),
		doing("remove the units", removeErr), doing("have systemd read its units again", reloadErr))
}

// Lingers reports whether the account's services outlive its sessions; known is false where this does not apply.
func Lingers(who Account) (lingers, known bool) {
	if !exists("/run/systemd/system") {
		return false, false
	}
	return exists(filepath.Join(lingerDir, who.User)), true
}

// MachineUser returns the account that the machine-wide unit runs as, or last ran as; "" if none exists.
func MachineUser() string {
	text, _ := os.ReadFile(filepath.Join(machineUnits, unitName))
	if _, rest, ok := strings.Cut(string(text), "\nUser="); ok {
		name, _, _ := strings.Cut(rest, "\n")
		return name
	}
	info, err := os.Stat(stateDir)
	if err != nil || platform.OwnerOf(info) <= 0 { // unknown, or root
		return ""
	}
	u, err := user.LookupId(strconv.Itoa(platform.OwnerOf(info)))
	if err != nil {
		return ""
	}
	return u.Username
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
