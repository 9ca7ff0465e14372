package agentstatus

import (
	"errors"
	"path"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// files is the protocol's folder as all parts of the adapter read and write it.
type files struct {
	folder.Files
	folder.Listings
	waits []jsonfile.Option // Volatile while a batch is applied: the batch waits for the disk once, at its end
}

// probe notes which of the folders have changed since they were last listed.
func (f *files) probe(dirs ...string) { f.Probe(f.Folder, dirs...) }

// probeAll probes all folders but those of the agents.
func (f *files) probeAll() {
	f.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir, agentsDir, sharedDir)
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
func load[T any](f *files, d *doc[T], decode func(jsonfile.Object) T) (read bool) {
	if !f.Changed(path.Dir(d.path)) && (!d.There || d.Still(f.Root, d.path)) && !f.Patience.Has(d.path) {
		return false
	}
	return jsonfile.Load(f.Root, &f.Patience, &d.Reading, d.path, maxFile, decode)
}

// loadOf is load for a file of one task. A file whose content names another task than its file name is a Fault, and
// no policy may act on it. A file that names no task is identified by its name; the missing field is a finding.
func loadOf[T interface{ task() string }](f *files, d *doc[T], id string, decode func(jsonfile.Object) T) {
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

// object reads a document that is needed only once. A document that cannot be read has no fields.
func (f *files) object(file string) (jsonfile.Object, jsonfile.Blob, bool) {
	o, blob, err := f.Root.Load(file, maxFile)
	return o, blob, err == nil
}

// oddName adds the Fault of a name that cannot be used to next. It keeps the time at which old had it first.
func (f *files) oddName(old, next map[string]protocol.Fault, where, problem, hint string) {
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
