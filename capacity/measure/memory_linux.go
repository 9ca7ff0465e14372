package measure

import (
	"bytes"
	"errors"
	"fmt"
)

func (g *Gauge) readMemory() (memory, error) {
	text, err := g.kept("meminfo").read(g.buf)
	if err != nil {
		return memory{}, fmt.Errorf("read memory: %w", err)
	}
	return parseMeminfo(text)
}

// parseMeminfo reads /proc/meminfo, which says "kB" and means KiB.
func parseMeminfo(text []byte) (memory, error) {
	const unread = 1<<64 - 1
	m := memory{total: unread, available: unread}
	var swapFree uint64
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		name, value, _ := bytes.Cut(line, []byte{':'})
		var to *uint64
		switch string(name) {
		case "MemTotal":
			to = &m.total
		case "MemAvailable":
			to = &m.available
		case "SwapTotal":
			to = &m.swapTotal
		case "SwapFree":
			to = &swapFree
		default:
			continue
		}
		n, _, ok := number(value)
		if !ok || n > absurd>>10 {
			return memory{}, fmt.Errorf("read memory: %q makes no sense", line)
		}
		*to = n << 10
	}
	if m.total == unread || m.available == unread {
		return memory{}, errors.New("read memory: the kernel does not say how much is available")
	}
	if swapFree <= m.swapTotal {
		m.swapUsed = m.swapTotal - swapFree
	}
	return m, m.check()
}
