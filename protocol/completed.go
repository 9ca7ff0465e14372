package protocol

import "slices"

// Completed lists the tasks of a Snapshot that completed and whose files leave nothing to do. Scans that show the same
// tasks share one list, so that the list need not be read again to know that it has not changed.
type Completed struct {
	Tasks []Completion
	at    map[string]int
}

// Completion identifies how a task completed.
type Completion struct {
	ID     string
	Result string // sum of the result
	// Request is the sum of the request where another task may have the same id later; "" elsewhere.
	Request string
	Run     int // number of the run, from 1
}

// Find returns the position of a task in the list, and whether it is there.
func (c *Completed) Find(id string) (int, bool) {
	if c == nil {
		return 0, false
	}
	i, known := c.at[id]
	return i, known
}

// Division separates the tasks of a Snapshot by their positions in Tasks: Done in the order of the list, and Rest.
type Division struct {
	List *Completed
	Done []int
	Rest []int
}

// Divide finds the completed tasks of the Snapshot. It returns last for the list if that has the same tasks.
func (s *Snapshot) Divide(last *Completed) Division {
	d := Division{List: last, Done: make([]int, 0, len(s.Tasks))}
	var list []Completion // nil while last has the same tasks
	if last == nil {
		list = []Completion{}
	}
	for i := range s.Tasks {
		c, done := completion(&s.Tasks[i])
		if !done {
			d.Rest = append(d.Rest, i)
			continue
		}
		if n := len(d.Done); list == nil && (n >= len(last.Tasks) || last.Tasks[n] != c) {
			list = append(make([]Completion, 0, len(s.Tasks)), last.Tasks[:n]...)
		}
		if list != nil {
			list = append(list, c)
		}
		d.Done = append(d.Done, i)
	}
	if n := len(d.Done); list == nil && n < len(last.Tasks) {
		list = slices.Clone(last.Tasks[:n])
	}
	if list != nil {
		d.List = &Completed{Tasks: list, at: make(map[string]int, len(list))}
		for i, c := range list {
			d.List.at[c.ID] = i
		}
	}
	return d
}

// completion reports whether the task completed and its files leave nothing to do.
func completion(t *Task) (c Completion, done bool) {
	o := t.Outcome
	if o == nil || !o.Succeeded() || o.Unrecorded || len(o.ForHuman) > 0 || t.Hold != nil || t.Late != nil || t.Reopened || t.Cancelled {
		return c, false
	}
	c = Completion{ID: t.ID, Result: o.Ref.Sum, Run: 1 + len(t.Committed())}
	if t.Foreign {
		c.Request = t.Ref.Sum
	}
	return c, true
}
