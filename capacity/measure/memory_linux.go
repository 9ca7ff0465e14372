package measure

import (
	"context"

	"github.com/shirou/gopsutil/v4/mem"
)

// addSwap takes what /proc/meminfo said already; mem.SwapMemory would read two more sources for the same.
func (m *memory) addSwap(_ context.Context, vm *mem.VirtualMemoryStat) {
	if vm.SwapFree <= vm.SwapTotal {
		m.swapTotal, m.swapUsed = vm.SwapTotal, vm.SwapTotal-vm.SwapFree
	}
}
