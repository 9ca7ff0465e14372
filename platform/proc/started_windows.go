package proc

import (
	"time"

	"golang.org/x/sys/windows"
)

// started reads the start token, which is the time of creation as the system writes it.
func started(id Identity) (time.Time, error) {
	at := windows.Filetime{HighDateTime: uint32(id.Start >> 32), LowDateTime: uint32(id.Start)}
	return time.Unix(0, at.Nanoseconds()), nil
}
