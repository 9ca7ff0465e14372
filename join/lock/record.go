package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/jsonfile"
)

// ErrDamaged says that a lock's record cannot be read, so the next fencing token is unknown.
var ErrDamaged = errors.New("the lock's record is damaged")

const (
	maxRecord = 64 << 10 // bytes
	// ahead is how far the second copy is ahead of the record: it is written once per so many grants.
	ahead = 1000
	// maxFence bounds the tokens: above it some JSON readers cannot distinguish adjacent integers.
	maxFence = 1 << 53
)

// record is NAME.json: the newest grant, or its remains. The kernel tells whether the lock is still held.
type record struct {
	Name     string        `json:"name"` // verbatim
	Fence    uint64        `json:"fence"`
	Agent    string        `json:"agent,omitempty"`
	Process  proc.Identity `json:"process,omitzero"`      // the process that took the lock
	Child    proc.Identity `json:"child,omitzero"`        // the command, where the kernel does not tell who holds a lock
	Host     string        `json:"host,omitempty"`        // a process ID is valid only on this host
	Command  []string      `json:"command,omitempty"`     // truncated
	Acquired time.Time     `json:"acquired,omitzero"`     //
	TTL      float64       `json:"ttl_seconds,omitempty"` // after it the lock is overdue
	Broken   *violation    `json:"broken,omitempty"`      // set if a user broke the last grant
	raw      []byte        `json:"-"`                     // the content of a damaged record
}

// violation records a break.
type violation struct {
	At  time.Time `json:"at"`
	By  string    `json:"by"`
	Why string    `json:"why"`
}

// reserve is NAME.fence: no fencing token above Ceiling was ever granted.
type reserve struct {
	Name    string `json:"name"`
	Ceiling uint64 `json:"ceiling"`
}

// decode reads a record strictly. The name is compared without case: on a case-insensitive file system two names share
// a record.
func (r *record) decode(data []byte, name string) error {
	if _, err := jsonfile.Parse(data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, r); err != nil {
		return err
	}
	switch {
	case r.Fence == 0 || r.Fence >= maxFence:
		return fmt.Errorf("it has no number")
	case !strings.EqualFold(r.Name, name):
		return fmt.Errorf("it speaks of the lock %q", r.Name)
	}
	return nil
}

// next is the fencing token of the next grant: one above the record's, else one above the second copy's ceiling, else
// from the clock.
func (r record) next(ceiling uint64, now time.Time) uint64 {
	switch {
	case r.Fence != 0:
		return r.Fence + 1
	case ceiling != 0:
		return ceiling + 1
	}
	return first(now)
}

// first is the fencing token of a name's first grant: microseconds since 1970. A grant takes far longer than a
// microsecond, so a sequence that started earlier cannot have caught up, even if all trace of it was removed. It stays
// below maxFence until 2255. See docs/decisions.md, "The fencing number starts at the clock".
func first(now time.Time) uint64 { return uint64(max(now.UnixMicro(), 1)) }

func put(root *jsonfile.Root, file string, v any) error {
	data, err := jsonfile.Encode(v)
	if err != nil {
		return err
	}
	late, err := root.Replace(locksDir+"/"+file, data, jsonfile.Any)
	if err != nil {
		return err
	}
	return late.Close()
}

// truncated truncates a command line for a record.
func truncated(argv []string) []string {
	const most, room = 20, 200
	kept := make([]string, 0, min(len(argv), most))
	for i, arg := range argv {
		if i == most {
			return append(kept, "…")
		}
		arg = strings.ToValidUTF8(arg, "�")
		if r := []rune(arg); len(r) > room {
			arg = string(r[:room-1]) + "…"
		}
		kept = append(kept, arg)
	}
	return kept
}

func (r record) ttl() time.Duration { return time.Duration(r.TTL * float64(time.Second)) }

func (r record) ends() time.Time { return r.Acquired.Add(r.ttl()) }
