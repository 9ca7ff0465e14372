package views

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

func Capacity(p *terminal.Page, c status.Capacity) {
	head := "load " + terminal.Share(c.Load.Used)
	switch c.Load.Binding {
	case capacity.DimDisk: // the disk has its own limit instead of the threshold
		head += " (disk)"
	case "":
		head += fmt.Sprintf(" of %.0f %%", 100*c.Threshold)
	default:
		head += fmt.Sprintf(" of %.0f %%, %s binds", 100*c.Threshold, terminal.Clean(c.Load.Binding))
	}
	if c.Running > 0 {
		head += ", " + terminal.Plural(c.Running, "task") + " running"
	}
	p.Styled(terminal.Bold, "%s", head)
	p.Table("  ", nil, dimensionRows(p, c)...)
	switch e := c.ExhaustedSeconds; {
	case e > 0 && e <= 1: // the gauge's minimum, which remains while nothing is left
		p.Styled(terminal.Red, "open files are used up")
	case e > 0 && e < 120:
		p.Styled(terminal.Red, "open files run out in about %s", terminal.Short(time.Duration(e*float64(time.Second))))
	}
	Section(p, "Admitted", "", claimRows(p, c))
	Section(p, "Largest consumers", "", consumerRows(c.Consumers))
	if c.Alone {
		p.Styled(terminal.Dim, "no steward answers: these are this command's own readings; 'steward tasks' tells what was held last")
		return
	}
	Section(p, "Held", "queue empty", heldRows(p, c.Held))
	Section(p, "Waiting at the gate", "", waitingRows(p, c.Waiting))
}

func dimensionRows(p *terminal.Page, c status.Capacity) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, d := range capacity.Dimensions() {
		used := ShareOf(c, d)
		look := terminal.Plain
		if used.Or(0) > c.Threshold {
			look = terminal.Red
		}
		rows = append(rows, []terminal.Cell{terminal.Text(d), terminal.Colored(terminal.Share(used), look), terminal.Colored(bar(used), look), terminal.Text(sizeOf(c, d)), terminal.Text(promised(c, d)), terminal.Text(shutSince(p, c.Gates, d)), terminal.Text(c.Because[d])})
	}
	if len(c.Load.Disks) > 1 {
		for _, project := range slices.Sorted(maps.Keys(c.Load.Disks)) {
			d := c.Load.Disks[project]
			used := protocol.Used(d.Used)
			rows = append(rows, []terminal.Cell{terminal.Text("  of " + project), terminal.Text(terminal.Share(used)), terminal.Text(bar(used)), terminal.Text(mebibytes(d.Free) + " free")})
		}
	}
	for _, g := range c.Gates {
		if g.Dimension == capacity.DimAgent {
			rows = append(rows, []terminal.Cell{terminal.Text("agent " + g.Agent), terminal.Text(""), terminal.Text(""), terminal.Text(gateWords(p, g))})
		}
	}
	return rows
}

func ShareOf(c status.Capacity, dimension string) protocol.Share {
	switch dimension {
	case capacity.DimCPU:
		return c.Load.CPU
	case capacity.DimMemory:
		return c.Load.Memory
	case capacity.DimFiles:
		return c.Load.Files
	}
	return c.Load.Disk
}

// sizeOf is the total that the share refers to.
func sizeOf(c status.Capacity, dimension string) string {
	switch {
	case dimension == capacity.DimCPU && c.Cores > 0:
		return "of " + cores(c.Cores)
	case dimension == capacity.DimDisk && len(c.Load.Disks) > 0:
		project, d := fullestDisk(c.Load.Disks)
		return mebibytes(d.Free) + " free (" + project + ")"
	case dimension == capacity.DimMemory && c.MemoryBytes > 0:
		return "of " + mebibytes(c.MemoryBytes)
	}
	return ""
}

// cores formats a number of cores, which may be fractional.
func cores(n float64) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%.4g cores", n)
}

// fullestDisk is the project with the fullest disk; of several, the first by name.
func fullestDisk(disks map[string]capacity.Disk) (project string, d capacity.Disk) {
	for _, name := range slices.Sorted(maps.Keys(disks)) {
		if project == "" || disks[name].Used > d.Used {
			project, d = name, disks[name]
		}
	}
	return project, d
}

// promised is the usage that the next task meets, if claims raise it above the reading.
func promised(c status.Capacity, dimension string) string {
	with := map[string]protocol.Share{capacity.DimCPU: c.Promised.CPU, capacity.DimMemory: c.Promised.Memory}[dimension]
	if with.Or(0) <= ShareOf(c, dimension).Or(0)+0.005 {
		return ""
	}
	return terminal.Share(with) + " promised"
}

// claimRows lists the claims: their expected and their actual use.
func claimRows(p *terminal.Page, c status.Capacity) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, k := range c.Claims {
		state := "admitted, not started, " + p.Ago(&k.Since)
		if k.Taken != nil {
			state = "taken " + p.Ago(k.Taken)
		}
		from := "assumed"
		if k.Learnt {
			from = "learnt"
		}
		now := ""
		if k.MeasuredCores != nil && k.MeasuredMemory != nil {
			now = fmt.Sprintf("now %.1f cores, %s", *k.MeasuredCores, mebibytes(*k.MeasuredMemory))
		}
		what := k.Subject
		if strings.HasPrefix(what, "machine/admission") {
			what, state = "what started by itself", p.Ago(&k.Since)
		}
		rows = append(rows, []terminal.Cell{terminal.Text(what), terminal.Text(state), terminal.Text(fmt.Sprintf("%.1f cores, %s (%s)", k.Cores, mebibytes(k.MemoryBytes), from)), terminal.Text(now)})
	}
	return rows
}

// bar draws a share in tenths.
func bar(s protocol.Share) string {
	v, known := s.Value()
	if !known {
		return ""
	}
	n := int(v*10 + 0.5)
	return strings.Repeat("#", n) + strings.Repeat(".", 10-n)
}

func shutSince(p *terminal.Page, gates []status.Gate, dimension string) string {
	var list []string
	for _, g := range gates {
		if g.Dimension == dimension {
			list = append(list, gateWords(p, g))
		}
	}
	return strings.Join(list, "; ")
}

func gateWords(p *terminal.Page, g status.Gate) string {
	of := ""
	if g.Project != "" {
		of = " of " + terminal.Clean(g.Project)
	}
	return fmt.Sprintf("shut for %s, %s%s waiting", terminal.Short(p.Now.Sub(g.Since)), terminal.Plural(g.Waiting, "task"), of)
}

func consumerRows(list []protocol.Consumer) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, c := range list {
		files := ""
		if c.Files > 0 {
			files = terminal.Plural(c.Files, "file")
		}
		rows = append(rows, []terminal.Cell{terminal.Text(fmt.Sprintf("pid %d", c.PID)), terminal.Text(fmt.Sprintf("%.1f cores", c.CPU)), terminal.Text(mebibytes(c.Memory)), terminal.Text(files), terminal.Text(c.Name), terminal.Colored(c.Agent, terminal.Dim)})
	}
	return rows
}

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }

func heldRows(p *terminal.Page, held []status.Held) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, h := range held {
		since := ""
		if h.Since != nil {
			since = "for " + terminal.Short(p.Now.Sub(*h.Since))
		}
		due := ""
		if h.NotBefore != nil {
			due = "due " + p.Ago(h.NotBefore)
		}
		rows = append(rows, []terminal.Cell{terminal.Text(h.Subject), terminal.Text(h.Agent), terminal.Text(h.Priority.String()), terminal.Text(h.Reason), terminal.Text(since), terminal.Text(due), terminal.Colored(h.Why, terminal.Dim)})
	}
	return rows
}

// waitingRows lists the clients that were refused at the gate for lack of room.
func waitingRows(p *terminal.Page, list []status.Waiting) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, w := range list {
		what := w.Agent
		if w.Task != "" {
			what = "task " + w.Task
		}
		pid := ""
		if w.PID > 0 {
			pid = fmt.Sprintf("pid %d", w.PID)
		}
		rows = append(rows, []terminal.Cell{terminal.Colored(w.Project, terminal.Dim), terminal.Text(what), terminal.Text(pid), terminal.Text("for " + terminal.Short(p.Now.Sub(w.Since))), terminal.Text("asks again " + p.Soon(w.NotBefore)), terminal.Colored(w.Why, terminal.Dim)})
	}
	return rows
}
