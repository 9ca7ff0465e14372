package mailbox

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/livhana/steward/protocol"
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

// findings lists all defects: the orchestrator's first, then those of tasks, messages and files.
func (p *Project) findings(tasks []protocol.Task, shown []*record, mail []located, b *board, boardFile string) []protocol.Finding {
	list := append(p.chiefFindings(b), p.overLimit(b)...)
	for i := range list {
		list[i].Path = boardFile // this file states which processes and roles are at work
	}
	for i := range tasks {
		list = append(list, p.taskFindings(&tasks[i], shown[i])...)
	}
	list = append(list, p.letterFindings(mail, shown)...)
	list = append(list, p.misplaced(mail)...)
	open := map[string]bool{}
	for _, r := range shown {
		open[r.id] = r.status != completed && r.status != rejected
	}
	list = append(list, p.unread(mail, open)...)
	list = append(list, fileFindings(p.living().queueFile(), p.living().queue.Value.issues)...)
	return append(list, fileFindings(boardFile, b.issues)...)
}

func fileFindings(file string, l issues) (list []protocol.Finding) {
	for _, i := range l {
		list = append(list, protocol.Finding{Subject: about(protocol.KindProject, file), Code: i.code, Field: i.field, Severity: i.severity, Text: i.text})
	}
	return list
}

func (p *Project) chiefFindings(b *board) (list []protocol.Finding) {
	c, subject := &p.chief, about(protocol.KindAgent, orchestrator)
	if c.verdict == gone && b.running && !p.signedOff(c, b) {
		list = append(list, protocol.Finding{Subject: subject, Code: "running", Field: "orchestrator.running", Severity: protocol.Medium,
			Text: "status.json says that the orchestrator runs, but " + c.evidence})
	}
	if n := len(c.children); n > 0 {
		var who []string
		for _, k := range c.children[:min(n, 5)] {
			who = append(who, fmt.Sprintf("%d (%s)", k.PID, line(k.Name, 20)))
		}
		if n > 5 {
			who = append(who, "and "+strconv.Itoa(n-5)+" more")
		}
		list = append(list, protocol.Finding{Subject: subject, Code: "orphans", Severity: protocol.High,
			Text: fmt.Sprintf("the orchestrator (pid %d) is gone, and left running in this project: %s", c.pid, strings.Join(who, ", "))})
	}
	return list
}

func (p *Project) taskFindings(t *protocol.Task, r *record) (list []protocol.Finding) {
	add := func(code, field string, severity protocol.Severity, text string) {
		list = append(list, protocol.Finding{Subject: about(protocol.KindTask, r.id), Code: code, Field: field, Severity: severity, Text: text})
	}
	if t.Lost != "" {
		// Only a finding: if steward may not repair it, the lost task itself becomes an incident.
		add("stuck", "status", protocol.Medium, fmt.Sprintf("%s is %s, but %s", r.id, r.status, t.Lost))
	}
	if k := p.history.tracks[r.id]; k != nil && k.illegal != "" {
		add("transition", "status", protocol.Medium, fmt.Sprintf("%s went %s, a step that the protocol does not know", r.id, k.illegal))
	}
	list = append(list, p.rejectionFindings(r)...)
	if p.unreviewed(r) {
		add("review", "status", protocol.Low, fmt.Sprintf("%s waits for its review, and no orchestrator lives", r.id))
	}
	if !states[r.status] {
		add("status", "status", protocol.Medium, fmt.Sprintf("%s has the status %q, which the protocol does not know", r.id, r.status))
	}
	if r.status == rejected && r.reason == "" {
		add("schema", "rejectionReason", protocol.Medium, r.id+" was rejected, and rejectionReason is missing")
	}
	return list
}

// unreviewed reports whether a task has awaited its review for longer than a review takes, and no orchestrator lives.
func (p *Project) unreviewed(r *record) bool {
	if r.status != awaitingReview || p.opts.Review <= 0 || p.chief.lives() {
		return false
	}
	due := p.sinceOf(r).Add(p.opts.Review)
	if p.Now.Before(due) {
		p.Patience.RetryAt(due)
	}
	return !p.Now.Before(due)
}

// rejectionFindings reports a rejection (protocol 003, Review Failures). The finding of a first rejection ends when the
// task is taken up again. From the second rejection on, the finding stays until the task is completed, and a user decides.
func (p *Project) rejectionFindings(r *record) []protocol.Finding {
	f := protocol.Finding{Subject: about(protocol.KindTask, r.id), Field: "status", Call: true}
	switch n := p.rejections(r); {
	case n > 1 && r.status != completed:
		f.Code, f.Severity, f.Settle = "rejected_again", protocol.High, "Taken care of"
		f.Text = fmt.Sprintf("%s was rejected %d times", r.id, n)
		if r.reason != "" {
			f.Text += ", the last time because: " + r.reason
		}
	case r.status == rejected:
		f.Code, f.Severity = "rejected", protocol.Medium
		f.Text = r.id + " was rejected"
		if r.reason != "" {
			f.Text += ": " + r.reason
		}
	default:
		return nil
	}
	return []protocol.Finding{f}
}

// letterFindings lists the defects of messages, and the build findings of the newest report about each task.
func (p *Project) letterFindings(mail []located, shown []*record) (list []protocol.Finding) {
	newest, status := map[string]*message{}, map[string]string{}
	for _, r := range shown {
		status[r.id] = r.status
	}
	for _, m := range mail {
		for i := range m.box.Value.letters {
			l := &m.box.Value.letters[i]
			if old := newest[l.task]; l.build != nil && (old == nil || !l.at.Before(old.at)) {
				newest[l.task] = l
			}
		}
	}
	for _, m := range mail {
		list = append(list, fileFindings(m.file, m.box.Value.issues)...)
		n := 0
		for i := range m.box.Value.letters {
			l := &m.box.Value.letters[i]
			subject := about(protocol.KindProject, m.file)
			if l.task != "" {
				subject = about(protocol.KindTask, l.task)
			}
			for _, i := range l.issues {
				if n++; n <= maxIssues {
					list = append(list, protocol.Finding{Subject: subject, Code: i.code, Field: i.field, Severity: i.severity, Text: m.name + ": " + i.text, Path: m.file})
				}
			}
			if l.build != nil && newest[l.task] == l {
				for _, f := range l.buildFindings(subject, status[l.task] == completed) {
					f.Path = m.file
					list = append(list, f)
				}
			}
		}
	}
	return list
}

// buildFindings judges a report's build (protocol 003, Build Failures and Missing Instructions). A failed build whose task
// was approved anyway is no longer of high severity.
func (l *message) buildFindings(subject protocol.Subject, approved bool) (list []protocol.Finding) {
	b := l.build
	add := func(code string, severity protocol.Severity, text string) {
		if approved && severity == protocol.High {
			severity = protocol.Medium
		}
		list = append(list, protocol.Finding{Subject: subject, Code: code, Field: "buildResult.status", Severity: severity, Text: text})
	}
	switch {
	case b.missesInstructions():
		add("instructions", protocol.Medium, "the developer could not find its instructions: "+b.summary)
	case b.status == buildNotVerified:
		add("build", protocol.Medium, "the build was not run: "+b.said(b.summary))
	case b.status == buildFailed:
		add("build", protocol.High, fmt.Sprintf("the build failed with %d errors: %s", b.errors, b.said(b.output)))
	case b.status == buildSuccess && b.errors > 0:
		add("build", protocol.Medium, fmt.Sprintf("the build is called a success with %d errors: %s", b.errors, b.said(b.output)))
	}
	return list
}

// said returns the report's text, or else the command that the report names.
func (b *build) said(words string) string {
	switch {
	case words != "":
		return words
	case b.command != "":
		return b.command
	}
	return "it does not say more"
}

// misplaced lists the messages and tasks in the layout that is not in use, where no program reads them.
func (p *Project) misplaced(mail []located) (list []protocol.Finding) {
	alive := p.living()
	severity := protocol.High
	if !alive.queue.There {
		severity = protocol.Medium
	}
	for _, m := range mail {
		if n := len(m.box.Value.letters); !m.living && n > 0 {
			list = append(list, protocol.Finding{Subject: about(protocol.KindProject, m.file), Code: "misplaced", Field: "messages", Severity: severity,
				Text: fmt.Sprintf("%s in %s, where nobody reads: the messages in use are in %s", lie(n, "message"), m.file, alive.mailDir())})
		}
	}
	if o := p.other(alive); len(o.queue.Value.tasks) > 0 {
		list = append(list, protocol.Finding{Subject: about(protocol.KindProject, o.queueFile()), Code: "misplaced", Field: "tasks", Severity: protocol.Medium,
			Text: fmt.Sprintf("%s in %s, where nobody reads: the queue in use is %s", lie(len(o.queue.Value.tasks), "open task"), o.queueFile(), alive.queueFile())})
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
