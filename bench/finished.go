package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// finished are tasks that completed two days ago, laid down once: a hundred thousand take a while, and more than one
// measurement wants them.
type finished struct {
	dir string
	n   int // so many lie there, by number from 1
}

// finish puts n finished tasks into a project, with the numbers from first+1 on. They are moved there; what the pool
// lacks is made.
func (p *project) finish(pool *finished, first, n int) error {
	if err := pool.grow(first + n); err != nil {
		return err
	}
	for i := range n {
		for _, kind := range []string{"request", "result"} {
			file := p.task(taskID(first+i+1), kind)
			if err := os.Rename(filepath.Join(pool.dir, filepath.Base(file)), file); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveBack moves them out of the project again, as they were.
func (p *project) giveBack(pool *finished, first, n int) error {
	for i := range n {
		for _, kind := range []string{"request", "result"} {
			file := p.task(taskID(first+i+1), kind)
			if err := os.Rename(file, filepath.Join(pool.dir, filepath.Base(file))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *finished) grow(n int) error {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	at := time.Now().Add(-48 * time.Hour)
	for ; f.n < n; f.n++ {
		id := taskID(f.n + 1)
		for kind, doc := range map[string]object{"request": request(id, 0.8, at), "result": result(id, "", "", at)} {
			data, err := json.Marshal(doc)
			if err != nil {
				return err
			}
			file := filepath.Join(f.dir, "task_"+id+"."+kind+".json")
			if err := os.WriteFile(file, data, 0o644); err != nil {
				return err
			}
			if err := os.Chtimes(file, at, at); err != nil {
				return err
			}
		}
	}
	return nil
}
