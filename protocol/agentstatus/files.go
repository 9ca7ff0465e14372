package agentstatus

import (
	"cmp"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Base is the protocol's folder inside a project (protocol 000, File Locations).
const Base = "tmp/agent_status"

// The paths inside Base. Files under own belong to steward.
const (
	tasksDir    = "codex_tasks"
	archiveDir  = "codex_tasks/.processed" // some clients move ended tasks here
	sharedDir   = "shared"
	registry    = "shared/agent_registry.json"
	logFile     = "shared/coordination_log.jsonl"
	own         = "steward"
	attemptsDir = "steward/attempts"
	agentsDir   = "steward/agents"
	capacityDoc = "steward/" + folder.CapacityFile
)

// claimsDir holds one file per task that a steward worker has claimed. Protocol 000 defines no claims: a foreign
// executor does not see them and may run the task as well.
// See docs/decisions.md, "Claims lie in steward's own folder and mean nothing to other clients".
const claimsDir = "steward/claims"

// maxFile is the size limit for reading a file. A larger file is a Fault.
const maxFile = 1 << 20

// ourName is the source_agent of what steward writes in an agent's stead.
const ourName = "steward"

// statusFiles is the protocol's folder as all parts of the adapter read and write it.
type statusFiles struct {
	folder.Files
	folder.Listings
	waits []jsonfile.Option // Volatile while a batch is applied: the batch waits for the disk once, at its end
}

// probe notes which of the folders have changed since they were last listed.
func (f *statusFiles) probe(dirs ...string) { f.Probe(f.Folder, dirs...) }

// probeAll probes all folders but those of the agents.
func (f *statusFiles) probeAll() {
	f.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir, agentsDir, sharedDir)
}

// object reads a document that is needed only once. A document that cannot be read has no fields.
func (f *statusFiles) object(file string) (jsonfile.Object, jsonfile.Blob, bool) {
	o, blob, err := f.Root.Load(file, maxFile)
	return o, blob, err == nil
}

// doc is a file that is read as a T.
type doc[T any] struct {
	jsonfile.Reading[T]
	path string
}

// ref is the version of the file that was read.
func (d *doc[T]) ref() protocol.Ref { return protocol.Ref{Path: d.path, Sum: string(d.Sum)} }

// load refreshes a reading and reports whether it read the file. It costs one stat if the file did not change, and
// nothing if the file was missing and its folder did not change.
func load[T any](f *statusFiles, d *doc[T], decode func(jsonfile.Object) T) (read bool) {
	if !f.Changed(path.Dir(d.path)) && (!d.There || d.Still(f.Root, d.path)) && !f.Patience.Has(d.path) {
		return false
	}
	return jsonfile.Load(f.Root, &f.Patience, &d.Reading, d.path, maxFile, decode)
}

// loadOf is load for a file of one task. A file whose content names another task than its file name is a Fault, and
// no policy may act on it. A file that names no task is identified by its name; the missing field is a finding.
func loadOf[T interface{ task() string }](f *statusFiles, d *doc[T], id string, decode func(jsonfile.Object) T) {
	if !load(f, d, decode) {
		return
	}
	if inside := d.Value.task(); inside != "" && inside != id {
		d.Good = false
		f.Patience.Refuse(d.path, "the task_id inside is \""+folder.Line(inside, 60)+"\", not the one in the file's name",
			"rename the file or correct its task_id; until then the file is left alone")
		return
	}
	f.Patience.Clear(d.path)
}

// oddName adds the Fault of a name that cannot be used to next. It keeps the time at which old had it first.
func (f *statusFiles) oddName(old, next map[string]protocol.Fault, where, problem, hint string) {
	fault := protocol.Fault{Path: where, Problem: problem, Hint: hint, Since: f.Now}
	key := where + " " + problem
	if was, ok := old[key]; ok {
		fault.Since = was.Since
	}
	next[key] = fault
}

// unusable reports whether the error means that the document is missing, torn or malformed.
func unusable(err error) bool {
	return folder.Missing(err) || errors.Is(err, jsonfile.ErrTorn) || errors.Is(err, jsonfile.ErrBad)
}

// plainID reports whether an id may become part of a file name.
func plainID(id string) bool { return jsonfile.PlainName(id) && !strings.HasPrefix(id, ".") }

// findingsAbout gives findings their subject and the file that shows them.
func findingsAbout(subject protocol.Subject, file string, issues []protocol.Finding) []protocol.Finding {
	list := make([]protocol.Finding, 0, len(issues))
	for _, i := range issues {
		i.Subject, i.Path = subject, file
		list = append(list, i)
	}
	return list
}

// texts lists what findings say.
func texts(issues []protocol.Finding) (list []string) {
	for _, i := range issues {
		list = append(list, i.Text)
	}
	return list
}

func text(o jsonfile.Object, key string) string {
	s, _ := o.String(key)
	return s
}

func set(v any, at ...string) jsonfile.Set { return jsonfile.Set{Path: at, Value: v} }

// sortedKeys returns a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// seconds converts a number from a document, which may have any value.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), 1e9) * float64(time.Second))
}

// The extensions of a task's files, which follow the task's id.
const (
	requestExt  = ".request.json"
	heldExt     = ".request.json.held"
	noticeExt   = ".deferred.json"
	resultExt   = ".result.json"
	progressExt = ".progress.json"
)

// kinds is the set of a task's existing files, one bit each.
type kinds uint8

const (
	hasRequest kinds = 1 << iota
	hasHeld
	hasNotice
	hasResult
	hasProgress
	hasArchivedRequest
	hasArchivedResult
)

var taskExts = [...]struct {
	ext  string
	kind kinds
}{{heldExt, hasHeld}, {requestExt, hasRequest}, {noticeExt, hasNotice}, {resultExt, hasResult}, {progressExt, hasProgress}}

const taskPrefix = "task_"

// parseTaskFile splits a file name of codex_tasks into the task's id and the kind of file. It does not check the id.
func parseTaskFile[S string | []byte](name S) (id S, kind kinds, ok bool) {
	if len(name) < len(taskPrefix) || string(name[:len(taskPrefix)]) != taskPrefix {
		return id, 0, false
	}
	rest := name[len(taskPrefix):]
	for i := range taskExts {
		k := &taskExts[i]
		if n := len(rest) - len(k.ext); n >= 0 && string(rest[n:]) == k.ext {
			return rest[:n], k.kind, true
		}
	}
	return id, 0, false
}

// eachTaskFile passes on the task files in a folder whose names can be used. A missing folder has none.
func (f *statusFiles) eachTaskFile(dir string, take func(id string, kind kinds)) error {
	_, err := f.Root.Each(dir, func(name []byte) {
		if id, kind, ok := parseTaskFile(string(name)); ok && plainID(id) {
			take(id, kind)
		}
	})
	return folder.IgnoreMissing(err)
}

// archivedKind returns the kind that a file has in the archive; 0 if the file does not matter there.
func archivedKind(kind kinds) kinds {
	switch kind {
	case hasRequest:
		return hasArchivedRequest
	case hasResult:
		return hasArchivedResult
	}
	return 0
}

func taskFile(id, ext string) string { return tasksDir + "/" + taskPrefix + id + ext }

func archivedFile(id, ext string) string { return archiveDir + "/" + taskPrefix + id + ext }

// capped limits a time to the present: clocks differ, and no policy may wait for a time in the future.
func capped(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// appeared is when a file got its present name or content. It uses the change time, because a rename keeps the time
// of the last write.
func appeared(st jsonfile.Stamp) time.Time {
	if st.CtimeNs == 0 {
		return st.ModTime().UTC()
	}
	return time.Unix(0, st.CtimeNs).UTC()
}

// over reports whether the task has a result and was not requested again, from the file names alone.
func (f *statusFiles) over(id string) bool {
	return f.Has(taskFile(id, resultExt)) || f.Has(archivedFile(id, resultExt)) && !f.Has(taskFile(id, requestExt)) && !f.Has(taskFile(id, heldExt))
}

// The errors that callers of a Client distinguish; the first three are those of every protocol.
var (
	ErrTaken   = protocol.ErrTaken
	ErrNoTask  = protocol.ErrNoTask
	ErrEnded   = protocol.ErrEnded
	ErrNoAgent = errors.New("no such agent")
)

func beatFile(dir string) string { return dir + "/heartbeat.json" }

func currentFile(dir string) string { return dir + "/current_task.json" }

func claimPath(id string) string { return claimsDir + "/" + id + ".json" }

func recordPath(agent string) string { return path.Join(agentsDir, agent+".json") }
