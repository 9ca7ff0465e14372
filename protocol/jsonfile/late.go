package jsonfile

import (
	"bytes"
	"os"
)

// Late watches a file that was renamed over. A client that had it open keeps
// writing into the old inode, which nobody reads any more; for about two
// seconds the caller asks Check, merges what arrived with its own edit, and
// replaces the file again.
//
// A nil Late is valid: nothing arrives.
type Late struct {
	f     *os.File
	stamp Stamp  // when judged
	data  []byte // as judged, then as last reported
}

// Check returns the old file's content if it differs from what was judged, or
// from what Check returned before. The content may be torn (a writer truncates
// first): then ask again later.
func (l *Late) Check() (data []byte, changed bool, err error) {
	if l == nil {
		return nil, false, nil
	}
	now, _, err := bounded(l.f, maxCompare)
	if err != nil {
		return nil, false, newError("read replaced file", "", err)
	}
	if bytes.Equal(now, l.data) {
		return nil, false, nil
	}
	l.data = now
	return bytes.Clone(now), true, nil
}

// Close releases the old file.
func (l *Late) Close() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}

// unchanged compares once more: between the judgement and this moment lies the
// wait for the disk.
func (l *Late) unchanged(d folder, name string) error {
	st, err := d.lstat(name)
	if err != nil || !st.sameFile(l.stamp) {
		return ErrConflict
	}
	now, _, err := bounded(l.f, maxCompare)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, l.data) {
		return ErrConflict
	}
	return nil
}

// keep is what the caller gets after a replacement.
func (l *Late) keep() *Late {
	if !keepsOld {
		return nil
	}
	return l
}
