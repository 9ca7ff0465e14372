package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// WriteSnapshot replaces the file at path (status.json in the state folder) with doc atomically, mode 0600. It is not
// synced to disk: after a power cut the document would be out of date anyway, and a laptop's disk should not wake for
// it.
func WriteSnapshot(path string, doc any) error {
	b, err := encode(doc)
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // 0600, whatever the umask
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// ReadSnapshot decodes the last snapshot into what into points to, and returns when it was written. The error is
// fs.ErrNotExist if none exists.
func ReadSnapshot(path string, into any) (written time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("read snapshot: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = json.NewDecoder(io.LimitReader(f, maxAnswer)).Decode(into)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read snapshot %s: %w", path, err)
	}
	return info.ModTime().UTC(), nil
}
