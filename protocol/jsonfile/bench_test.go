package jsonfile_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/livhana/steward/protocol/jsonfile"
)

// registry is an agent registry of about 8 KiB.
func registry() []byte {
	agents := map[string]any{}
	for i := range 32 {
		agents[fmt.Sprint("agent-", i)] = map[string]any{
			"agent_id": fmt.Sprint("agent-", i), "status": "ready", "pid": 1000 + i,
			"started_at": "2025-11-08T10:20:30Z", "capabilities": []string{"plan", "code", "test", "review"},
		}
	}
	b, _ := jsonfile.Encode(map[string]any{"version": "1.0", "agents": agents})
	return b
}

func BenchmarkRead(b *testing.B) {
	r, _ := open(b, "tmp/agent_status/shared/agent_registry.json", string(registry()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Read("tmp/agent_status/shared/agent_registry.json", 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStat(b *testing.B) {
	r, _ := open(b, "tmp/agent_status/shared/agent_registry.json", "{}")
	for b.Loop() {
		if _, err := r.Stat("tmp/agent_status/shared/agent_registry.json"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNames lists a folder of 10,000 names: with a string for each, and without.
func BenchmarkNames(b *testing.B) {
	r, dir := open(b, "d/x", "")
	for i := range 10_000 {
		write(b, filepath.Join(dir, fmt.Sprintf("d/task_%08x-0000-4000-8000-%012x.request.json", i, i)), "")
	}
	for name, list := range map[string]func() error{
		"list": func() error { _, _, err := r.List("d"); return err },
		"each": func() error { _, err := r.Each("d", func([]byte) {}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := list(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	doc := registry()
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsonfile.Parse(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEdit(b *testing.B) {
	doc := registry()
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsonfile.Edit(doc, set("error", "agents", "agent-7", "status")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplace(b *testing.B) {
	for name, opts := range map[string][]jsonfile.Option{"fsync": nil, "volatile": {jsonfile.Volatile}} {
		b.Run(name, func(b *testing.B) {
			doc := registry()
			r, _ := open(b, "x.json", string(doc))
			for b.Loop() {
				late, err := r.Replace("x.json", doc, jsonfile.Any, opts...)
				if err != nil {
					b.Fatal(err)
				}
				_ = late.Close()
			}
		})
	}
}
