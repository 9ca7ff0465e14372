package mailbox

import (
	"context"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// lateFor is how long the old inode of a file that we replaced is watched: a client that had it open writes there.
const lateFor = 2 * time.Second

// lateEdit is an edit of a file whose old inode is still watched.
type lateEdit struct {
	file  string
	max   int64
	late  *jsonfile.Late
	until time.Time
	again func(doc []byte) ([]jsonfile.Set, error) // the same edit for a document that a client wrote
	wrote jsonfile.Sum
	news  []byte // what a client wrote into the old inode, not merged yet
}

// edit changes a file as judge says of what is in it now, and reports whether it wrote. again is the edit for what a
// client may still write into the old inode.
func (p *Project) edit(file string, max int64, judge, again func([]byte) ([]jsonfile.Set, error)) (wrote bool, err error) {
	l := &lateEdit{file: file, max: max, until: p.now.Add(lateFor), again: again}
	l.late, err = p.root.Update(file, max, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, moved("%s is gone", file)
		}
		sets, err := judge(old)
		wrote = err == nil && len(sets) > 0
		if !wrote {
			return nil, err
		}
		next, err := jsonfile.Edit(old, sets...)
		l.wrote = jsonfile.SumOf(next)
		return next, err
	})
	if err != nil || !wrote {
		return false, err
	}
	p.lates = append(p.lates, l)
	return true, nil
}

// mergeLate brings what was written into old inodes back into sight.
func (p *Project) mergeLate(ctx context.Context) {
	lates := p.lates
	p.lates = nil
	for _, l := range lates {
		if data, changed, err := l.late.Check(); changed && err == nil {
			l.news = data
		}
		if l.news != nil {
			_ = p.guarded(ctx, func() error { return p.merge(l) }) // tried again at the next look
		}
		if p.now.Before(l.until) {
			p.lates = append(p.lates, l)
			p.patience.Wish(p.now.Add(100 * time.Millisecond))
			continue
		}
		_ = l.late.Close()
	}
}

// merge makes a late document the present one, with our edit in it: the client's write counts as the newer one. Where
// somebody has written to the new file since, that one is newer still and stays.
func (p *Project) merge(l *lateEdit) error {
	if _, err := jsonfile.Parse(l.news); err != nil {
		return nil // its writer is still at work
	}
	sets, err := l.again(l.news)
	if err != nil {
		return err
	}
	doc, err := jsonfile.Edit(l.news, sets...)
	if err != nil {
		return err
	}
	next := &lateEdit{file: l.file, max: l.max, until: p.now.Add(lateFor), again: l.again, wrote: jsonfile.SumOf(doc)}
	replaced := false
	next.late, err = p.root.Update(l.file, l.max, func(now []byte) ([]byte, error) {
		if replaced = jsonfile.SumOf(now) == l.wrote; !replaced {
			return nil, nil
		}
		return doc, nil
	})
	if err != nil {
		return err
	}
	l.news = nil
	if replaced {
		l.wrote = next.wrote
		p.lates = append(p.lates, next)
	}
	return nil
}

func (p *Project) dropLates() {
	for _, l := range p.lates {
		_ = l.late.Close()
	}
	p.lates = nil
}
