package capacity

import (
	"encoding/json"
	"time"

	"github.com/livhana/steward/protocol"
)

// document is capacity.json: the format of protocol 000, Capacity Tracking, followed by steward's own keys.
type document struct {
	Threshold protocol.Share `json:"capacity_threshold"`
	Load      currentLoad    `json:"current_load"`
	Free      protocol.Share `json:"current_capacity"`
	Binding   *string        `json:"binding"`
	UpdatedAt *string        `json:"updated_at"`
	Health    health         `json:"health"`
}

// health uses the words of protocol 000's heartbeats: whether each dimension is within its limit; null: unknown.
type health struct {
	CPU    *bool `json:"cpu_ok"`
	Memory *bool `json:"memory_ok"`
	Disk   *bool `json:"disk_ok"`
}

// within reports whether the share is at most the limit; nil: unknown.
func within(share protocol.Share, limit float64) *bool {
	used, known := share.Value()
	if !known {
		return nil
	}
	ok := used <= limit
	return &ok
}

type currentLoad struct {
	OpenFiles  *int64         `json:"open_files"`
	Operations int            `json:"active_operations"`
	MemoryMB   *int64         `json:"memory_usage_mb"`
	Estimated  protocol.Share `json:"estimated_capacity"`
}

// Document returns capacity.json, ending in a newline. estimated_capacity is the used share and current_capacity the
// free share; unknown values are null. active is the number of tasks in flight. Pass the load through Fresh first.
func Document(load Load, cfg Config, active int) []byte {
	doc := document{
		Threshold: protocol.Used(cfg.Threshold),
		Load: currentLoad{
			OpenFiles: load.OpenFiles, Operations: active, MemoryMB: load.MemoryUsedMB, Estimated: load.Used(),
		},
	}
	doc.Health = health{CPU: within(load.CPU, cfg.Threshold), Memory: within(load.Memory, cfg.Threshold), Disk: within(load.Disk, cfg.DiskLimit)}
	if used, ok := load.Used().Value(); ok {
		doc.Free = protocol.Used(1 - used)
		binding := load.Binding()
		doc.Binding = &binding
	}
	if !load.At.IsZero() {
		at := load.At.UTC().Format(time.RFC3339)
		doc.UpdatedAt = &at
	}
	out, _ := json.MarshalIndent(doc, "", "  ") // cannot fail: a NaN Share is null
	return append(out, '\n')
}
