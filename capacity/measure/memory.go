package measure

import "fmt"

// memory is in bytes. pressure is the smallest share implied by the kernel's own alarm, 0 if none exists.
type memory struct {
	total, available    uint64
	swapTotal, swapUsed uint64
	pressure            float64
}

// absurd is more memory than any machine has; a larger number is invalid.
const absurd = 1 << 56

// The smallest shares implied by the kernel's own alarms: when programs wait for memory, and when no program makes
// progress. The page counts then no longer matter.
const (
	usedAtWarn     = 0.9
	usedAtCritical = 1.0
)

// need records an alarm of the kernel.
func (m *memory) need(share float64) { m.pressure = max(m.pressure, share) }

func (m memory) check() error {
	if m.total == 0 || m.total > absurd || m.available > m.total {
		return fmt.Errorf("read memory: %d bytes available of %d is impossible", m.available, m.total)
	}
	return nil
}

// used returns the used share by the page counts, without the alarms. It is based on "available" (free, plus what the
// kernel can drop at no cost); "free" is near 0 on every healthy machine.
//
// If swap is in use, the result is the maximum of that share and a second one: the used part of memory and swap
// together. The second share detects a machine that moved 30 GiB out and therefore has a quarter of its memory
// "available". Alone it would make a machine with much empty swap look emptier than it is. Full swap by itself is no
// alarm, because idle pages stay there for weeks.
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
