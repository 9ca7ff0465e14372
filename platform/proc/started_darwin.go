package proc

import "time"

// started converts the start token, which is the kernel's start time in microseconds.
func started(id Identity) (time.Time, error) { return time.UnixMicro(int64(id.Start)), nil }
