package ralph

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// pidFiles are the three pid files that a worker may have; each names the leader of a session (protocol 002, Worker
// Directory Structure shows only the first).
var pidFiles = [...]string{"agent.pid", "resume.pid", "decide.pid"}

const (
	resumeFile     = "resume-state.json"
	violationFile  = "violation_status.txt"
	violationWord  = "WORKSPACE_VIOLATION" // what the file says
	resultsDir     = "results"
	reportsDir     = "reports"
	checkpointsDir = "checkpoints"
	summariesDir   = "summaries"
)

// relevant are the entries of a worker's folder that mean something.
var relevant = append(pidFiles[:], resumeFile, violationFile, resultsDir, reportsDir, checkpointsDir, summariesDir, logsDir, "workspace", "prd.md")

// worker is one folder of workers/.
type worker struct {
	name, task string
	epoch      int64
	plan       bool
	made       time.Time // the folder's mtime: when an entry was last added or removed
	listing    folder.Listing
	names      map[string]bool // the relevant entries
	hasPID     bool            // one of them is a pid file

	young   bool // it changed recently
	retired bool // it has ended, although there still is a pid file
	active  bool // every scan reads it in detail: see workers.choose

	pids    [len(pidFiles)]pidFile
	session session
	reports
}

// pidFile is a pid file with what steward saw of the session that it names.
type pidFile struct {
	jsonfile.Reading[int]
	leader  protocol.Identity   // the leader that steward itself saw alive
	members []protocol.Identity // the members of a leader's session as last seen
	empty   bool                // the session was found empty: its number may be reused
}

// reports is what the files of a worker say about its work. It is read for active workers only.
type reports struct {
	resume     jsonfile.Reading[resume]
	violation  jsonfile.Reading[string]
	results    map[string]*step // newest of each step
	checkpoint numbered[checkpoint]
	blocked    numbered[[]string]
	touched    []int64 // the mtimes of the folders in which the worker shows progress
}

// numbered is the newest of a series of numbered files. Its last good value stays until a newer file can be read.
type numbered[T any] struct {
	jsonfile.Reading[T]
	file string
}

// follow finds the newest file, and reports whether there is one.
func (n *numbered[T]) follow(f *folder.Folder, w *worker, dir string, name *regexp.Regexp) bool {
	if !w.names[dir] {
		return false
	}
	if file := newestNumbered(f, path.Join(w.dir(), dir), name); file != n.file {
		f.Patience.Clear(n.file)
		n.Reading, n.file = jsonfile.Reading[T]{Value: n.Value}, file
	}
	return n.file != ""
}

// step is the newest result of one step of the pipeline.
type step struct {
	epoch  int64
	file   string
	runs   int // number of results of this step: a FIX loop runs it again
	doc    jsonfile.Reading[result]
	report string // its report, if there is one
}

func (w *worker) dir() string { return path.Join(workersDir, w.name) }

// manned reports whether the folder contains a pid file of a worker that has not retired.
func (w *worker) manned() bool { return w.hasPID && !w.retired }

// readPIDs reads the pid files of a worker's sessions.
func (w *worker) readPIDs(f *folder.Folder) {
	for i, name := range pidFiles {
		if w.names[name] || w.pids[i].There {
			readPID(f, &w.pids[i].Reading, path.Join(w.dir(), name))
		}
	}
}

// pidSettled is how long a pid file without a newline must be unchanged before its number counts.
const pidSettled = 2 * time.Second

// readPID reads a pid file. A truncated number is also a number. The shell writes a newline after it, so without the
// newline the number counts only once the file has been unchanged for pidSettled.
func readPID(f *folder.Folder, r *jsonfile.Reading[int], file string) {
	jsonfile.LoadText(f.Root, &f.Patience, r, file, maxSmall, func(text []byte) (int, error) {
		pid, err := folder.ParsePID(text)
		if err == nil && !bytes.HasSuffix(text, []byte("\n")) {
			if st, statErr := f.Root.Stat(file); statErr != nil || f.Now.Sub(st.ModTime()) < pidSettled {
				err = fmt.Errorf("%w: the pid file has no end yet", jsonfile.ErrTorn)
			}
		}
		return pid, err
	})
}

// readReports reads what a worker's files say about its work.
func (w *worker) readReports(f *folder.Folder) {
	w.readResume(f)
	if w.names[violationFile] || w.violation.There {
		jsonfile.LoadText(f.Root, &f.Patience, &w.violation, path.Join(w.dir(), violationFile), maxSmall, decodeViolation)
	}
	w.readResults(f)
	if w.checkpoint.follow(f, w, checkpointsDir, checkpointName()) {
		jsonfile.Load(f.Root, &f.Patience, &w.checkpoint.Reading, w.checkpoint.file, maxFile, decodeCheckpoint)
	}
	if w.blocked.follow(f, w, summariesDir, summaryName()) {
		jsonfile.LoadText(f.Root, &f.Patience, &w.blocked.Reading, w.blocked.file, maxFile, decodeBlocked)
	}
	w.touched = w.touched[:0]
	for _, dir := range []string{"", resultsDir, checkpointsDir, summariesDir, logsDir} {
		if st, err := f.Root.Stat(path.Join(w.dir(), dir)); err == nil {
			w.touched = append(w.touched, st.MtimeNs)
		}
	}
}

func (w *worker) readResume(f *folder.Folder) {
	if w.names[resumeFile] || w.resume.There {
		jsonfile.Load(f.Root, &f.Patience, &w.resume, path.Join(w.dir(), resumeFile), maxFile, decodeResume)
	}
}

// listed lists a folder (relative to Base). A file in its place counts as no folder.
func listed(f *folder.Folder, dir string) (l folder.Listing) {
	l.Read(f, dir)
	return l
}

// maxSteps limits the step results read of one worker; a pipeline has a dozen steps.
const maxSteps = 64

// readResults keeps the newest result of each step (protocol 002, Epoch-Named Result Files).
func (w *worker) readResults(f *folder.Folder) {
	if !w.names[resultsDir] {
		return
	}
	dir := path.Join(w.dir(), resultsDir)
	if l := listed(f, dir); l.There {
		w.results = newestResults(l.Names, w.results)
	}
	for kind, s := range w.results {
		jsonfile.Load(f.Root, &f.Patience, &s.doc, path.Join(dir, s.file), maxFile, decodeResult)
		s.report = ""
		report := path.Join(w.dir(), reportsDir, fmt.Sprintf("%d-%s-report.md", s.epoch, kind))
		if st, err := f.Root.Stat(report); err == nil && st.Mode.IsRegular() {
			s.report = f.Shown(report)
		}
	}
}

// newestResults finds the newest result of each step among file names. Steps whose newest file was known keep their
// reading.
func newestResults(names []string, known map[string]*step) map[string]*step {
	list, runs := map[string]*step{}, map[string]int{}
	for _, name := range names {
		kind, epoch, ok := resultName(name)
		if !ok || !jsonfile.PlainName(name) {
			continue
		}
		runs[kind]++
		s := list[kind]
		if s != nil && (s.epoch > epoch || s.epoch == epoch && s.file > name) || s == nil && len(list) == maxSteps {
			continue
		}
		if s = known[kind]; s == nil || s.file != name {
			s = &step{epoch: epoch, file: name}
		}
		list[kind] = s
	}
	for kind, s := range list {
		s.runs = runs[kind]
	}
	return list
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

// Checkpoints and summaries lie where the document shows them, or one level deeper, with one folder per run.
var (
	checkpointName = folder.Pattern(`^checkpoint-([0-9]{1,9})\.json$`)
	summaryName    = folder.Pattern(`^[A-Za-z0-9._-]*?([0-9]{1,9})-summary\.txt$`)
)

// maxRuns limits how many folders of runs are read.
const maxRuns = 32

// newestNumbered finds the file with the highest number in whichever of a folder and its subfolders changed last.
func newestNumbered(f *folder.Folder, top string, name *regexp.Regexp) string {
	best, number, at := "", int64(-1), time.Time{}
	try := func(dir string) (names []string) {
		l := listed(f, dir)
		for _, n := range l.Names {
			m := name.FindStringSubmatch(n)
			if m == nil {
				continue
			}
			k, _ := strconv.ParseInt(m[1], 10, 64)
			if t := l.Stamp.ModTime(); best == "" || t.After(at) || t.Equal(at) && k > number {
				best, number, at = path.Join(dir, n), k, t
			}
		}
		return l.Names
	}
	runs := slices.DeleteFunc(try(top), func(n string) bool { return !jsonfile.PlainName(n) || name.MatchString(n) })
	for _, run := range runs[max(0, len(runs)-maxRuns):] {
		try(path.Join(top, run))
	}
	return best
}

// stopReading ends the detailed reading of a worker, and drops the recorded read errors of its files.
func (w *worker) stopReading(f *folder.Folder) {
	f.Patience.ClearBelow(w.dir())
	w.active, w.session = false, session{}
	w.results = nil
}
