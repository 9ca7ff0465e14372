package worker

import "golang.org/x/sys/unix"

// TotalMemory is the machine's memory in bytes; 0 when it is not known.
func TotalMemory() uint64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return uint64(s.Totalram) * uint64(s.Unit)
}
