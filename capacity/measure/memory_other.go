//go:build !linux

package measure

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/mem"
)

func (g *Gauge) readMemory() (memory, error) {
	vm, err := mem.VirtualMemory()
	if err != nil {
		return memory{}, fmt.Errorf("read memory: %w", err)
	}
	m := memory{total: vm.Total, available: vm.Available}
	m.addSwap()
	return m, m.check()
}
