//go:build !linux && !darwin

package measure

import (
	"context"

	"github.com/shirou/gopsutil/v4/mem"
)

// addSwap adds nothing: here the page file is not told apart from memory.
func (m *memory) addSwap(context.Context, *mem.VirtualMemoryStat) {}
