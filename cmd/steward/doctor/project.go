package doctor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/supervisor"
)

// projectFacts describe one project.
type projectFacts struct {
	ref       config.ProjectRef
	folder    folder
	protocols []string
	unit      string // the text of the machine's unit, if that unit supervises the project; else ""
	report    *supervisor.ProjectReport
	running   bool // a daemon answers
	twin      bool // the daemon supervises this folder under another name
	flag      bool // the daemon has the project from --project, not from the configuration
	config    string
}

// projects returns the configured projects, and others that the daemon supervises.
func (d *examination) projects() []projectFacts {
	var all []projectFacts
	cwd, _ := os.Getwd()
	refs, _ := d.cfg.ProjectList(d.who.Home, cwd) // the configuration check reports what is wrong with a row
	for _, ref := range refs {
		all = append(all, projectFacts{ref: ref, running: d.daemon.doc != nil, config: d.paths.Config})
	}
	if d.daemon.doc == nil {
		return all
	}
	for n := range d.daemon.doc.Projects {
		r := &d.daemon.doc.Projects[n]
		i := slices.IndexFunc(all, func(f projectFacts) bool { return f.ref.Path == filepath.Clean(r.Path) })
		if i < 0 {
			more, _ := config.Config{Projects: []config.Project{{Path: r.Path, Name: r.Name}}}.ProjectList("", "")
			if len(more) == 0 {
				continue
			}
			i = len(all)
			all = append(all, projectFacts{ref: more[0], running: true, flag: true, config: d.paths.Config})
		}
		all[i].report = r
	}
	return all
}

// projectProbes returns two probes for each project, so that a disk that hangs affects only its own projects.
func (d *examination) projectProbes() []probe {
	list := d.projects()
	if len(list) == 0 {
		return []probe{{"projects", "projects", func(context.Context) []Finding { return []Finding{noProjects(d.config.err)} }}}
	}
	var folders, scripts []probe
	for _, f := range list {
		folders = append(folders, probe{"projects", f.ref.Name, func(context.Context) []Finding {
			f.folder = folderAt(f.ref.Path)
			f.protocols, f.unit = daemon.OpenProject(f.ref, d.cfg, false).Detect(), d.machineUnit()
			if f.running && f.report == nil {
				f.twin = slices.ContainsFunc(list, func(o projectFacts) bool { return o.report != nil && platform.SameFolder(o.ref.Path, f.ref.Path) })
			}
			return judgeProject(f)
		}})
		scripts = append(scripts, probe{"boot scripts", f.ref.Name, func(context.Context) []Finding { return d.bootScripts(f.ref) }})
	}
	return append(folders, scripts...)
}

func noProjects(refused error) Finding {
	if refused != nil {
		return warning("projects", "correct the configuration first", "they are not known while the configuration is refused")
	}
	return warning("projects", "steward service install --project DIR, or a [[project]] with its path in the configuration",
		"none is configured; the service would look after nothing, and `steward run` looks after the folder that it is started in")
}

// judgeProject says whether steward can work in the project, and what the daemon reports about it.
func judgeProject(f projectFacts) []Finding {
	name, path, correct := f.ref.Name, f.ref.Path, "correct its path in "+f.config
	if f.flag {
		correct = "start steward with the right --project"
	}
	switch {
	case f.folder.missing:
		return []Finding{broken(name, "make it, or "+correct, "there is no folder %s", path)}
	case f.folder.err != nil:
		return []Finding{broken(name, "see that you may enter it: ls -ld "+terminal.ShellQuote(path), "%s cannot be looked at: %v", path, f.folder.err)}
	case !f.folder.isDir:
		return []Finding{broken(name, correct, "%s is not a folder", path)}
	case f.folder.read != nil:
		return []Finding{broken(name, "let yourself read it: chmod u+rx "+terminal.ShellQuote(path), "%s cannot be read: %v", path, f.folder.read)}
	}
	all := append([]Finding{judgeSpoken(f)}, judgeWriting(f)...)
	return append(all, judgeReport(f)...)
}

func judgeSpoken(f projectFacts) Finding {
	if len(f.protocols) == 0 {
		return warning(f.ref.Name, "boot an agent: steward boot livhana-layer1.1 --project "+terminal.ShellQuote(f.ref.Path), "%s: no protocol yet", f.ref.Path)
	}
	var how []string
	for _, p := range f.protocols {
		how = append(how, p+" ("+f.ref.Mode(p)+")")
	}
	return working(f.ref.Name, "%s: %s", f.ref.Path, strings.Join(how, ", "))
}

// acts reports whether steward is to write in the project.
func (f projectFacts) acts() bool {
	return len(f.protocols) == 0 || slices.ContainsFunc(f.protocols, f.ref.Acts)
}

func judgeWriting(f projectFacts) []Finding {
	switch {
	case f.folder.write != nil && f.acts():
		return []Finding{broken(f.ref.Name, "make it writable for yourself, or have it only observed: [project.mode] in "+f.config,
			"%s cannot be written: %v", f.ref.Path, f.folder.write)}
	case f.unit != "" && f.acts() && !mayWriteByUnit(f.unit, f.ref.Path):
		return []Finding{broken(f.ref.Name, "sudo steward service install --system", "the machine's unit does not let steward write in %s (ReadWritePaths)", f.ref.Path)}
	}
	return nil
}

func judgeReport(f projectFacts) []Finding {
	if f.report == nil {
		if !f.running || f.twin {
			return nil
		}
		return []Finding{warning(f.ref.Name, "steward reload", "the steward that runs does not look after it")}
	}
	var all []Finding
	for _, note := range f.report.Notes {
		if strings.HasPrefix(note, "paused") {
			all = append(all, warning(f.ref.Name, "steward resume "+terminal.ShellQuote(f.ref.Name), "%s", note))
		}
	}
	for _, fault := range f.report.Faults[:min(len(f.report.Faults), status.ShownFaults)] {
		all = append(all, judgeFault(f.ref.Name, fault))
	}
	if rest := len(f.report.Faults) - status.ShownFaults; rest > 0 {
		all = append(all, warning(f.ref.Name, "steward status -o json", "and %s more", terminal.Plural(rest, "fault")))
	}
	return all
}

func judgeFault(name string, fault protocol.Fault) Finding {
	do := fault.Hint
	if do == "" {
		do = "look at the file; until it can be used, steward leaves it alone"
	}
	return warning(name, do, "%s: %s", fault.Path, fault.Problem)
}

// bootScripts checks the two scripts of protocol 000.
func (d *examination) bootScripts(ref config.ProjectRef) []Finding {
	if !slices.Contains(daemon.OpenProject(ref, d.cfg, false).Detect(), agentstatus.Name) {
		return nil
	}
	var all []Finding
	for _, script := range []string{claudeScript, codexScript} {
		path := filepath.Join(ref.Path, "scripts", script)
		if text, ok := readScript(path); ok {
			_, ready := readScript(filepath.Join(ref.Path, "scripts", step35))
			all = append(all, judgeScript(ref.Name, script, text, ready))
		}
	}
	return all
}
