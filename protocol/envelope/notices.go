package envelope

import (
	"path"
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

// readAll reads every notice.
func (n *notices) readAll() {
	names, _, err := n.Root.List(holdsDir)
	if err != nil && !folder.Missing(err) {
		n.Patience.Unreadable(holdsDir, err)
		return
	}
	n.Patience.Clear(holdsDir)
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, messageExt); ok && n.byTask[id] == nil {
			n.read(id)
		}
	}
	for id := range n.byTask {
		n.read(id)
	}
}

// readHinted reads the notices that hints name, and those that were in trouble or had not settled.
func (n *notices) readHinted(hints []string) {
	for _, hint := range hints {
		if dir, name := path.Split(hint); path.Clean(dir) == holdsDir {
			n.read(strings.TrimSuffix(name, messageExt))
		}
	}
	for id, r := range n.byTask {
		if !r.AtRest() || n.Patience.Has(noticeFile(id)) {
			n.read(id)
		}
	}
}

func (n *notices) read(id string) {
	if !plain(id) {
		return
	}
	r := n.byTask[id]
	if r == nil {
		r = &noticeReading{}
		n.byTask[id] = r
	}
	if jsonfile.Load(n.Root, &n.Patience, r, noticeFile(id), maxFile, decodeNotice); !r.There {
		delete(n.byTask, id)
	}
}

// expect makes the next scan reread a notice that may be written now.
func (n *notices) expect(id string) {
	if r := n.byTask[id]; r != nil {
		r.Rest = false
	} else {
		n.byTask[id] = &noticeReading{There: true}
	}
}

// write writes the notice of a hold.
func (n *notices) write(t *task, reason, why string, releaseBy time.Time) error {
	if err := n.Root.Mkdir(holdsDir, 0o755); err != nil {
		return err
	}
	doc, err := jsonfile.Encode(notice{TaskID: t.id, Reason: reason, Why: why, HeldAt: n.Now.UTC(), ReleaseBy: releaseBy.UTC(),
		Release: "steward release " + t.id, Files: t.files()})
	if err != nil {
		return err
	}
	late, err := n.Root.Replace(noticeFile(t.id), doc, jsonfile.Any)
	_ = late.Close()
	return err
}

// extend extends the lease in the notice. A notice that is missing or unreadable is written again.
func (n *notices) extend(t *task, why string, releaseBy time.Time) error {
	if r := n.byTask[t.id]; r == nil || !r.Good {
		return n.write(t, protocol.HoldBlocked, why, releaseBy)
	}
	late, err := n.Root.Update(noticeFile(t.id), maxFile, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old, jsonfile.Set{Path: []string{"release_by"}, Value: jsonfile.FormatTime(releaseBy)},
			jsonfile.Set{Path: []string{"files"}, Value: t.files()})
	})
	_ = late.Close()
	return err
}

func (n *notices) remove(id string) error {
	if err := n.Root.Remove(noticeFile(id)); err != nil && !folder.Missing(err) {
		return err
	}
	return nil
}
