package measure

import "fmt"

// memory is in bytes. Pressure is the least share that the kernel's own alarm implies, 0 when it raises none.
type memory struct {
	total, available    uint64
	swapTotal, swapUsed uint64
	pressure            float64
}

// absurd is more memory than any machine has: a number above it is garbage.
const absurd = 1 << 56

// The shares that the kernel's own alarms imply at least: when programs wait for memory, and when nothing gets on
// any more. What the page counts say is then beside the point.
const (
	usedAtWarn     = 0.9
	usedAtCritical = 1.0
)

// need notes an alarm of the kernel's.
func (m *memory) need(share float64) { m.pressure = max(m.pressure, share) }

func (m memory) check() error {
	if m.total == 0 || m.total > absurd || m.available > m.total {
		return fmt.Errorf("read memory: %d bytes available of %d is impossible", m.available, m.total)
	}
	return nil
}

// used is the used share by the page counts, without the alarms. "Available" (free, plus what the kernel can drop at
// no cost) is what matters; "free" is near 0 on every healthy machine.
//
// Swap in use adds a second view: how much of all that can hold pages, memory and swap together, is taken.
// It shows the machine that moved 30 GiB out and so has a quarter of its memory "available". The
// larger view counts. Alone the second would make a machine with much empty swap look emptier than it is, and
// full swap by itself is no alarm: idle pages stay there for weeks.
func (m memory) used() float64 {
	if m.total == 0 {
		return 0
	}
	taken := float64(m.total - m.available)
	used := taken / float64(m.total)
	if m.swapUsed > 0 && m.swapUsed <= m.swapTotal && m.swapTotal <= absurd {
		used = max(used, (taken+float64(m.swapUsed))/(float64(m.total)+float64(m.swapTotal)))
	}
	return used
}
