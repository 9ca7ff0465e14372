package capacity

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// Entry is a reservation that counts, with its expected cost. Learnt: the cost comes from ended work of its kind.
type Entry struct {
	Reservation
	Cores  float64
	Memory uint64 // bytes
	Learnt bool
}

// Statement lists the reservations that count, and returns the used shares of processor and memory including them, as the
// next task sees them. Without reservations these are the readings.
func Statement(claims []Reservation, load Load, mem Memory, now time.Time, cfg Config) (entries []Entry, cpu, memory protocol.Share) {
	r := newRound(load, mem, now, cfg)
	r.reserve(Work{Reservations: claims})
	for _, c := range r.counting(Work{Reservations: claims}) { // listed again after reserve: claims that have a place keep it
		cost := r.cost(c.Kind)
		entries = append(entries, Entry{Reservation: c, Cores: cost.Cores, Memory: cost.Memory, Learnt: r.next.Learnt[c.Kind].Runs >= enoughRuns})
	}
	b := r.reserved
	cpu, memory = r.load.CPU, r.load.Memory
	if v, known := cpu.Value(); known && b.cores > 0 && b.live > 0 {
		cpu = protocol.Used(max(v, (b.cpu.base+b.cpu.young)/b.cores))
	}
	if v, known := memory.Value(); known && b.total > 0 && b.live > 0 {
		memory = protocol.Used(max(v, (b.mem.base+b.mem.young)/b.total))
	}
	return entries, cpu, memory
}
