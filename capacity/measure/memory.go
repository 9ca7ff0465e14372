package measure

import (
	"context"
	"fmt"

	"github.com/shirou/gopsutil/v4/mem"
)

// memory is in bytes. Pressure is the least share that the kernel's own alarm implies, 0 when it raises none.
type memory struct {
	total, available    uint64
	swapTotal, swapUsed uint64
	pressure            float64
}

// absurd is more memory than any machine has: a number above it is garbage.
const absurd = 1 << 56

func readMemory(ctx context.Context) (memory, error) {
	vm, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return memory{}, fmt.Errorf("read memory: %w", err)
	}
	m := memory{total: vm.Total, available: vm.Available}
	if m.total == 0 || m.total > absurd || m.available > m.total {
		return memory{}, fmt.Errorf("read memory: %d bytes available of %d is impossible", m.available, m.total)
	}
	m.addSwap(ctx, vm)
	return m, nil
}

// used is the used share. "Available" (free, plus what the kernel can drop at no cost) is what matters; "free"
// is near 0 on every healthy machine.
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
	return max(used, m.pressure)
}
