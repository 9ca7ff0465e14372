//go:build linux

package ralph

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// wiggum plays the program's resume command: under the kanban's lock it marks a failed task as in progress, and it appends
// to a list of its runs. It writes in place, because the suite kills processes that rename.
const wiggum = `exec 9>>.ralph/kanban.md.lock; flock 9
echo "$1" >> runs
text=$(sed "s/^- \[\*\] \*\*\[$1\]/- [=] **[$1]/" .ralph/kanban.md)
printf '%s\n' "$text" > .ralph/kanban.md
`

const wiggumFile = "wiggum.sh"

// openFor opens a project. If the project contains the wiggum script, that script is its resume command.
func openFor(t testing.TB, dir string) *Project {
	t.Helper()
	opts := Options{Flock: flock, Guard: func(context.Context, *jsonfile.Root) (func(), error) { return func() {}, nil }}
	if _, err := os.Stat(filepath.Join(dir, wiggumFile)); err == nil {
		opts.Resume = []string{"sh", wiggumFile, "{task}"}
	}
	p := New(dir, opts)
	p.write.resumes.moment = time.Minute // the machine may be slow
	t.Cleanup(p.Close)
	return p
}

// answered returns a user's answer about TASK-001.
func answered(option, label string) func(*protocol.Snapshot, time.Time) protocol.Change {
	return func(s *protocol.Snapshot, now time.Time) protocol.Change {
		c := change(protocol.VerbAnswer)(s, now)
		c.Answer = &protocol.Answer{Key: "216a33f4", Option: option, Label: label, Why: "the key is\nback", By: "Jesse", At: now.Add(-time.Minute)}
		return c
	}
}

func answerCases() []protocoltest.Case {
	notes, lock := Base+"/"+answersDir+"/*.json", kanbanPath+".lock"
	want := func(marker string) string { return file(kanbanPath, fmt.Sprintf(kanbanText, marker)) + "\n" }
	failedTask := around("*") + file(lock, "")
	meddle := func(dir string) error {
		return protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "Ship   it", "Ship it tomorrow")
	}
	return []protocoltest.Case{{
		Name: "answer again", Verb: protocol.VerbAnswer, Files: failedTask, Change: answered(answerRetry, "Run it again"),
		Shows: shows("a visible task", func(s *protocol.Snapshot) bool { return find(s, "TASK-001").Visible }),
		Want:  want(" "), Free: []string{notes}, Meddle: meddle,
	}, {
		Name: "answer complete", Verb: protocol.VerbAnswer, Files: want("*") + file(home+"/prd.md", "theirs\n"), Change: answered(answerComplete, "It is done"),
		Shows: shows("a completed task", func(s *protocol.Snapshot) bool {
			o := find(s, "TASK-001").Outcome
			return o != nil && o.Status == "completed"
		}),
		Want: want("x"), Free: []string{notes, lock}, Meddle: meddle,
	}, {
		Name: "answer in words", Verb: protocol.VerbAnswer, Files: failedTask, Change: answered("", "Use the staging copy"),
		Unseen: "words are kept for people", Want: want("*"), Free: []string{notes}, Meddle: meddle,
	}, {
		Name: "answer resume", Verb: protocol.VerbAnswer, Files: failedTask + file(wiggumFile, wiggum), Change: answered(answerRetry, "Run it again"),
		Shows: shows("a task in hand", func(s *protocol.Snapshot) bool { return find(s, "TASK-001").Named == "kanban" }),
		Want:  want("=") + file("runs", "TASK-001\n"), Free: []string{notes, Base + "/" + resumeLog("TASK-001")}, Meddle: meddle,
	}}
}
