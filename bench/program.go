package main

import (
	"os"
	"time"
)

// measureProgram looks at the program as a file, and at the cost of merely starting it.
func measureProgram(b *bench) ([]row, error) {
	st, err := os.Stat(b.steward)
	if err != nil {
		return nil, err
	}
	rows := []row{judged("binary, as built", "≤ 24 MB", megabytes(int(st.Size())), st.Size() <= 24e6)}
	h, err := b.newHouse("")
	if err != nil {
		return rows, err
	}
	times, err := h.timeTool(30, "version")
	if err != nil {
		return rows, err
	}
	return append(rows, judged("start of steward for a hook call (steward version)", "p50 ≤ 10 ms", times.String(), times.p50() <= 10*time.Millisecond)), nil
}
