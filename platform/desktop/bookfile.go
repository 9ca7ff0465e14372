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
	bookTemp   = ".popups.json.new" // a fixed name, so that kills leave at most one such file
	bookFormat = 1
	maxBook    = 1 << 20 // bytes; our files stay below: 256 keys of 256 bytes, each at most six bytes in JSON
	maxName    = 255     // bytes of a bus name (D-Bus specification)
)

type bookText struct {
	Format int     `json:"format"`
	Popups []entry `json:"popups"`
}

// readMarks reads the file in dir. A file that is missing, truncated, foreign or too large yields no entries: at
// worst a popup of the previous run stays beside the new one.
func readMarks(dir string) []entry {
	path := filepath.Join(dir, bookFile)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() { // opening a pipe would block
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

// decodeMarks accepts each key and each popup once.
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

// writeMarks replaces the file in dir atomically, with mode 0600. It does not sync to disk: a power failure removes
// the popups as well.
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
