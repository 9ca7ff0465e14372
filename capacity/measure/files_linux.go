package measure

import (
	"bytes"
	"errors"
	"fmt"
)

func readFiles(g *Gauge) (files, error) {
	text, err := g.kept("sys/fs/file-nr").read(g.buf)
	if err != nil {
		return files{}, fmt.Errorf("read open files: %w", err)
	}
	return parseFileNr(text)
}

// parseFileNr reads /proc/sys/fs/file-nr: allocated, allocated but unused, limit. The kernel's numbers are signed.
func parseFileNr(text []byte) (files, error) {
	var n [3]uint64
	rest, ok := text, false
	for i := range n {
		if n[i], rest, ok = number(rest); !ok {
			return files{}, fmt.Errorf("read open files: number %d of %q makes no sense", i+1, text)
		}
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return files{}, errors.New("read open files: more than 3 numbers")
	}
	if n[1] > n[0] || n[2] == 0 {
		return files{}, fmt.Errorf("read open files: %d allocated, %d unused, limit %d is impossible", n[0], n[1], n[2])
	}
	return files{open: n[0] - n[1], limit: n[2]}, nil
}
