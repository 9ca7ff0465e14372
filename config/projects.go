package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The modes: what steward may do with a protocol's files.
const (
	ModeAct     = "act"
	ModeAsk     = "ask"
	ModeObserve = "observe"
)

// agentsOwn is the protocol that registers every agent, and whose tasks name what runs.
const agentsOwn = "agentstatus"

// spoken returns the protocols that have an adapter, with the default mode. The mode belongs to the protocol and not to
// config.toml, because it depends on whether other programs write the protocol's files without locks.
func spoken() map[string]string {
	return map[string]string{agentsOwn: ModeAct, "handoffs": ModeAct, "ralph": ModeAsk, "mailbox": ModeAsk, "envelope": ModeAct}
}

// unspoken returns an error text if the protocol is not supported, else "".
func unspoken(name string) string {
	if _, ok := spoken()[name]; ok {
		return ""
	}
	known := slices.Sorted(maps.Keys(spoken()))
	if near, ok := nearest(name, known); ok {
		return fmt.Sprintf("there is no protocol %q; did you mean %q?", name, near)
	}
	return fmt.Sprintf("there is no protocol %q; there are %q", name, known)
}

// ProjectRef is a resolved project.
type ProjectRef struct {
	Name string // unique and plain: the project part of "project:kind/id"
	Path string // absolute and clean
	// Protocols are the protocols to use; nil: the detected ones.
	Protocols []string
	mode      map[string]string
}

// Mode is act, ask or observe, or "" for a protocol that is not supported.
func (p ProjectRef) Mode(protocol string) string {
	if mode, ok := p.mode[protocol]; ok {
		return mode
	}
	return spoken()[protocol]
}

// Sets reports whether the configuration itself sets the protocol's mode.
func (p ProjectRef) Sets(protocol string) bool { return p.mode[protocol] != "" }

// Acts reports whether steward may change the protocol's files in this project.
func (p ProjectRef) Acts(protocol string) bool { return p.Mode(protocol) == ModeAct }

// ProjectList resolves the [[project]] rows in order: ~ is home, other relative paths are relative to cwd. A row
// without a name gets the name of its folder, with -2, -3 … if that is taken. Without rows the list is empty.
func (c Config) ProjectList(home, cwd string) ([]ProjectRef, error) {
	var flaws flawList
	if flaws.projects(c.Projects); len(flaws) > 0 {
		return nil, fmt.Errorf("list the projects: %s", flaws[0].text)
	}
	taken := map[string]bool{}
	for _, p := range c.Projects {
		taken[p.Name] = true
	}
	paths := map[string]bool{}
	var list []ProjectRef
	for _, p := range c.Projects {
		path, err := Expand(p.Path, home, cwd)
		if err != nil {
			return nil, fmt.Errorf("list the projects: %w", err)
		}
		if paths[path] {
			return nil, fmt.Errorf("list the projects: project.path: %s is named twice", path)
		}
		paths[path] = true
		ref := ProjectRef{Name: p.Name, Path: path, Protocols: p.Protocols, mode: p.Mode}
		if ref.Name == "" {
			ref.Name = free(plainName(filepath.Base(path)), taken)
			taken[ref.Name] = true
		}
		list = append(list, ref)
	}
	return list, nil
}

// Expand makes a path from the configuration absolute and clean.
func Expand(path, home, cwd string) (string, error) {
	rest, tilde := strings.CutPrefix(filepath.ToSlash(path), "~")
	base := cwd
	switch {
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case tilde && rest != "" && rest[0] != '/':
		return "", fmt.Errorf("expand %q: only ~ alone stands for a home folder; write the path out", path)
	case tilde:
		base, path = home, rest
	}
	if !filepath.IsAbs(base) {
		return "", fmt.Errorf("expand %q: the folder that it begins in is not known", path)
	}
	return filepath.Join(base, path), nil
}

// projects checks the rows as written; ProjectList detects duplicates among resolved paths.
func (l *flawList) projects(rows []Project) {
	names, paths := map[string]bool{}, map[string]bool{}
	for i, p := range rows {
		row := keyPath("project").entry(i)
		bad := func(at keyPath, format string, args ...any) { l.wrongAt([]keyPath{at, row}, format, args...) }
		if p.Name != "" && plainName(p.Name) != p.Name {
			bad(row.key("name"), "%q must be plain: no : or /, no space around it", p.Name)
		}
		if p.Name != "" && names[p.Name] {
			bad(row.key("name"), "%q is listed twice", p.Name)
		}
		names[p.Name] = true
		for n, name := range p.Protocols {
			if why := unspoken(name); why != "" {
				bad(row.key("protocols").entry(n), "%s", why)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.Mode)) {
			if why := modeFlaw(p, name); why != "" {
				bad(row.key("mode").key(name), "%s", why)
			}
		}
		if p.Path != "" && paths[filepath.Clean(p.Path)] {
			bad(row.key("path"), "%s is named twice", p.Path)
		}
		paths[filepath.Clean(p.Path)] = true
		if p.Path == "" { // last, because it concerns the whole row
			bad(row.key("path"), "a project needs the path of its folder")
		}
	}
}

func modeFlaw(p Project, protocol string) string {
	mode := p.Mode[protocol]
	switch {
	case unspoken(protocol) != "":
		return unspoken(protocol)
	case mode != ModeAct && mode != ModeAsk && mode != ModeObserve:
		return fmt.Sprintf("%q must be %q, %q or %q", mode, ModeObserve, ModeAsk, ModeAct)
	case len(p.Protocols) > 0 && !slices.Contains(p.Protocols, protocol):
		return "the project does not speak it: it is not among its protocols"
	}
	return ""
}

// plainName converts a name so that it is valid before ":kind/id", in a file name, and on one line.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`:/\`, r) || unicode.IsControl(r) {
			return '-'
		}
		return r
	}, strings.TrimSpace(name))
	if name == "" || name == "." || name == ".." || name == "-" {
		return "project"
	}
	return name
}

// free returns the name, with a number if it is taken.
func free(name string, taken map[string]bool) string {
	if !taken[name] {
		return name
	}
	for n := 2; ; n++ {
		if numbered := name + "-" + strconv.Itoa(n); !taken[numbered] {
			return numbered
		}
	}
}
