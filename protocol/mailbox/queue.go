package mailbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The states of a task (protocol 003, Task State Transitions).
const (
	pending        = "pending"
	inProgress     = "in_progress"
	awaitingReview = "awaiting_review"
	completed      = "completed"
	rejected       = "rejected"
)

// record is one task of queue.json.
type record struct {
	id, status, kind, title, reason string
	priority                        protocol.Priority
	createdAt, updatedAt            jsonfile.Stated // as stated in the file
	created, updated                time.Time       // what the stated times mean
	rejections                      int             // as counted in the file
	archived                        bool            // it is listed in completed[]
	sum                             jsonfile.Sum
}

// queue is queue.json: {version, tasks[], completed[], current, lastUpdated}. Each id occurs once.
type queue struct {
	tasks   []record       // tasks that are not completed, in the file's order
	done    []record       // completed[], and the completed tasks of tasks[]; newest first
	byID    map[string]int // index in done
	strange []string       // ids that are not plain names
	current string         // the task that the program works on
	issues  folder.Findings
}

func decodeQueue(o jsonfile.Object) queue {
	q := queue{byID: map[string]int{}}
	q.current, _ = o.String("current")
	seen := map[string]bool{}
	for _, r := range q.list(o, "tasks", seen) {
		if r.status == completed {
			q.done = append(q.done, r)
		} else {
			q.tasks = append(q.tasks, r)
		}
	}
	for _, r := range q.list(o, "completed", seen) {
		r.status, r.archived = completed, true
		q.done = append(q.done, r)
	}
	q.order()
	return q
}

// order sorts done, newest first.
func (q *queue) order() {
	slices.SortStableFunc(q.done, func(a, b record) int { return b.ended().Compare(a.ended()) })
	for i, r := range q.done {
		q.byID[r.id] = i
	}
}

// list reads one of the two arrays. If a task is listed twice, in both arrays or in one, its first entry counts: the
// program works on tasks[].
func (q *queue) list(o jsonfile.Object, key string, seen map[string]bool) []record {
	items, ok := o.Array(key)
	if ok == jsonfile.Wrong || key == "tasks" && ok == jsonfile.Missing {
		q.issues.Schema(protocol.Medium, key, "is not a list")
	}
	list := make([]record, 0, len(items))
	for _, v := range items {
		entry, ok := v.Object()
		if !ok.OK() {
			q.issues.Add(folder.CodeSchema, v.Path(), protocol.Medium, "the task is not an object")
			continue
		}
		r := decodeRecord(entry)
		switch {
		case r.id == "":
			q.issues.Add(folder.CodeSchema, v.Path()+".id", protocol.Medium, "the task has no id")
			continue
		case !plainID(r.id):
			if len(q.strange) < folder.MaxFindings {
				q.strange = append(q.strange, line(r.id, 60))
			}
			continue
		case seen[r.id]:
			q.issues.Add("duplicate", v.Path()+".id", protocol.Medium, fmt.Sprintf("task %s is listed twice", r.id))
			continue
		}
		seen[r.id] = true
		list = append(list, r)
	}
	return list
}

func decodeRecord(o jsonfile.Object) record {
	r := record{sum: jsonfile.SumOf(o.Value().Raw()), priority: priorityOf(o.Get("priority"))}
	r.id, _ = o.String("id")
	status, _ := o.String("status")
	r.status = line(status, 40)
	r.kind = line(folder.FirstText(o, "type"), 60)
	r.title = line(folder.FirstText(o, "title", "description"), 200)
	r.reason = line(folder.FirstText(o, "rejectionReason"), 500)
	r.createdAt, r.updatedAt = o.FirstStated("createdAt"), o.FirstStated("updatedAt", "completedAt")
	r.rejections = boundedInt(o, "rejectionCount", 1000)
	return r
}

// ended returns when a task of completed[] ended, as far as the file says.
func (r *record) ended() time.Time {
	if r.updated.IsZero() {
		return r.created
	}
	return r.updated
}

// maxEnded limits how many ended tasks a snapshot lists.
const maxEnded = 200

// shown lists the tasks of the snapshot: all that are not completed, and of the completed those that ended after since or
// that are in keep. A task without an end time counts as old.
func (q *queue) shown(since time.Time, keep map[string]bool) (list []*record) {
	for i := range q.tasks {
		list = append(list, &q.tasks[i])
	}
	n := 0
	for ; n < min(len(q.done), maxEnded) && !q.done[n].ended().Before(since); n++ {
		list = append(list, &q.done[n])
	}
	var extra []int
	for id := range keep {
		if i, ok := q.byID[id]; ok && i >= n {
			extra = append(extra, i)
		}
	}
	slices.Sort(extra)
	for _, i := range extra[:min(len(extra), maxEnded)] {
		list = append(list, &q.done[i])
	}
	return list
}

// priorityOf reads a priority: one of the protocol's words, or a number where 0 is critical and 1 is high.
func priorityOf(v jsonfile.Value) protocol.Priority {
	word, isText := v.Text()
	n, isNumber := v.Int()
	if i, err := strconv.Atoi(strings.TrimPrefix(strings.ToLower(word), "p")); isText.OK() && err == nil {
		n, isNumber = int64(i), jsonfile.Present
	}
	if !isNumber.OK() {
		p, _ := protocol.ParsePriority(strings.TrimSpace(word))
		return p
	}
	return protocol.PriorityCritical - protocol.Priority(min(max(n, 0), int64(protocol.PriorityCritical)))
}
