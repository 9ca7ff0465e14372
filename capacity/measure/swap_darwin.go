package measure

import (
	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sys/unix"
)

// The kernel's memory pressure levels, and the share that each implies at least: at warn it compresses and swaps
// hard, at critical it kills. What the page counts say is then beside the point.
const (
	pressureWarn     = 2
	pressureCritical = 4
)

// addSwap asks sysctl only. A machine that does not answer one of the two is judged without it.
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
