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

// What steward may do with a protocol's files.
const (
	ModeAct     = "act"
	ModeObserve = "observe"
)

// spoken are the protocols that have an adapter, with the mode that holds where the file names none. The mode
// belongs to the protocol and not to config.toml, because it says whether others write its files without locks.
func spoken() map[string]string {
	return map[string]string{"agentstatus": ModeAct, "handoffs": ModeAct, "ralph": ModeObserve, "mailbox": ModeObserve, "envelope": ModeAct}
}

// unspoken says why there is no such protocol here; "" if there is.
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

// ProjectRef is a project as it is used.
type ProjectRef struct {
	Name string // unique and plain: the project in "project:kind/id"
	Path string // absolute and clean
	// Protocols are those to speak; nil: what is detected.
	Protocols []string
	mode      map[string]string
}

// Mode is act or observe, or "" for a protocol that is not spoken here.
func (p ProjectRef) Mode(protocol string) string {
	if mode, ok := p.mode[protocol]; ok {
		return mode
	}
	return spoken()[protocol]
}

// Acts reports whether steward may change the protocol's files in this project.
func (p ProjectRef) Acts(protocol string) bool { return p.Mode(protocol) == ModeAct }

// ProjectList resolves the [[project]] rows, in their order: ~ is home, other relative paths lie below cwd. A
// row without a name gets its folder's, with -2, -3 … where that is taken. No rows give an empty list.
func (c Config) ProjectList(home, cwd string) ([]ProjectRef, error) {
	if all := projectFlaws(c.Projects); len(all) > 0 {
		return nil, fmt.Errorf("list the projects: %s", all[0].text)
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

// projectFlaws checks the rows as they are written; what two paths come to is seen by ProjectList.
func projectFlaws(rows []Project) []flaw {
	var all []flaw
	names, paths := map[string]bool{}, map[string]bool{}
	for i, p := range rows {
		row := keyPath("project").entry(i)
		bad := func(at keyPath, format string, args ...any) {
			all = append(all, flaw{[]keyPath{at, row}, at.String() + ": " + fmt.Sprintf(format, args...)})
		}
		if p.Name != "" && plainName(p.Name) != p.Name {
			bad(row.key("name"), "%q must be plain: no : or /, no space around it", p.Name)
		}
		if p.Name != "" && names[p.Name] {
			bad(row.key("name"), "%q stands there twice", p.Name)
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
	return all
}

func modeFlaw(p Project, protocol string) string {
	mode := p.Mode[protocol]
	switch {
	case unspoken(protocol) != "":
		return unspoken(protocol)
	case mode != ModeAct && mode != ModeObserve:
		return fmt.Sprintf("%q must be %q or %q", mode, ModeAct, ModeObserve)
	case len(p.Protocols) > 0 && !slices.Contains(p.Protocols, protocol):
		return "the project does not speak it: it is not among its protocols"
	}
	return ""
}

// plainName makes a name that can stand before ":kind/id", in a file name, and on a line of its own.
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

// free gives the name, numbered if it is taken.
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
