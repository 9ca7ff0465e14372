package mailbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The codes of findings, in addition to "schema", "type" and "duplicate":
//
//	stuck           a task in progress that no process continues
//	running         the file says that the orchestrator runs, but its process is gone
//	over_limit      a working agent that has been silent for longer than its role allows
//	orphans         processes that the dead orchestrator left running
//	transition      a step that the state diagram does not contain
//	rejected        a rejected task
//	rejected_again  a second rejection of the same task
//	status          a status that the protocol does not define
//	misplaced       messages, or a queue, in the layout that the program does not read
//	review          a task that awaits its review while no orchestrator lives
//	unread          messages that have not been read for a while
//	build           a build that failed or was not run
//	instructions    a developer that could not find its instructions

func about(kind protocol.Kind, id string) protocol.Subject {
	return protocol.Subject{Kind: kind, ID: id}
}

func finding(s protocol.Subject, code, field string, severity protocol.Severity, format string, args ...any) protocol.Finding {
	return protocol.Finding{Subject: s, Code: code, Field: field, Severity: severity, Text: fmt.Sprintf(format, args...)}
}

// findings lists all defects: the orchestrator's first, then those of tasks, messages and files.
func (v *queueView) findings(tasks []protocol.Task) []protocol.Finding {
	list := append(v.orchestratorFindings(), v.overLimit()...)
	for i := range list {
		list[i].Path = v.status.file // this file states which processes and roles are at work
	}
	for i := range tasks {
		list = append(list, v.taskFindings(&tasks[i], v.shown[i])...)
	}
	return slices.Concat(list, v.messageFindings(), v.misplaced(), v.unread(), fileIssues(v.used.queueFile(), v.queue.issues),
		fileIssues(v.status.file, v.status.Value.issues))
}

func fileIssues(file string, issues folder.Findings) []protocol.Finding {
	return issues.About(about(protocol.KindProject, file))
}

func (v *queueView) orchestratorFindings() (list []protocol.Finding) {
	o, b, subject := v.orchestrator, &v.status.Value, about(protocol.KindAgent, orchestratorName)
	if o.verdict == gone && b.running && !o.signedOff(b) {
		list = append(list, finding(subject, "running", "orchestrator.running", protocol.Medium,
			"status.json says that the orchestrator runs, but %s", o.evidence))
	}
	if n := len(o.children); n > 0 {
		var names []string
		for _, k := range o.children[:min(n, 5)] {
			names = append(names, fmt.Sprintf("%d (%s)", k.PID, line(k.Name, 20)))
		}
		if n > 5 {
			names = append(names, fmt.Sprintf("and %d more", n-5))
		}
		list = append(list, finding(subject, "orphans", "", protocol.High,
			"the orchestrator (pid %d) is gone, and left running in this project: %s", o.pid, strings.Join(names, ", ")))
	}
	return list
}

// overLimit lists the roles that work for a living orchestrator and have been silent for longer than allowed. Silence does
// not prove a role dead. Time before the orchestrator was running is not counted.
func (v *queueView) overLimit() (list []protocol.Finding) {
	for i := range v.status.Value.roles {
		r := &v.status.Value.roles[i]
		limit := r.limit(v.opts)
		since := folder.Later(v.silences[r.name].since, v.Past(v.orchestrator.by))
		if v.atWork(r) && limit > 0 && !v.Wait(since.Add(limit)) {
			list = append(list, finding(about(protocol.KindAgent, r.name), "over_limit", "lastActivity", protocol.High,
				"%s has been silent at its work since %s; its limit is %s", r.name, jsonfile.FormatTime(since), folder.Minutes(limit)))
		}
	}
	return list
}

func (v *queueView) taskFindings(t *protocol.Task, r *record) (list []protocol.Finding) {
	add := func(code, field string, severity protocol.Severity, format string, args ...any) *protocol.Finding {
		list = append(list, finding(about(protocol.KindTask, r.id), code, field, severity, format, args...))
		return &list[len(list)-1]
	}
	if t.Lost != "" {
		// Only a finding: if steward may not repair it, the lost task itself becomes an incident.
		add("stuck", "status", protocol.Medium, "%s is %s, but %s", r.id, r.status, t.Lost)
	}
	if k := v.history.tracks[r.id]; k != nil && k.illegal != "" {
		add("transition", "status", protocol.Medium, "%s went %s, a step that the protocol does not know", r.id, k.illegal)
	}
	// The finding of a first rejection ends when the task is taken up again. From the second rejection on, the finding stays
	// until the task is completed, and a user decides (protocol 003, Review Failures).
	switch n := v.rejections(r); {
	case n > 1 && r.status != completed:
		f := add("rejected_again", "status", protocol.High, "%s was rejected %d times%s", r.id, n, because(", the last time because: ", r.reason))
		f.Call, f.Settle = true, "Taken care of"
	case r.status == rejected:
		add("rejected", "status", protocol.Medium, "%s was rejected%s", r.id, because(": ", r.reason)).Call = true
	}
	if r.status == awaitingReview && v.opts.Review > 0 && !v.orchestrator.lives() && !v.Wait(v.since(r).Add(v.opts.Review)) {
		add("review", "status", protocol.Low, "%s waits for its review, and no orchestrator lives", r.id)
	}
	if !states[r.status] {
		add("status", "status", protocol.Medium, "%s has the status %q, which the protocol does not know", r.id, r.status)
	}
	if r.status == rejected && r.reason == "" {
		add(folder.CodeSchema, "rejectionReason", protocol.Medium, "%s was rejected, and rejectionReason is missing", r.id)
	}
	return list
}

func because(words, reason string) string {
	if reason == "" {
		return ""
	}
	return words + reason
}

// messageFindings lists the defects of messages, and the build findings of the newest report about each task.
func (v *queueView) messageFindings() (list []protocol.Finding) {
	newest, approved := map[string]*message{}, map[string]bool{}
	for _, r := range v.shown {
		approved[r.id] = r.status == completed
	}
	for _, l := range allMessages(v.mail) {
		if old := newest[l.task]; l.build != nil && (old == nil || !l.at.Before(old.at)) {
			newest[l.task] = l
		}
	}
	for _, m := range v.mail {
		list = append(list, fileIssues(m.file, m.Value.issues)...)
		n := 0
		for i := range m.Value.messages {
			l := &m.Value.messages[i]
			subject := about(protocol.KindProject, m.file)
			if l.task != "" {
				subject = about(protocol.KindTask, l.task)
			}
			for _, f := range l.issues.About(subject) {
				if n++; n <= folder.MaxFindings {
					f.Text, f.Path = m.name+": "+f.Text, m.file
					list = append(list, f)
				}
			}
			if l.build != nil && newest[l.task] == l {
				if f, ok := l.build.finding(approved[l.task]); ok {
					f.Subject, f.Path = subject, m.file
					list = append(list, f)
				}
			}
		}
	}
	return list
}

// misplaced lists the messages and tasks in the layout that is not in use, where no program reads them.
func (v *queueView) misplaced() (list []protocol.Finding) {
	severity := protocol.High
	if !v.used.queue.There {
		severity = protocol.Medium
	}
	for _, m := range v.mail {
		if n := len(m.Value.messages); !m.used && n > 0 {
			list = append(list, finding(about(protocol.KindProject, m.file), "misplaced", "messages", severity,
				"%s in %s, which no program reads: the messages in use are in %s", lie(n, "message"), m.file, v.used.mailDir()))
		}
	}
	if n, file := len(v.other.queue.Value.tasks), v.other.queueFile(); n > 0 {
		list = append(list, finding(about(protocol.KindProject, file), "misplaced", "tasks", protocol.Medium,
			"%s in %s, which no program reads: the queue in use is %s", lie(n, "open task"), file, v.used.queueFile()))
	}
	return list
}

// unread lists the mailboxes in use with messages that stay unread for longer than their reader may be silent (protocol
// 003, Reading Messages: "Update lastRead timestamp"). It uses the file's own age, because agents invent timestamps. The
// program writes null for lastRead and never updates it, so null says nothing while its orchestrator lives.
func (v *queueView) unread() (list []protocol.Finding) {
	open := map[string]bool{"": true}
	for _, r := range v.shown {
		open[r.id] = r.status != completed && r.status != rejected
	}
	for _, m := range v.mail {
		if !m.used || m.Value.lastRead.At.IsZero() && v.orchestrator.lives() {
			continue
		}
		n := 0
		for i := range m.Value.messages {
			if l := &m.Value.messages[i]; !m.Value.readBy(l) && open[l.task] {
				n++
			}
		}
		limit := v.opts.Lead
		if m.name == "to-developer.json" {
			limit = v.opts.Developer
		}
		if n > 0 && limit > 0 && !v.Wait(v.Past(m.Stamp.ModTime()).Add(limit)) {
			list = append(list, finding(about(protocol.KindProject, m.file), "unread", "lastRead", protocol.Medium,
				"%s in %s for over %s, and lastRead does not show that it was read", lie(n, "message"), m.file, folder.Minutes(limit)))
		}
	}
	return list
}

// lie formats a count with its noun and verb, such as "2 messages lie".
func lie(n int, what string) string {
	if n == 1 {
		return "1 " + what + " lies"
	}
	return fmt.Sprintf("%d %ss lie", n, what)
}
