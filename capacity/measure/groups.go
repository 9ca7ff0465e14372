package measure

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// membership is one line of /proc/self/cgroup: where the process stands in a hierarchy of control groups.
type membership struct {
	controllers []string // none: the one hierarchy of version 2
	path        string
}

func parseMemberships(text string) []membership {
	var all []membership
	for line := range strings.Lines(text) {
		// "4:memory:/user.slice" or "0::/user.slice"; a path may hold colons.
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			continue
		}
		m := membership{path: f[2]}
		switch {
		case f[0] == "0" && f[1] == "":
		case f[1] != "":
			m.controllers = strings.Split(f[1], ",")
		default:
			continue
		}
		all = append(all, m)
	}
	return all
}

// hierarchy is a mounted tree of control groups.
type hierarchy struct {
	controllers []string // none: version 2
	root        string   // which group of the hierarchy lies at the mount point
	mount       string
}

// parseHierarchies reads /proc/self/mountinfo (proc(5)). Version 1 may be mounted anywhere, each controller by itself
// or several together, and beside version 2.
func parseHierarchies(text string) []hierarchy {
	var all []hierarchy
	for line := range strings.Lines(text) {
		before, after, found := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !found || len(f) < 5 || len(g) < 2 {
			continue
		}
		h := hierarchy{root: unescape(f[3]), mount: unescape(f[4])}
		switch {
		case g[0] == "cgroup2":
		case g[0] == "cgroup" && len(g) > 2:
			h.controllers = strings.Split(g[2], ",")
		default:
			continue
		}
		all = append(all, h)
	}
	return all
}

// unescape undoes the octal escapes of mountinfo: blank, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// has reports whether the hierarchy is that of a controller; "" is version 2.
func (h hierarchy) has(controller string) bool {
	if controller == "" {
		return len(h.controllers) == 0
	}
	return slices.Contains(h.controllers, controller)
}

// chain gives the folders of a group and of all its ancestors that can be seen at the mount point, the group first.
// In a container without a namespace of its own the mount point is a group far down; in one with, paths count from the
// namespace, and a group outside is "/..".
func (h hierarchy) chain(group string) []string {
	if below, ok := under(h.root, group); ok {
		var dirs []string
		for dir := path.Join(h.mount, below); ; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
			if len(dir) <= len(h.mount) {
				return dirs
			}
		}
	}
	// A mount point above our namespace is an ancestor, though the names in between cannot be known.
	if ups(h.root) > ups(group) && strings.Trim(h.root, "/.") == "" {
		return []string{h.mount}
	}
	return nil
}

// under gives the way from the root to the group, without leaving it: a path with ".." left in it leads out of sight.
func under(root, group string) (string, bool) {
	below, ok := group, true
	if root != "/" {
		below, ok = strings.CutPrefix(group, root)
		ok = ok && (below == "" || below[0] == '/')
	}
	return below, ok && ups(below) == 0
}

// ups counts how often a path goes up.
func ups(p string) int {
	n := 0
	for step := range strings.SplitSeq(p, "/") {
		if step == ".." {
			n++
		}
	}
	return n
}

// chains gives for a controller ("" for version 2) the folders of our group and its ancestors; none when it is not
// mounted where we can see it. Of several mounts the one that shows most is taken.
func chains(controller string, memberships []membership, mounts []hierarchy) []string {
	var best []string
	for _, m := range memberships {
		if controller == "" && len(m.controllers) > 0 || controller != "" && !slices.Contains(m.controllers, controller) {
			continue
		}
		for _, h := range mounts {
			if !h.has(controller) {
				continue
			}
			if dirs := h.chain(m.path); cmp.Compare(len(dirs), len(best)) > 0 {
				best = dirs
			}
		}
	}
	return best
}
