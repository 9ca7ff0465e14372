package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
)

// programFacts describe the program that examines.
type programFacts struct {
	version, path string
	found         string // the program that `steward` in PATH starts; "" if none
	foundIsOther  bool
	daemon        string // the version of the running daemon; "" if none answers
	system        bool   // the daemon is the machine's unit
	asRootFor     string // the user who is meant if root runs doctor
}

func (d *facts) program(context.Context) []Finding {
	f := programFacts{version: d.o.Version, system: platform.IsMachineState(d.paths.State)}
	f.path, _ = os.Executable()
	if path, err := exec.LookPath("steward"); err == nil {
		f.found, f.foundIsOther = path, !sameFile(path, f.path)
	}
	if d.daemon.doc != nil {
		f.daemon = d.daemon.doc.Version
	}
	if d.uid == 0 {
		f.asRootFor = otherThanRoot(os.Getenv("SUDO_USER"), service.MachineUser())
	}
	return judgeProgram(f)
}

func otherThanRoot(names ...string) string {
	for _, name := range names {
		if name != "" && name != "root" {
			return name
		}
	}
	return ""
}

func judgeProgram(f programFacts) []Finding {
	all := []Finding{working("version", "steward %s, %s", f.version, f.path)}
	if f.daemon != "" && f.daemon != f.version {
		all = append(all, warning("running version", serviceCommand("install", f.system)+" (it upgrades in place), or restart the daemon",
			"the daemon is %s, this program is %s", f.daemon, f.version))
	}
	switch {
	case f.found == "":
		all = append(all, warning("PATH", "put a link to it into a folder of PATH: ln -s "+terminal.ShellQuote(f.path)+" ~/.local/bin/steward",
			"`steward` is not found in PATH; boot scripts that call it do not find it"))
	case f.foundIsOther:
		all = append(all, warning("PATH", "remove the one that you do not want, or change the order in PATH",
			"`steward` starts another program, %s", f.found))
	}
	if f.asRootFor != "" {
		all = append(all, warning("account", "run it as that user, without sudo: steward doctor",
			"root is asking: what follows is about root's own steward, not about that of %s", f.asRootFor))
	}
	return all
}

// configFacts describe the configuration file in force.
type configFacts struct {
	file     string
	named    string // what names the file: a flag or a variable; "" for the usual place
	there    bool
	projects int
	err      error
	gone     []config.Problem
}

// readSettings reads the configuration and the paths that follow from it.
func (d *facts) readSettings(ctx context.Context) {
	type answer struct {
		cfg   config.Config
		paths platform.Paths
		err   error
		there bool
	}
	got, ok := within(ctx, settingsTime, func(context.Context) answer {
		var a answer
		a.cfg, a.paths, a.err = d.o.Settings()
		a.there = exists(a.paths.Config)
		return a
	})
	if !ok {
		got = answer{paths: d.o.Paths(), err: fmt.Errorf("no answer within %s: is it a pipe, or does its disk hang?", settingsTime), there: true}
	}
	d.cfg, d.paths = got.cfg, got.paths
	d.config = configFacts{file: got.paths.Config, there: got.there, err: got.err, projects: len(got.cfg.Projects), gone: got.cfg.Gone}
	if got.err != nil {
		d.cfg = config.Defaults()
	}
	switch {
	case d.o.ConfigFile != "":
		d.config.named = "--config"
	case os.Getenv("STEWARD_CONFIG") != "":
		d.config.named = "STEWARD_CONFIG"
	}
}

func (d *facts) configuration(context.Context) []Finding {
	return judgeConfig(d.config, d.daemon.doc != nil)
}

func judgeConfig(f configFacts, running bool) []Finding {
	from := ""
	if f.named != "" {
		from = " (named by " + f.named + ")"
	}
	var all []Finding
	switch {
	case f.err != nil:
		all = refusedConfig(f, from, running)
	case !f.there:
		all = append(all, working("file", "no file %s%s; the defaults apply", f.file, from))
	default:
		all = append(all, working("file", "%s%s is fine and names %s", f.file, from, terminal.Plural(f.projects, "project")))
	}
	for _, p := range f.gone {
		all = append(all, warning("problem", fmt.Sprintf("remove line %d of %s", p.Line, f.file), "%s", p.Text))
	}
	return all
}

func refusedConfig(f configFacts, from string, running bool) []Finding {
	text := f.file + from + " is refused; steward does not start with it"
	if running { // the daemon has read an earlier version
		text = f.file + from + " is refused; the daemon goes on with the former one"
	}
	all := []Finding{broken("file", "correct it; then: steward config --check "+terminal.ShellQuote(f.file), "%s", text)}
	for _, p := range config.Problems(f.err) {
		if p.Line == 0 {
			all = append(all, broken("problem", "correct it", "%s", p.Text))
			continue
		}
		all = append(all, broken("problem", fmt.Sprintf("correct line %d of %s", p.Line, f.file), "line %d: %s", p.Line, p.Text))
	}
	return all
}
