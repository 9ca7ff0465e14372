package agentstatus

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// maxModified is how many of a request's files_to_modify are compared with other tasks.
const maxModified = 1000

// overlaps reports open tasks that name the same file in files_to_modify. It skips two tasks if one comes after the
// other: they never run at the same time.
func (p *Project) overlaps(tasks []protocol.Task) []protocol.Finding {
	users := map[string][]string{} // by file
	var list []protocol.Finding
	for i := range tasks {
		t := &tasks[i]
		if t.Outcome != nil || t.Cancelled || t.Buried {
			continue
		}
		r, ref := p.tasks[t.ID].asked()
		var others []string
		shared := map[string][]string{}
		for _, file := range r.modify[:min(len(r.modify), maxModified)] {
			file = filepath.Clean(file)
			for _, other := range users[file] {
				before, _ := p.tasks[other].asked()
				if other == t.ID || slices.Contains(r.after, other) || slices.Contains(before.after, t.ID) {
					continue
				}
				if shared[other] == nil {
					others = append(others, other)
				}
				shared[other] = append(shared[other], file)
				break // with many tasks on one file, a finding for each pair would be too many
			}
			users[file] = append(users[file], t.ID)
		}
		for _, other := range others {
			list = append(list, protocol.Finding{Subject: protocol.Subject{Kind: protocol.KindTask, ID: t.ID}, Code: "overlap", Field: "payload.files_to_modify",
				Severity: protocol.Medium, Path: ref.Path,
				Text: fmt.Sprintf("tasks %s and %s are both open and both modify %s", t.ID, other, folder.Line(strings.Join(shared[other], ", "), 200))})
		}
	}
	return list
}
