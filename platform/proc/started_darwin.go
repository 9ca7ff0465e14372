package proc

import "time"

// started reads the start token, which is the kernel's own time of the start in microseconds.
func started(id Identity) (time.Time, error) { return time.UnixMicro(int64(id.Start)), nil }
