package agentstatus

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// The files of a task, by what stands behind its id.
const (
	requestExt  = ".request.json"
	heldExt     = ".request.json.held"
	noticeExt   = ".deferred.json"
	resultExt   = ".result.json"
	progressExt = ".progress.json"
)

// names is the set of a task's files that exist, one bit each.
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

// parseTaskFile splits a file name of codex_tasks into the task's id and what the file is. The id is not checked.
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

// archivedKind is what a file of that kind is when it lies in the archive; 0 when it does not matter there.
func archivedKind(kind names) names {
	switch kind {
	case hasRequest:
		return hasArchivedRequest
	case hasResult:
		return hasArchivedResult
	}
	return 0
}

// taskFile is the path of one of a task's files.
func taskFile(id, ext string) string { return tasksDir + "/task_" + id + ext }

func archivedFile(id, ext string) string { return archiveDir + "/task_" + id + ext }

// plainID reports whether an id may become part of a file name.
func plainID(id string) bool { return jsonfile.PlainName(id) && !strings.HasPrefix(id, ".") }

// fold brings spellings of a name together that differ in case and separators only.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', ' ':
			return '-'
		}
		return r
	}, strings.ToLower(strings.TrimSpace(name)))
}

// aliases are the short names of the document's own two agents: its folders bear them.
var aliases = map[string]string{"codex": codex, "livhana": livhana, "liv-hana": livhana}

// directory knows the agents' names. Files spell them slightly differently; two agents are never taken for one,
// not even when one name begins with the other (worker, worker-1).
type directory map[string]bool

// canonical finds the name that a spelling means: itself, the only one that is the same but for case and separators,
// or the document's own agent of that short name. Otherwise the spelling stands for itself.
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

// sortedKeys lists a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
