package ralph

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// pidFiles are the three pid files that a worker may have; each names the leader of a session (protocol 002, Worker
// Directory Structure shows only the first).
var pidFiles = [...]string{"agent.pid", "resume.pid", "decide.pid"}

const (
	resumeFile    = "resume-state.json"
	violationFile = "violation_status.txt"
	resultsDir    = "results"
	reportsDir    = "reports"
)

// worker is one folder of workers/.
type worker struct {
	name, task string
	epoch      int64
	plan       bool
	made       time.Time // the folder's mtime: when an entry was last added or removed
	names      map[string]bool
	active     bool // every scan reads it in detail: see choose

	pids      [len(pidFiles)]jsonfile.Reading[int]
	resume    jsonfile.Reading[resume]
	violation jsonfile.Reading[string]
	results   map[string]*step // newest of each step
	point     jsonfile.Reading[checkpoint]
	pointAt   string
	blocked   jsonfile.Reading[[]string]
	summaryAt string
	session   session
	seen      [len(pidFiles)]protocol.Identity   // the leaders that steward itself saw alive
	kin       [len(pidFiles)][]protocol.Identity // the members of a leader's session as last seen
	left      [len(pidFiles)]bool                // the session was found empty: its number may be reused
}

// step is the newest result of one step of the pipeline.
type step struct {
	epoch int64
	file  string
	runs  int // number of results of this step: a FIX loop runs it again
	doc   jsonfile.Reading[result]
}

func (w *worker) dir() string { return path.Join(workersDir, w.name) }

// hasPID reports whether the folder contains a pid file.
func (w *worker) hasPID() bool {
	return slices.ContainsFunc(pidFiles[:], func(f string) bool { return w.names[f] })
}

// youngFor is how long every scan reads a folder after its last change: its worker may still be being set up.
const youngFor = 2 * time.Minute

// readWorkers brings the folders up to date. A full scan reads all but the resting ones; any other scan reads those that
// are new, hinted, young or active.
func (p *Project) readWorkers(full bool, hints []string) {
	names, changed := p.list(workersDir)
	if changed {
		p.listWorkers(names)
	}
	if full {
		for _, w := range p.workers {
			if !p.rests(w) {
				p.scan(w)
			}
		}
		p.doze()
		return
	}
	for _, hint := range hints {
		if rel, ok := strings.CutPrefix(hint, Base+"/"+workersDir+"/"); ok {
			name, _, _ := strings.Cut(rel, "/")
			if w := p.workers[name]; w != nil {
				p.scan(w)
				p.wake(w)
			}
		}
	}
	for _, set := range []map[string]*worker{p.live, p.young} {
		for _, w := range set {
			p.scan(w)
		}
	}
}

// rests reports whether a folder is finished with: its task is over, no process is in it, and it has not changed recently.
// If its task is in progress again, choose selects it again.
func (p *Project) rests(w *worker) bool {
	if w.active || w.names == nil || p.young[w.name] != nil || p.manned[w.name] != nil {
		return false
	}
	if p.quiet.workers[w.name] != nil {
		return true
	}
	i, known := p.board.where[w.task]
	return known && hasEnded(p.board.file.Value[i].marker)
}

// listWorkers adds new folders and drops removed ones.
func (p *Project) listWorkers(names []string) {
	there := make(map[string]bool, len(names))
	for _, name := range names {
		id, epoch, plan, err := workerName(name)
		if err != nil {
			continue // not a worker's folder, or a name that is unsafe in a path
		}
		there[name] = true
		if p.workers[name] == nil {
			w := &worker{name: name, task: id, epoch: epoch, plan: plan}
			p.workers[name], p.young[name] = w, w
		}
	}
	for name, w := range p.workers {
		if !there[name] {
			p.dropWorker(w)
		}
	}
	for dir := range p.folders {
		if rel, ok := strings.CutPrefix(dir, workersDir+"/"); ok {
			if name, _, _ := strings.Cut(rel, "/"); !there[name] {
				delete(p.folders, dir)
			}
		}
	}
	p.newest = map[string]*worker{}
	for _, w := range p.workers {
		if w.plan {
			continue
		}
		if n := p.newest[w.task]; n == nil || w.epoch > n.epoch || w.epoch == n.epoch && w.name > n.name {
			p.newest[w.task] = w
		}
	}
}

func (p *Project) dropWorker(w *worker) {
	for _, set := range []map[string]*worker{p.workers, p.young, p.manned, p.live, p.quiet.workers} {
		delete(set, w.name)
	}
	p.hush(w)
}

// hush drops the recorded read errors of a worker's files, because steward no longer reads them.
func (p *Project) hush(w *worker) {
	for _, name := range append([]string{resumeFile, violationFile, resultsDir}, pidFiles[:]...) {
		p.Patience.Clear(path.Join(w.dir(), name))
	}
	for _, s := range w.results {
		p.Patience.Clear(path.Join(w.dir(), resultsDir, s.file))
	}
	p.Patience.Clear(w.pointAt)
	p.Patience.Clear(w.summaryAt)
	delete(p.folders, path.Join(w.dir(), resultsDir))
}

// scan checks which of the relevant files a worker's folder contains.
func (p *Project) scan(w *worker) {
	names, changed := p.list(w.dir())
	if f := p.folders[w.dir()]; f != nil {
		w.made = f.stamp.ModTime()
	}
	if p.Now.Sub(w.made) < youngFor {
		p.young[w.name] = w
	} else {
		delete(p.young, w.name)
	}
	if !changed {
		return
	}
	w.names = map[string]bool{}
	for _, n := range names {
		if slices.Contains(pidFiles[:], n) || n == resumeFile || n == violationFile || n == resultsDir || n == "checkpoints" || n == "summaries" ||
			n == "workspace" || n == "prd.md" || n == reportsDir || n == logsDir {
			w.names[n] = true
		}
	}
	delete(p.quiet.workers, w.name)
	if delete(p.manned, w.name); w.hasPID() {
		p.manned[w.name] = w
	}
	if !w.active && p.folders[w.dir()] != nil && p.folders[w.dir()].rest {
		p.folders[w.dir()].names = nil // save memory: thousands of folders can accumulate
	}
}

// choose selects the workers to read in detail: those with a pid file, and the newest worker of each task that is in
// progress, awaits approval, or failed recently. All others cost nothing.
func (p *Project) choose() {
	now := map[string]*worker{}
	for name, w := range p.manned {
		now[name] = w
	}
	for _, i := range slices.Concat(p.board.open, p.board.since(p.Since)) {
		it := &p.board.file.Value[i]
		w := p.newest[it.id]
		if w == nil || it.marker == complete {
			continue
		}
		if p.wake(w); w.hasPID() || it.marker == working || it.marker == approval || it.marker == failed {
			now[w.name] = w
		}
	}
	for name, w := range p.live {
		if now[name] == nil {
			p.calm(w)
		}
	}
	for _, w := range now {
		if !w.active {
			w.active = true
			p.scan(w)
		}
	}
	p.live = now
}

// calm stops the detailed reading of a worker.
func (p *Project) calm(w *worker) {
	w.active = false
	w.session, w.results = session{}, nil
	p.hush(w)
}

// readPIDs reads the pid files of a worker's sessions.
func (p *Project) readPIDs(w *worker) {
	for i, name := range pidFiles {
		if w.names[name] || w.pids[i].There {
			p.readPID(&w.pids[i], path.Join(w.dir(), name))
		}
	}
}

// pidRests is how long a pid file without a newline must be unchanged before its number counts.
const pidRests = 2 * time.Second

// readPID reads a pid file. A truncated number is also a number. The shell writes a newline after it, so without the
// newline the number counts only once the file has been unchanged for pidRests.
func (p *Project) readPID(r *jsonfile.Reading[int], file string) {
	jsonfile.LoadText(p.Root, &p.Patience, r, file, maxSmall, func(text []byte) (int, error) {
		pid, err := decodePID(text)
		if err == nil && !bytes.HasSuffix(text, []byte("\n")) {
			if st, statErr := p.Root.Stat(file); statErr != nil || p.Now.Sub(st.ModTime()) < pidRests {
				err = fmt.Errorf("%w: the pid file has no end yet", jsonfile.ErrTorn)
			}
		}
		return pid, err
	})
}

// readStory reads a worker's reports on its work. It is called for active workers only.
func (p *Project) readStory(w *worker) {
	p.readResume(w)
	if w.names[violationFile] || w.violation.There {
		jsonfile.LoadText(p.Root, &p.Patience, &w.violation, path.Join(w.dir(), violationFile), maxSmall, decodeViolation)
	}
	p.readResults(w)
	if w.names["checkpoints"] {
		p.readCheckpoint(w)
	}
	if w.names["summaries"] {
		p.readSummary(w)
	}
}

func (p *Project) readResume(w *worker) {
	if w.names[resumeFile] || w.resume.There {
		jsonfile.Load(p.Root, &p.Patience, &w.resume, path.Join(w.dir(), resumeFile), maxFile, decodeResume)
	}
}

// maxSteps limits the step results read of one worker; a pipeline has a dozen steps.
const maxSteps = 64

// readResults keeps the newest result of each step (protocol 002, Epoch-Named Result Files).
func (p *Project) readResults(w *worker) {
	if !w.names[resultsDir] {
		return
	}
	dir := path.Join(w.dir(), resultsDir)
	names, changed := p.list(dir)
	if changed || w.results == nil {
		was := w.results
		w.results = map[string]*step{}
		runs := map[string]int{}
		for _, name := range names {
			kind, epoch, ok := resultName(name)
			if !ok || !jsonfile.PlainName(name) {
				continue
			}
			runs[kind]++
			s := w.results[kind]
			if s != nil && (s.epoch > epoch || s.epoch == epoch && s.file > name) || s == nil && len(w.results) == maxSteps {
				continue
			}
			if s = was[kind]; s == nil || s.file != name {
				s = &step{epoch: epoch, file: name}
			}
			w.results[kind] = s
		}
		for kind, s := range w.results {
			s.runs = runs[kind]
		}
	}
	for _, s := range w.results {
		jsonfile.Load(p.Root, &p.Patience, &s.doc, path.Join(dir, s.file), maxFile, decodeResult)
	}
}

// Checkpoints and summaries lie where the document shows them, or one level deeper, with one folder per run.
var (
	checkpointName = lazily(`^checkpoint-([0-9]{1,9})\.json$`)
	summaryName    = lazily(`^[A-Za-z0-9._-]*?([0-9]{1,9})-summary\.txt$`)
)

// maxRuns limits how many folders of runs are read.
const maxRuns = 32

// newestNumbered finds the file with the highest number in whichever of dir and its subfolders changed last.
func (p *Project) newestNumbered(dir string, name *regexp.Regexp) string {
	best, number, at := "", int64(-1), time.Time{}
	try := func(in string, names []string, touched time.Time) {
		for _, n := range names {
			m := name.FindStringSubmatch(n)
			if m == nil {
				continue
			}
			k, _ := strconv.ParseInt(m[1], 10, 64)
			if best == "" || touched.After(at) || touched.Equal(at) && k > number {
				best, number, at = path.Join(in, n), k, touched
			}
		}
	}
	names, _ := p.list(dir)
	if f := p.folders[dir]; f != nil {
		try(dir, names, f.stamp.ModTime())
	}
	runs := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !jsonfile.PlainName(n) || strings.Contains(n, ".") && name.MatchString(n) })
	for _, run := range runs[max(0, len(runs)-maxRuns):] {
		sub := path.Join(dir, run)
		if st, err := p.Root.Stat(sub); err != nil || !st.Mode.IsDir() {
			continue
		}
		inside, _ := p.list(sub)
		if f := p.folders[sub]; f != nil {
			try(sub, inside, f.stamp.ModTime())
		}
	}
	return best
}

func (p *Project) readCheckpoint(w *worker) {
	file := p.newestNumbered(path.Join(w.dir(), "checkpoints"), checkpointName())
	if file != w.pointAt {
		p.Patience.Clear(w.pointAt)
		w.point, w.pointAt = jsonfile.Reading[checkpoint]{Value: w.point.Value}, file
	}
	if file != "" {
		jsonfile.Load(p.Root, &p.Patience, &w.point, file, maxFile, decodeCheckpoint)
	}
}

func (p *Project) readSummary(w *worker) {
	file := p.newestNumbered(path.Join(w.dir(), "summaries"), summaryName())
	if file != w.summaryAt {
		p.Patience.Clear(w.summaryAt)
		w.blocked, w.summaryAt = jsonfile.Reading[[]string]{}, file
	}
	if file != "" {
		jsonfile.LoadText(p.Root, &p.Patience, &w.blocked, file, maxFile, decodeBlocked)
	}
}

// when returns when a step ended: the time in its result, else the epoch in the file name.
func (s *step) when() time.Time {
	if at := s.doc.Value.completed.By(s.doc.Stamp.ModTime()); s.doc.Good && !at.IsZero() {
		return at
	}
	if s.epoch > 0 && s.epoch < 1<<40 {
		return time.Unix(s.epoch, 0).UTC()
	}
	return time.Time{}
}
