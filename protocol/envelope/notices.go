package envelope

import (
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// notice is a file that explains why an assignment is held, and how to release it.
type notice struct {
	TaskID    string    `json:"task_id"`
	Reason    string    `json:"reason"` // protocol.Hold*
	Why       string    `json:"why"`
	HeldAt    time.Time `json:"held_at,omitzero"`
	ReleaseBy time.Time `json:"release_by,omitzero"`
	Release   string    `json:"release"` // the command
	Files     []string  `json:"files"`   // paths of the assignments once released, relative to the project
}

type noticeReading = jsonfile.Reading[protocol.Hold]

// notices reads and writes the notices.
type notices struct {
	*folder.Folder
	byTask map[string]*noticeReading
}

func newNotices(f *folder.Folder) *notices { return &notices{f, map[string]*noticeReading{}} }

func noticeFile(id string) string { return holdsDir + "/" + id + messageExt }

func decodeNotice(o jsonfile.Object) protocol.Hold {
	var h protocol.Hold
	h.Reason, _ = o.String("reason")
	h.Reason = clean(h.Reason, maxText)
	h.Since, _ = o.Time("held_at")
	h.ReleaseBy, _ = o.Time("release_by")
	return h
}

// read reads every notice.
func (n *notices) read() {
	names, _, err := n.Root.List(holdsDir)
	if err != nil && !folder.Missing(err) {
		n.Patience.Unreadable(holdsDir, err)
		return
	}
	n.Patience.Clear(holdsDir)
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, messageExt); ok && n.byTask[id] == nil && plain(id) {
			n.byTask[id] = &noticeReading{}
		}
	}
	for id, r := range n.byTask {
		if jsonfile.Load(n.Root, &n.Patience, r, noticeFile(id), maxFile, decodeNotice); !r.There {
			delete(n.byTask, id)
		}
	}
}

// write writes the notice of a hold.
func (n *notices) write(t *task, h protocol.Hold, why string) error {
	if err := n.Root.Mkdir(holdsDir, 0o755); err != nil {
		return err
	}
	return folder.Files{Folder: n.Folder}.Put(noticeFile(t.id), notice{TaskID: t.id, Reason: h.Reason, Why: why, HeldAt: h.Since.UTC(),
		ReleaseBy: h.ReleaseBy.UTC(), Release: "steward release " + t.id, Files: t.files()})
}

// extend extends the lease in the notice, and says why the task must wait now.
func (n *notices) extend(t *task, why string, releaseBy time.Time) error {
	h := protocol.Hold{Reason: protocol.HoldBlocked, Since: n.Now}
	if r := n.byTask[t.id]; r != nil && r.Good {
		h = r.Value
	}
	h.ReleaseBy = releaseBy
	return n.write(t, h, why)
}

func (n *notices) remove(id string) error {
	return folder.IgnoreMissing(n.Root.Remove(noticeFile(id)))
}
