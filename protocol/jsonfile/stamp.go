package jsonfile

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"time"
)

// Stamp identifies one state of a file, as the system reports it. Equal Stamps mean "unchanged" once Settled; a
// difference in any field means "read again". Times are nanoseconds since 1970.
type Stamp struct {
	Dev, Inode       uint64
	Size             int64
	MtimeNs, CtimeNs int64
	Mode             fs.FileMode // kind and permission bits
	UID, GID         int
	Links            uint64
}

// Settled reports whether the file had been untouched for long enough at now that a further write must change its
// mtime. Kernel timestamps move in steps of some milliseconds (whole seconds on some file systems): a Stamp taken
// within the same step as a write proves nothing about the next write.
func (s Stamp) Settled(now time.Time) bool {
	step := 50 * time.Millisecond
	if s.MtimeNs%int64(time.Second) == 0 {
		step = 2 * time.Second
	}
	return now.UnixNano()-s.MtimeNs > int64(step)
}

// ModTime is the time of the last write.
func (s Stamp) ModTime() time.Time { return time.Unix(0, s.MtimeNs) }

func (s Stamp) sameFile(t Stamp) bool {
	return s.Dev == t.Dev && s.Inode == t.Inode
}

// Sum is a hash of a file's content (half of a SHA-256, in hex). Two values have a special meaning as an expected Sum.
type Sum string

const (
	// Any accepts every content, and a missing file.
	Any Sum = ""
	// Absent expects that no file exists.
	Absent Sum = "absent"
)

// SumOf hashes a whole file's content.
func SumOf(data []byte) Sum {
	h := sha256.Sum256(data)
	return Sum(hex.EncodeToString(h[:16]))
}
