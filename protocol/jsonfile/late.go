package jsonfile

import (
	"bytes"
	"os"
)

// Late watches the old inode of a file that was renamed over. A client that had the file open keeps writing into the
// old inode, where no reader sees it. For about two seconds the caller polls Check, merges late content with its own
// edit, and replaces the file again.
//
// A nil Late is valid: it never reports a change.
type Late struct {
	f     *os.File
	stamp Stamp  // when judged
	data  []byte // as judged, then as last reported
}

// Check returns the old file's content if it differs from the judged content, or from what Check last returned. The
// content may be torn (a writer truncates first): call again later.
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

// unchanged compares once more, because the caller waited for the disk since the judgement.
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

// keep is what the caller receives after a replacement.
func (l *Late) keep() *Late {
	if !keepsOld {
		return nil
	}
	return l
}
