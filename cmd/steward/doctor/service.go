package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
)

// serviceFacts describe one of the two services that an account may have: its own, and the machine's.
type serviceFacts struct {
	system  bool
	user    string
	lack    *service.Lack // why there is no service manager to ask
	err     error
	status  service.Status
	other   string   // the machine's unit runs as this user, not as the caller
	silent  bool     // the manager did not answer in time
	absent  bool     // the account's own manager does not run now
	program string   // the path of this program
	exists  bool     // the program that the service starts exists
	same    bool     // … and is this one
	drift   string   // how the definition differs; "" if it does not, or if that is unknown
	dropIns []string // files that change the definition
}

// managerTime bounds the queries to one service manager.
const managerTime = 1500 * time.Millisecond

// services asks both managers in parallel, so that a user's manager that hangs does not hide the machine's.
func (d *facts) services(ctx context.Context) []Finding {
	forms := []bool{false}
	if service.HasMachineFolders() || runtime.GOOS == "darwin" {
		forms = append(forms, true)
	}
	facts := make([]serviceFacts, len(forms))
	var all sync.WaitGroup
	for i, system := range forms {
		all.Go(func() { facts[i] = d.service(ctx, system) })
	}
	all.Wait()
	return judgeServices(facts, d.daemon.doc != nil, d.uid == 0)
}

func (d *facts) service(ctx context.Context, system bool) serviceFacts {
	ctx, cancel := context.WithTimeout(ctx, managerTime)
	defer cancel()
	f := serviceFacts{system: system, user: d.who.User}
	f.program, _ = d.o.Binary()
	who := d.who
	if name := service.MachineUser(); system && name != "" {
		if a, err := d.o.Account(true, name); err == nil {
			who = a
		}
		if name != d.who.User {
			f.other = name
		}
	}
	m, err := service.Detect(system, who)
	if err != nil {
		_ = errors.As(err, &f.lack)
		f.err = err
		return f
	}
	f.status, f.err = m.Status(ctx)
	f.silent = ctx.Err() != nil
	f.absent = !system && d.uid != 0 && runtime.GOOS == "linux" && !exists(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd", "private"))
	if !f.status.Installed {
		return f
	}
	f.exists, f.same = exists(f.status.Binary), sameFile(f.status.Binary, f.program)
	f.dropIns = dropInsOf(f.status.Unit, who.Home, system)
	if spec, err := d.o.Spec(system, f.status.Binary, who); err == nil {
		if files, err := m.Render(spec); err == nil {
			f.drift = drift(f.status.Unit, files, os.ReadFile)
		}
	}
	return f
}

// dropInsOf lists the drop-in files with which systemd overrides the unit.
func dropInsOf(unit, home string, system bool) (all []string) {
	dirs := []string{filepath.Join(home, ".config/systemd/user"), "/etc/systemd/user"}
	if system {
		dirs = []string{"/etc/systemd/system", "/run/systemd/system"}
	}
	if dir := filepath.Dir(unit); !slices.Contains(dirs, dir) {
		dirs = append(dirs, dir) // of a package
	}
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "steward.service.d", "*.conf"))
		all = append(all, files...)
	}
	return all
}

// drift compares the installed files with those that this program would install. A package's unit has another path and
// is made for any machine; it is not compared.
func drift(unit string, wanted []service.File, read func(string) ([]byte, error)) string {
	if len(wanted) == 0 || wanted[0].Path != unit {
		return ""
	}
	for _, f := range wanted {
		text, err := read(f.Path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return f.Path + " is missing"
		case err != nil:
			return f.Path + " cannot be read"
		case string(text) != f.Text:
			return f.Path + " is not what this program would install: an older version wrote it, the projects have changed, or a person has"
		}
	}
	return ""
}

// judgeServices judges both forms together. Another user's service is shown in full to root only, and does not
// conflict.
func judgeServices(forms []serviceFacts, running, asRoot bool) []Finding {
	var all []Finding
	installed, shown := 0, false
	for _, f := range forms {
		switch {
		case !f.status.Installed:
			continue
		case f.other == "":
			installed++
		case !asRoot:
			all = append(all, working("machine's unit", "it runs as %s and has nothing to do with your projects", f.other))
			continue
		}
		shown = true
		all = append(all, judgeInstalled(f)...)
	}
	switch {
	case installed > 1:
		all = append(all, broken("both", "remove one of them: steward service uninstall, or: sudo steward service uninstall --system",
			"your own service and the machine's are installed; they are in each other's way"))
	case !shown:
		all = append(all, judgeNone(forms[0], running, asRoot)...)
	}
	return all
}

// judgeNone says why nothing starts steward automatically.
func judgeNone(own serviceFacts, running, asRoot bool) []Finding {
	var all []Finding
	text := "not installed: steward runs only while you run it"
	if running {
		text = "not installed: the steward that runs now does not come back by itself"
	}
	do := "steward service install"
	if asRoot {
		do = "steward service install --system --user NAME, or as that user: steward service install"
	}
	switch {
	case own.lack != nil:
		return []Finding{warning("service", own.lack.Do, "%s; %s", text, own.lack.What)}
	case own.err != nil:
		return []Finding{warning("service", "look at it: steward service status", "the service manager cannot be asked: %v", own.err)}
	case own.silent:
		return []Finding{broken("manager", "log in again, or have root restart it", "%s does not answer within %s", own.status.Manager, managerTime)}
	case own.absent:
		all = append(all, warning("manager", "log in once as this user (not by su or sudo), or have root run: loginctl enable-linger "+own.user,
			"no user manager of systemd runs for you now"))
	}
	return append(all, warning("service", do, "%s", text))
}

// called returns the name of a finding; it says if the finding is about the machine's service.
func (f serviceFacts) called(what string) string {
	if f.system {
		return "machine's " + what
	}
	return what
}

func (f serviceFacts) command(verb string) string { return serviceCommand(verb, f.system) }

func judgeInstalled(f serviceFacts) []Finding {
	st := f.status
	all := []Finding{judgeEnabled(f)}
	switch {
	case st.Binary == "":
	case !f.exists:
		all = append(all, broken(f.called("program"), f.command("install"), "it starts %s, which does not exist", st.Binary))
	case !f.same:
		all = append(all, warning(f.called("program"), "if this one is meant: "+f.command("install"), "it starts %s, not this program, %s", st.Binary, f.program))
	default:
		all = append(all, working(f.called("program"), "it starts %s", st.Binary))
	}
	if f.drift != "" {
		all = append(all, warning(f.called("definition"), "compare it with: "+f.command("unit")+"; renew it with: "+f.command("install"), "%s", f.drift))
	}
	if len(f.dropIns) > 0 {
		all = append(all, working(f.called("drop-ins"), "overridden by your settings: %s", strings.Join(f.dropIns, ", ")))
	}
	all = append(all, judgeRunning(f)...)
	if !f.system && st.Lingers != nil {
		all = append(all, judgeLingers(*st.Lingers))
	}
	return all
}

func judgeEnabled(f serviceFacts) Finding {
	st := f.status
	switch {
	case f.silent:
		return broken(f.called("unit"), "log in again, or have root restart the service manager", "%s is there, but %s does not answer within %s", st.Unit, st.Manager, managerTime)
	case f.absent:
		return warning(f.called("unit"), "log in once as this user (not by su or sudo), or have root run: loginctl enable-linger "+f.user,
			"%s is there, but no user manager of systemd runs for you now", st.Unit)
	case st.State == "unknown":
		return warning(f.called("unit"), "look at it: steward service status", "%s is there, but its manager cannot be asked: %s", st.Unit, st.Detail)
	case !st.Enabled:
		return warning(f.called("unit"), f.command("install"), "%s, %s: not enabled, so it does not start by itself", st.Manager, st.Unit)
	}
	return working(f.called("unit"), "%s, %s, enabled", st.Manager, st.Unit)
}

// manyRestarts is the number of restarts from which the finding is a warning.
const manyRestarts = 3

func judgeRunning(f serviceFacts) []Finding {
	st, name := f.status, f.called("state")
	log := "journalctl --user -u steward"
	if f.system {
		log = "journalctl -u steward"
	}
	switch {
	case st.State == "unknown":
		return nil
	case st.State == "failed":
		return []Finding{broken(name, "read why: "+log+"; then: "+f.command("start"), "it was given up: %s", st.Detail)}
	case st.State == "activating":
		return []Finding{warning(name, "wait, then ask again; "+log, "it is being started: %s", st.Detail)}
	case !st.Running():
		return []Finding{broken(name, f.command("start"), "it does not run: %s", ServiceWords(st))}
	case st.Restarts >= manyRestarts:
		return []Finding{warning(name, "read why: "+log, "%s, restarted %s since it was started", ServiceWords(st), terminal.Plural(st.Restarts, "time"))}
	}
	return []Finding{working(name, "%s, %s", ServiceWords(st), terminal.Plural(st.Restarts, "restart"))}
}

func judgeLingers(lingers bool) Finding {
	if lingers {
		return working("lingering", "yes: it runs while you are not logged in, too")
	}
	return warning("lingering", "steward service install --linger", "no: it stops with your last session")
}

// ServiceWords describes the state of the service in one line.
func ServiceWords(st service.Status) string {
	text := terminal.Clean(st.Manager) + ": " + terminal.Clean(st.State)
	if st.Detail != "" {
		text += " (" + terminal.Clean(st.Detail) + ")"
	}
	if st.PID > 0 {
		text += fmt.Sprintf(", pid %d", st.PID)
	}
	return text
}
