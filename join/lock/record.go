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

// ErrDamaged says that a lock's record cannot be read, so that nobody knows which number comes next.
var ErrDamaged = errors.New("the lock's record is damaged")

const (
	maxRecord = 64 << 10 // bytes
	// ahead is how many numbers the second copy stands ahead of the record: it is written once for so many holdings.
	ahead = 1000
	// maxFence bounds the numbers: beyond it not every reader of JSON tells two of them apart.
	maxFence = 1 << 53
)

// record is NAME.json: the newest holding, or what is left of it. Whether it still goes on the kernel tells.
type record struct {
	Name     string        `json:"name"` // verbatim
	Fence    uint64        `json:"fence"`
	Agent    string        `json:"agent,omitempty"`
	Process  proc.Identity `json:"process,omitzero"`      // who took it
	Child    proc.Identity `json:"child,omitzero"`        // the command, where the kernel does not tell who holds a lock
	Host     string        `json:"host,omitempty"`        // a process number means something only there
	Command  []string      `json:"command,omitempty"`     // its beginning
	Acquired time.Time     `json:"acquired,omitzero"`     //
	TTL      float64       `json:"ttl_seconds,omitempty"` // after which it counts as over its time
	Broken   *violation    `json:"broken,omitempty"`      // that the last holding was ended by hand
	raw      []byte        `json:"-"`                     // of a damaged record
}

// violation is a break on record.
type violation struct {
	At  time.Time `json:"at"`
	By  string    `json:"by"`
	Why string    `json:"why"`
}

// reserve is NAME.fence: no number above Ceiling was ever granted.
type reserve struct {
	Name    string `json:"name"`
	Ceiling uint64 `json:"ceiling"`
}

// read reads a lock's record and its second copy; zero values for what is missing. The error is ErrDamaged for a record
// that makes no sense; what the copy says is valid beside it. A copy that makes no sense counts as missing.
func read(root *jsonfile.Root, name, file string) (r record, ceiling uint64, err error) {
	var second reserve
	if blob, err := root.Read(locksDir+"/"+file+copySuffix, maxRecord); err == nil {
		if json.Unmarshal(blob.Data, &second) == nil && strings.EqualFold(second.Name, name) && second.Ceiling <= maxFence {
			ceiling = second.Ceiling
		}
	}
	blob, err := root.Read(locksDir+"/"+file+recordSuffix, maxRecord)
	switch {
	case errors.Is(err, jsonfile.ErrNotExist):
		return record{Name: name}, ceiling, nil
	case errors.Is(err, jsonfile.ErrTooBig), errors.Is(err, jsonfile.ErrHostile), errors.Is(err, jsonfile.ErrTorn):
		return record{Name: name}, ceiling, fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return record{}, 0, err
	}
	if err := r.decode(blob.Data, name); err != nil {
		return record{Name: name, raw: blob.Data}, ceiling, fmt.Errorf("%w: %s: %w", ErrDamaged, file+recordSuffix, err)
	}
	return r, ceiling, nil
}

// decode reads a record strictly. On a file system that does not tell capitals from small letters two names share it.
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

// next is the number of the next holding. Where the record is missing the second copy tells what to stay above, and
// where both are, the clock does.
func (r record) next(ceiling uint64, now time.Time) uint64 {
	switch {
	case r.Fence != 0:
		return r.Fence + 1
	case ceiling != 0:
		return ceiling + 1
	}
	return first(now)
}

// first is the number of a name's first holding: microseconds since 1970. A holding takes far longer than one, so that
// no count that began earlier has come as far, even if all trace of it was removed. It stays below maxFence until 2255.
func first(now time.Time) uint64 { return uint64(max(now.UnixMicro(), 1)) }

// write puts a record on disk, after the second copy where that must move up. Both have reached the disk when it
// returns.
func (p *Place) write(root *jsonfile.Root, file string, r record, ceiling uint64) error {
	if r.Fence > ceiling {
		if err := put(root, file+copySuffix, reserve{r.Name, r.Fence + ahead - 1}); err != nil {
			return err
		}
		p.opts.step("copied")
	}
	return put(root, file+recordSuffix, r)
}

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

// beginning is as much of a command line as a record keeps.
func beginning(argv []string) []string {
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
