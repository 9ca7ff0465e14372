package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func readFiles(proc string) (files, error) {
	b, err := os.ReadFile(filepath.Join(proc, "sys/fs/file-nr"))
	if err != nil {
		return files{}, fmt.Errorf("read open files: %w", err)
	}
	return parseFileNr(string(b))
}

// parseFileNr reads /proc/sys/fs/file-nr: allocated, allocated but unused, limit.
func parseFileNr(text string) (files, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return files{}, fmt.Errorf("read open files: %d numbers instead of 3", len(fields))
	}
	var n [3]uint64
	for i, field := range fields {
		v, err := strconv.ParseUint(field, 10, 63) // the kernel's numbers are signed
		if err != nil {
			return files{}, fmt.Errorf("read open files: %w", err)
		}
		n[i] = v
	}
	if n[1] > n[0] || n[2] == 0 {
		return files{}, fmt.Errorf("read open files: %d allocated, %d unused, limit %d is impossible", n[0], n[1], n[2])
	}
	return files{open: n[0] - n[1], limit: n[2]}, nil
}
