package capacity

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/livhana/steward/protocol"
)

// Size is a number of bytes, written with its unit: "5GiB", "500 MiB".
type Size uint64

var sizeUnits = map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	words := strings.TrimSpace(string(text))
	number, unit := words, 1.0
	for name, bytes := range sizeUnits {
		if rest, found := strings.CutSuffix(words, name); found {
			number, unit = strings.TrimSpace(rest), bytes
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0 && v*unit < math.MaxInt64) || unit == 1 && v != 0 {
		return fmt.Errorf("%q is not a size: write a number and KiB, MiB, GiB or TiB, as in \"5GiB\"", words)
	}
	*s = Size(v * unit)
	return nil
}

// MarshalText writes a size as UnmarshalText reads it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String writes a size in GiB where that is a whole number, else in MiB.
func (s Size) String() string {
	if s > 0 && s%(1<<30) == 0 {
		return fmt.Sprintf("%dGiB", s>>30)
	}
	return strconv.FormatFloat(float64(s)/(1<<20), 'f', -1, 64) + "MiB"
}

// Disk describes how full the file system of a project is.
type Disk struct {
	Used float64 `json:"used"`       // share of the space available to steward's user
	Free uint64  `json:"free_bytes"` // bytes that steward's user may still write
}

// size is the total space available to the user, in bytes; 0: unknown.
func (d Disk) size() float64 {
	if d.Free == 0 || d.Used >= 1 {
		return 0
	}
	return float64(d.Free) / (1 - d.Used)
}

// diskStep is the share of the disk that must be free: DiskFree, but at most 5 % of the disk. If the size is unknown it
// is 5 %.
func (c Config) diskStep(d Disk) float64 {
	const most = 0.05
	size := d.size()
	if size == 0 {
		return most
	}
	return min(most, float64(c.DiskFree)/size)
}

// DiskFullAt is the used share from which a disk is full: above DiskLimit, with less than DiskFree free. The share
// alone misjudges a large disk: 5 % of 20 TB is 1 TB. See docs/decisions.md, "The disk has its own limit".
func (c Config) DiskFullAt(d Disk) float64 {
	if d.size() == 0 {
		return c.DiskLimit
	}
	return max(c.DiskLimit, 1-c.diskStep(d))
}

// FullDisks returns the projects whose disk is full, sorted.
func (c Config) FullDisks(disks map[string]Disk) []string {
	var full []string
	for _, project := range slices.Sorted(maps.Keys(disks)) {
		if d := disks[project]; d.Used > max(c.Threshold, c.DiskFullAt(d))+tiny {
			full = append(full, project)
		}
	}
	return full
}

// Of returns the load as seen by the tasks of a project: of the disks, only the project's own counts.
func (l Load) Of(project string) Load {
	if l.Disks == nil {
		return l
	}
	l.Disk = protocol.Share{}
	if d, known := l.Disks[project]; known {
		l.Disk = Used(d.Used)
	}
	return l
}
