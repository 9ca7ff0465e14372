package agentstatus

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// The extensions of a task's files, which follow the task's id.
const (
	requestExt  = ".request.json"
	heldExt     = ".request.json.held"
	noticeExt   = ".deferred.json"
	resultExt   = ".result.json"
	progressExt = ".progress.json"
)

// names is the set of a task's existing files, one bit each.
type names uint8

const (
	hasRequest names = 1 << iota
	hasHeld
	hasNotice
	hasResult
	hasProgress
	hasArchivedRequest
	hasArchivedResult
)

var taskExts = [...]struct {
	ext  string
	kind names
}{{heldExt, hasHeld}, {requestExt, hasRequest}, {noticeExt, hasNotice}, {resultExt, hasResult}, {progressExt, hasProgress}}

// parseTaskFile splits a file name of codex_tasks into the task's id and the kind of file. It does not check the id.
func parseTaskFile[S string | []byte](name S) (id S, kind names, ok bool) {
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

const taskPrefix = "task_"

// archivedKind returns the kind that a file has in the archive; 0 if the file does not matter there.
func archivedKind(kind names) names {
	switch kind {
	case hasRequest:
		return hasArchivedRequest
	case hasResult:
		return hasArchivedResult
	}
	return 0
}

// taskFile returns the path of one of a task's files.
func taskFile(id, ext string) string { return tasksDir + "/task_" + id + ext }

func archivedFile(id, ext string) string { return archiveDir + "/task_" + id + ext }

// plainID reports whether an id may become part of a file name.
func plainID(id string) bool { return jsonfile.PlainName(id) && !strings.HasPrefix(id, ".") }

// fold normalizes a name: spellings that differ only in case and separators become equal.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', ' ':
			return '-'
		}
		return r
	}, strings.ToLower(strings.TrimSpace(name)))
}

// aliases maps the short names of the two agents of protocol 000, which its folder names use, to their full names.
var aliases = map[string]string{"codex": codex, "livhana": livhana, "liv-hana": livhana}

// directory is the set of known agent names. Files spell them slightly differently. Two agents are never taken for
// one, not even if one name begins with the other (worker, worker-1).
type directory map[string]bool

// canonical returns the agent name that a spelling means: the exact name, the only name that differs just in case and
// separators, or the agent of protocol 000 with that short name. Otherwise it returns the spelling itself.
func (d directory) canonical(spelling string) string {
	if d[spelling] || spelling == "" {
		return spelling
	}
	want, alike := fold(spelling), ""
	for name := range d {
		if fold(name) != want {
			continue
		}
		if alike != "" {
			return spelling
		}
		alike = name
	}
	if alike != "" {
		return alike
	}
	if long := aliases[want]; d[long] {
		return long
	}
	return spelling
}

// sortedKeys returns a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
