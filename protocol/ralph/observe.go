package ralph

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Observe returns what the files and the process table show now. A scan by hints reads again only the hinted workers and
// the active ones.
func (p *Project) Observe(ctx context.Context, look protocol.Look) protocol.Snapshot {
	s, there := p.Look(ctx, look)
	if !there {
		return s
	}
	full := look.Full() || p.dirty || slices.Contains(look.Hints, Base) || slices.Contains(look.Hints, path.Join(Base, workersDir))
	p.dirty = false
	p.readKanban()
	p.readWorkers(full, look.Hints)
	p.noteMissing()
	p.readMarks()
	p.dateEndings()
	p.choose()
	for _, name := range sortedKeys(p.live) {
		p.readPIDs(p.live[name])
		p.readStory(p.live[name])
	}
	p.readChief()
	p.readLogs()
	p.readViolations()
	c := p.census()
	for _, w := range p.live {
		w.session = p.judge(c, w)
	}
	p.retire(c)
	p.judgeChief(c)
	p.watchWorkers()
	p.describe(&s, c)
	s.Locate(Base)
	s.Findings = append(s.Findings, p.followResumes(ctx)...)
	s.Again = p.Patience.Again()
	return s
}

// census reads the process table if any file requires it.
func (p *Project) census() *processScan {
	if len(p.manned) > 0 || p.chief.claims() {
		return p.count()
	}
	for _, i := range p.board.open {
		if p.board.file.Value[i].marker == working {
			return p.count()
		}
	}
	return &processScan{sys: &p.sys}
}

// describe fills the snapshot.
func (p *Project) describe(s *protocol.Snapshot, c *processScan) {
	fates := map[string]fate{} // of the tasks in progress, by id
	for _, i := range p.board.open {
		if it := &p.board.file.Value[i]; it.marker == working {
			fates[it.id] = p.judgeTask(c, it, &p.board.state[i])
		}
	}
	if p.chief.claims() {
		s.Agents = append(s.Agents, p.chief.agent())
	}
	s.Findings = append(s.Findings, p.board.odd...)
	for _, name := range sortedKeys(p.live) {
		p.describeWorker(s, p.live[name], fates)
	}
	for _, id := range sortedKeys(fates) {
		if run := fates[id].planner; run != "" {
			s.Findings = append(s.Findings, protocol.Finding{Subject: task(id), Code: "planning", Severity: protocol.Low,
				Text: "only a planning run works on it: " + run})
		}
	}
	s.Tasks = p.tasks(fates)
	s.Findings = append(s.Findings, p.breach.headFindings()...)
	s.Locks = p.locks(c)
	s.Faults = append(s.Faults, p.Faults()...)
	if p.bare != nil {
		s.Faults = append(s.Faults, *p.bare)
		slices.SortStableFunc(s.Faults, func(a, b protocol.Fault) int { return strings.Compare(a.Path, b.Path) })
	}
}

// describeWorker adds a worker's agent, and the findings about the worker and its task.
func (p *Project) describeWorker(s *protocol.Snapshot, w *worker, fates map[string]fate) {
	f, inHand := fates[w.task]
	inHand = inHand && p.newest[w.task] == w
	left := w.hasPID() && p.newest[w.task] == w && p.mayComeBack(w.task)
	if w.session.presence == protocol.PresenceHere || inHand || left {
		a := p.agent(w)
		switch {
		case a.Presence == protocol.PresenceHere:
		case inHand:
			a.Presence, a.Evidence, a.Idle = f.presence, f.evidence, f.idle
		default: // the worker has ended and its task is not in progress: expect nothing from it
			a.Idle, a.Tasks = true, nil
		}
		s.Agents = append(s.Agents, a)
		s.Findings = append(s.Findings, p.agentFindings(w)...)
	}
	if p.newest[w.task] == w {
		s.Findings = append(s.Findings, p.taskFindings(w, f)...)
	}
	s.Findings = append(s.Findings, p.breach.findings(w)...)
}

// mayComeBack reports whether a task is to be done, or failed or was dropped recently: its last worker is still of
// interest.
func (p *Project) mayComeBack(id string) bool {
	i, known := p.board.where[id]
	if !known {
		return false
	}
	marker := p.board.file.Value[i].marker
	return marker == todo || (marker == failed || marker == dropped) && p.isNews(i)
}

// words maps each of the three pid files to the agent's status while the file's process lives.
var words = map[string]string{pidFiles[0]: "running", pidFiles[1]: "resuming", pidFiles[2]: "deciding"}

func (p *Project) agent(w *worker) protocol.Agent {
	a := protocol.Agent{Name: w.name, PID: w.session.pid, Tasks: []string{w.task}, Status: words[w.session.leading], Process: w.session.leader,
		Presence: w.session.presence, Evidence: w.session.evidence, Orphans: slices.Clone(w.session.orphans), Signs: p.signs(w)}
	if w.plan {
		a.Status = "planning"
	}
	return a
}

// signs returns a fingerprint of a worker's signs of progress: its events, results, checkpoints and summaries.
func (p *Project) signs(w *worker) string {
	var b strings.Builder
	if h := p.log.heard[w.name]; h != nil {
		fmt.Fprint(&b, h.n, h.at.UnixNano(), h.event)
	}
	for _, dir := range []string{"", resultsDir, "checkpoints", "summaries", "logs"} {
		if st, err := p.Root.Stat(path.Join(w.dir(), dir)); err == nil {
			fmt.Fprint(&b, " ", st.MtimeNs)
		}
	}
	fmt.Fprint(&b, " ", w.point.Stamp.MtimeNs, w.blocked.Stamp.MtimeNs)
	return string(jsonfile.SumOf([]byte(b.String())))
}

func (p *Project) agentFindings(w *worker) []protocol.Finding {
	var list []protocol.Finding
	subject := protocol.Subject{Kind: protocol.KindAgent, ID: w.name}
	if left := slices.Concat(w.session.orphans, w.session.strays); len(left) > 0 {
		text := fmt.Sprintf("its leader %d is gone, and %d processes of its session go on: %s", w.session.pid, len(left), p.commandsOf(left))
		if n := len(w.session.strays); n > 0 {
			text += fmt.Sprintf("; steward does not end %s: %s", pidsOf(w.session.strays), w.session.why)
		}
		list = append(list, protocol.Finding{Subject: subject, Code: "orphans", Severity: protocol.High, Text: text})
	}
	if h := p.log.heard[w.name]; h != nil && h.error != "" && p.isRecent(h.failed) {
		list = append(list, protocol.Finding{Subject: subject, Code: "error", Severity: protocol.Medium, Call: true, Text: h.error})
	}
	return list
}

// commandsOf lists processes with their pid and command.
func (p *Project) commandsOf(ids []protocol.Identity) string {
	var words []string
	for i, id := range ids {
		if i == 8 {
			words = append(words, "…")
			break
		}
		word := strconv.Itoa(id.PID)
		if argv, err := p.sys.command(id.PID); err == nil && len(argv) > 0 {
			word += " (" + folder.Line(strings.Join(argv, " "), 60) + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func pidsOf(ids []protocol.Identity) string {
	var words []string
	for i, id := range ids {
		if i == 8 {
			words = append(words, "…")
			break
		}
		words = append(words, fmt.Sprint(id.PID))
	}
	return strings.Join(words, ", ")
}

// isRecent reports whether a time is not history. A zero time counts as recent.
func (p *Project) isRecent(at time.Time) bool { return at.IsZero() || !at.Before(p.Since) }
