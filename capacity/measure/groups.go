package measure

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// membership is one line of /proc/self/cgroup: the process's place in one hierarchy of control groups.
type membership struct {
	controllers []string // none: the unified hierarchy of version 2
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
	root        string   // the group that is at the mount point
	mount       string
}

// parseHierarchies reads /proc/self/mountinfo (proc(5)). Version 1 may be mounted anywhere, with one or several
// controllers per mount, and beside version 2.
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

// unescape decodes the octal escapes of mountinfo: space, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// has reports whether the hierarchy has the controller; "" means version 2.
func (h hierarchy) has(controller string) bool {
	if controller == "" {
		return len(h.controllers) == 0
	}
	return slices.Contains(h.controllers, controller)
}

// chain returns the folders of a group and of all its ancestors that are visible at the mount point, the group first.
// In a container without its own cgroup namespace the mount point is a group far down. With a namespace, paths are
// relative to it, and a group outside is "/..".
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
	// A mount point above the namespace is an ancestor, although the names in between are unknown.
	if ups(h.root) > ups(group) && strings.Trim(h.root, "/.") == "" {
		return []string{h.mount}
	}
	return nil
}

// under returns the path from the root down to the group. A path that still contains ".." leads out of the visible tree
// and is not ok.
func under(root, group string) (string, bool) {
	below, ok := group, true
	if root != "/" {
		below, ok = strings.CutPrefix(group, root)
		ok = ok && (below == "" || below[0] == '/')
	}
	return below, ok && ups(below) == 0
}

// ups counts the ".." steps of a path.
func ups(p string) int {
	n := 0
	for step := range strings.SplitSeq(p, "/") {
		if step == ".." {
			n++
		}
	}
	return n
}

// chains returns, for a controller ("" for version 2), the folders of steward's group and its ancestors; none if the
// controller is not mounted visibly. Of several mounts it uses the one that shows most folders.
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
