package measure

// files is the system's table of open files.
type files struct{ open, limit uint64 }

// used is the used share. A limit like 2^63-1, as Linux has it by default, is a real one: the share is then next
// to 0, and that is the truth. The superuser may pass the limit; that is 1.
func (f files) used() float64 {
	if f.limit == 0 {
		return 0
	}
	return min(float64(f.open)/float64(f.limit), 1)
}
