package measure

import (
	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sys/unix"
)

// The kernel's memory pressure levels, and the smallest share that each implies: at warn the kernel compresses and
// swaps heavily, at critical it kills processes. The page counts then no longer matter.
const (
	pressureWarn     = 2
	pressureCritical = 4
)

// addSwap uses sysctl only. If either value is unavailable, the machine is judged without it.
func (m *memory) addSwap() {
	if swap, err := mem.SwapMemory(); err == nil {
		m.swapTotal, m.swapUsed = swap.Total, swap.Used
	}
	level, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level")
	switch {
	case err != nil:
	case level >= pressureCritical:
		m.need(usedAtCritical)
	case level >= pressureWarn:
		m.need(usedAtWarn)
	}
}
