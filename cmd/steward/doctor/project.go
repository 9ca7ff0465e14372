package doctor

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// projectFacts describe one project.
type projectFacts struct {
	ref       config.ProjectRef
	folder    folderFacts
	protocols []string
	ordered   map[string]supervisor.ModeOrder // by protocol
	report    *supervisor.ProjectReport
	running   bool // a daemon answers
	twin      bool // the daemon supervises this folder under another name
	flag      bool // the daemon has the project from --project, not from the configuration
	config    string
}

// knownProjects returns the configured projects, and others that the daemon supervises.
func (d *facts) knownProjects() []projectFacts {
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

// mode is what steward does in a protocol of the project.
func (f *projectFacts) mode(name string) string {
	return cmp.Or(string(f.ordered[name].Mode), f.ref.Mode(name))
}

// project checks one project.
func (d *facts) project(_ context.Context, f projectFacts) []Finding {
	f.folder = folderAt(f.ref.Path)
	f.protocols = daemon.OpenProject(f.ref, d.cfg, false).Detect()
	if _, modes, err := daemon.OrdersAbout(d.paths.State, []config.ProjectRef{f.ref}); err == nil {
		f.ordered = modes[f.ref.Name]
	}
	if f.running && f.report == nil {
		f.twin = slices.ContainsFunc(d.projects, func(o projectFacts) bool { return o.report != nil && platform.SameFolder(o.ref.Path, f.ref.Path) })
	}
	return judgeProject(f)
}

// anyProject warns if there is no project at all.
func (d *facts) anyProject(context.Context) []Finding {
	switch {
	case len(d.projects) > 0:
		return nil
	case d.config.err != nil:
		return []Finding{warning("projects", "correct the configuration first", "they are not known while the configuration is refused")}
	}
	return []Finding{warning("projects", "steward service install --project DIR, or a [[project]] with its path in the configuration",
		"none is configured; the service would look after nothing, and `steward run` looks after the folder that it is started in")}
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
		return []Finding{broken(name, "see that you may enter it: ls -ld "+terminal.ShellQuote(path), "%s cannot be read: %v", path, f.folder.err)}
	case !f.folder.isDir:
		return []Finding{broken(name, correct, "%s is not a folder", path)}
	case f.folder.read != nil:
		return []Finding{broken(name, "let yourself read it: chmod u+rx "+terminal.ShellQuote(path), "%s cannot be read: %v", path, f.folder.read)}
	}
	all := []Finding{judgeSpoken(f)}
	writes := func(name string) bool { return f.mode(name) != config.ModeObserve }
	if writes := len(f.protocols) == 0 || slices.ContainsFunc(f.protocols, writes); writes && f.folder.write != nil {
		all = append(all, broken(name, "make it writable for yourself, or have it only observed: steward mode "+f.ref.Name+" PROTOCOL observe",
			"%s cannot be written: %v", path, f.folder.write))
	}
	return append(all, judgeReport(f)...)
}

func judgeSpoken(f projectFacts) Finding {
	if len(f.protocols) == 0 {
		return warning(f.ref.Name, "boot an agent: steward boot livhana-layer1.1 --project "+terminal.ShellQuote(f.ref.Path), "%s: no protocol yet", f.ref.Path)
	}
	var how []string
	for _, p := range f.protocols {
		how = append(how, p+" ("+f.mode(p)+")")
	}
	return working(f.ref.Name, "%s: %s", f.ref.Path, strings.Join(how, ", "))
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
		all = append(all, warning(f.ref.Name, cmp.Or(fault.Hint, "look at the file; until it can be used, steward leaves it alone"), "%s: %s", fault.Path, fault.Problem))
	}
	if rest := len(f.report.Faults) - status.ShownFaults; rest > 0 {
		all = append(all, warning(f.ref.Name, "steward status -o json", "and %s more", terminal.Plural(rest, "fault")))
	}
	return all
}

// bootScripts checks the two scripts of protocol 000.
func (d *facts) bootScripts(_ context.Context, f projectFacts) []Finding {
	ref := f.ref
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
	if text, ok := readScript(filepath.Join(ref.Path, "docs", "INDEX.md")); ok {
		all = append(all, judgeIndex(ref.Name, text)...)
	}
	return all
}

// judgeIndex says whether the project's index names the protocol (protocol 000, Permanence Guarantee).
func judgeIndex(project, text string) []Finding {
	text = strings.ToLower(strings.NewReplacer("_", " ", "-", " ").Replace(text))
	if strings.Contains(text, "inter agent co") { // communication, coordination
		return nil
	}
	return []Finding{warning(project+" docs/INDEX.md", `name the protocol's document there, under "Inter-Agent Coordination"`, "it does not name the protocol")}
}

// The boot scripts that protocol 000 names, and the part of the first that packaging/boot provides.
const (
	claudeScript = "claude_tier1_boot.sh"
	codexScript  = "codex_agent_boot.sh"
	step35       = "claude_tier1_step3.5.sh"
)

// maxScript bounds how much of a script is read.
const maxScript = 1 << 20

// readScript opens regular files only: opening a pipe would wait for its writer.
func readScript(path string) (string, bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	return string(text), err == nil
}

var (
	// stewardBoot matches the command, named directly or through a variable.
	stewardBoot = lazily(`(\bsteward["']?|\$\{?[A-Za-z_]+\}?["']?)\s+boot\s+["']?(livhana-layer1\.1|codex-cursor|\$)`)
	sourced     = lazily(`(^|[;&|\s])(\.|source|bash)\s+[^\n]*claude_tier1_step3\.5\.sh`)
)

// judgeScript says whether a boot script leaves the setup to steward. ready: the part for Step 3.5 is there.
func judgeScript(project, script, text string, ready bool) Finding {
	code := withoutComments(text)
	name := project + " " + script
	agent, line := "codex-cursor", `steward boot codex-cursor --project "$ROOT"`
	if script == claudeScript {
		agent, line = "livhana-layer1.1", `steward boot livhana-layer1.1 --project "$ROOT"`
	}
	do := "put this in the place of its set-up: " + line
	switch {
	case script == claudeScript && sourced().MatchString(code) && !ready:
		return warning(name, "put "+step35+" beside it (it comes with steward, packaging/boot), or write: "+line, "it calls %s, which is not there", step35)
	case stewardBoot().MatchString(code), script == claudeScript && sourced().MatchString(code):
		return working(name, "it leaves the set-up to steward")
	case strings.Contains(code, "agent_registry.json"):
		return warning(name, do, "it sets %s up itself, instead of leaving that to steward, which merges with what is there", agent)
	}
	return warning(name, do, "it does not boot %s", agent)
}

// withoutComments drops the lines that contain only a comment.
func withoutComments(text string) string {
	var code strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			code.WriteString(line)
		}
	}
	return code.String()
}
