package mailbox

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// reviewer carries out what ends the work on a task: the team lead's verdict, or that its agent gives it up.
type reviewer struct{ editor }

// returnedCode is the code of a task that its agent gave back untouched.
const returnedCode = "RETURNED"

// mostAttempts is how often the developer attempts a task in all before a rejection is final, as with the daemon's retry rules.
const mostAttempts = 3

// approve completes a task: it moves to completed[] as the program does it, and then its messages are cleared. If a crash
// came between, a second approval clears them.
func (v reviewer) approve(r *record) (done protocol.Receipt, err error) {
	done = v.receipt(r, protocol.TaskDone, "")
	switch {
	case r.status == completed:
		if n, err := v.clearAll(r.id); n == 0 || err != nil {
			return done, cmp.Or(err, protocol.ErrEnded)
		}
		return done, nil
	case r.status != awaitingReview && !v.reported(r):
		return done, illegal(r, "only a task that awaits its review can be approved")
	}
	if report := v.sent[topic{r.id, completionReport}]; report.n > 0 && report.build.status == buildFailed {
		done.Note = "its report says that the build failed"
	}
	if err := v.sign(lead, "idle", nil); err != nil {
		return done, err
	}
	if err := v.change(r, func(o jsonfile.Object, i int) ([]jsonfile.Set, error) { return v.archive(o, i, r.id) }); err != nil {
		return done, err
	}
	if _, err := v.clearAll(r.id); err != nil {
		return done, err
	}
	return done, v.dropClaim(r.id)
}

// archive returns the edit that moves the i-th task of tasks[] to completed[].
func (v reviewer) archive(o jsonfile.Object, i int, id string) ([]jsonfile.Set, error) {
	items, _ := o.Array("tasks")
	now := jsonfile.FormatTime(v.Now)
	doc, err := jsonfile.Edit(items[i].Raw(), jsonfile.Set{Path: []string{"status"}, Value: completed}, jsonfile.Set{Path: []string{"updatedAt"}, Value: now})
	if err != nil {
		return nil, err
	}
	task, err := jsonfile.ParseValue(doc)
	if err != nil {
		return nil, err
	}
	// Of advance, current and lastUpdated remain: the task itself leaves tasks[].
	sets := append([]jsonfile.Set{{Path: []string{"completed", "-"}, Value: task}}, v.advance(o, i, id, completed)...)
	return append(sets, jsonfile.Remove("tasks", fmt.Sprint(i))), nil
}

// clearAll removes the messages about a completed task from all mailboxes (protocol 003, Clearing Messages), and returns
// how many mailboxes had some. A mailbox that is empty then is marked as read.
func (v reviewer) clearAll(id string) (n int, err error) {
	for _, m := range v.mail() {
		cleared, err := v.Edit(folder.Edit{File: m.file, Max: maxFile, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
			sets, items := messageRemovals(o, id), 0
			if all, _ := o.Array("messages"); len(sets) > 0 {
				items = len(all)
			}
			if items > 0 && items == len(sets) {
				sets = append(sets, jsonfile.Set{Path: []string{"lastRead"}, Value: jsonfile.FormatTime(v.Now)})
			}
			return sets, nil
		}})
		if err != nil {
			return n, err
		}
		if cleared {
			n++
		}
	}
	return n, nil
}

// reject rejects a task with its reason. The team lead's rejection resets the task to pending at once, unless it was
// the last of mostAttempts; the developer's leaves it to the team lead.
func (v reviewer) reject(r *record, role string, rep protocol.Report) (done protocol.Receipt, err error) {
	done = v.receipt(r, protocol.TaskWaiting, "")
	reason := strings.Join(slices.DeleteFunc(append([]string{rep.Summary}, rep.Issues...), func(s string) bool { return s == "" }), "; ")
	switch {
	case len(rep.Fields) > 0 || rep.Document != nil:
		return done, folder.Refuse("protocol 003 has no message for a rejection; give the reason only")
	case r.status == pending || role == developer && r.status != inProgress:
		return done, illegal(r, "only a task in progress or one that awaits its review can be rejected")
	case r.status == rejected:
		reason = cmp.Or(r.reason, reason)
	}
	if strings.TrimSpace(reason) == "" {
		return done, folder.Refuse("the reason of the rejection is empty")
	}
	if r.status != rejected {
		because := func(i int) jsonfile.Set { return inTask(i, "rejectionReason", folder.Short(reason, folder.MaxAnswer)) }
		if err := v.sign(role, "idle", nil); err != nil {
			return done, err
		}
		if err := v.advanceTo(r, rejected, because); err != nil {
			return done, err
		}
		v.read()
		if r, err = v.task(r.id); err != nil {
			return done, err
		}
	}
	if role == developer {
		return done, v.dropClaim(r.id)
	}
	return v.again(r, reason, done)
}

// again resets a rejected task to pending. The developer finds the reason in its entry in queue.json.
func (v reviewer) again(r *record, reason string, done protocol.Receipt) (protocol.Receipt, error) {
	if n := v.view().rejections(r); n >= mostAttempts {
		done.State = protocol.TaskFailed
		done.Note = fmt.Sprintf("it was rejected %d times and stays rejected: assign it again with other instructions", n)
		return done, nil
	}
	if err := v.retry(r, protocol.ActionRetry, rejectedCode, reason); err != nil {
		return done, err
	}
	done.State, done.Note = protocol.TaskPending, "the developer gets it again"
	return done, v.dropClaim(r.id)
}

// verdictLine is the line with which a review ends in the program.
var verdictLine = regexp.MustCompile(`(?mi)^\W*(approved?|reject(?:ed)?)\b[\s:*_-]*(.*)$`)

// judge carries out the verdict in the last words of a review: APPROVE, or REJECT with a reason.
func (v reviewer) judge(r *record, rep protocol.Report) (protocol.Receipt, error) {
	all := verdictLine.FindAllStringSubmatch(rep.Summary, -1)
	if len(all) == 0 {
		return protocol.Receipt{}, folder.Refuse("the review of task %s has no verdict: it must end with APPROVE, or with REJECT: and the reason", r.id)
	}
	last := all[len(all)-1]
	if strings.HasPrefix(strings.ToLower(last[1]), "approve") {
		return v.approve(r)
	}
	return v.reject(r, lead, protocol.Report{Summary: cmp.Or(last[2], "Review failed")})
}

// giveBack ends an agent's work on a task without a result: a task in progress becomes pending, a review waits again.
func (v reviewer) giveBack(r *record, role, why string) (done protocol.Receipt, err error) {
	if err := v.sign(role, "idle", nil); err != nil {
		return done, err
	}
	if done = v.receipt(r, protocol.TaskPending, ""); r.status == inProgress && !v.reported(r) {
		if err := v.retry(r, protocol.ActionDefer, returnedCode, cmp.Or(why, "given back by "+role)); err != nil {
			return done, err
		}
	}
	return done, v.dropClaim(r.id)
}
