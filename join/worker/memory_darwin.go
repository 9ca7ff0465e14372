package worker

import "golang.org/x/sys/unix"

// TotalMemory is the machine's memory in bytes; 0 when it is not known.
func TotalMemory() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}
