package desktop

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"
)

const (
	bookFile   = "popups.json"
	bookTemp   = ".popups.json.new" // one name, so that kills leave one such file at most
	bookFormat = 1
	maxBook    = 1 << 20 // bytes; ours stay below: 256 keys of 256 bytes, each byte six at most in JSON
	maxName    = 255     // bytes of a bus name, by the specification of D-Bus
)

type bookText struct {
	Format int     `json:"format"`
	Popups []entry `json:"popups"`
}

// readMarks gives what the file in dir remembers. A file that is missing, torn, not ours or far too large remembers
// nothing: at worst a popup of the run before stands once more beside the new one.
func readMarks(dir string) []entry {
	path := filepath.Join(dir, bookFile)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() { // opening a pipe would wait for its other end
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBook+1))
	if err != nil || len(text) > maxBook {
		return nil
	}
	return decodeMarks(text)
}

// decodeMarks takes each key, and each popup, once.
func decodeMarks(text []byte) []entry {
	var t bookText
	if err := json.Unmarshal(text, &t); err != nil || t.Format != bookFormat || len(t.Popups) > maxMarks {
		return nil
	}
	var all []entry
	popups := map[popupRef]bool{}
	for _, e := range t.Popups {
		if e.Key == "" || len(e.Key) > maxKey || !utf8.ValidString(e.Key) || index(all, e.Key) >= 0 {
			continue
		}
		if len(e.Bus) > maxName || len(e.Owner) > maxName || popups[e.popupRef] {
			e.popupRef = popupRef{}
		}
		popups[e.popupRef] = e.ID != 0
		all = append(all, e)
	}
	return all
}

// writeMarks replaces the file in dir, mode 0600. Whoever reads meanwhile sees the old one or the new one. It is not
// flushed to the disk: a power cut takes the popups along.
func writeMarks(dir string, all []entry) error {
	text, err := json.Marshal(bookText{bookFormat, all})
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, bookTemp)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temp, filepath.Join(dir, bookFile))
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}
