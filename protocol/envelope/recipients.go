package envelope

import (
	"slices"

	"github.com/livhana/steward/protocol/jsonfile"
)

// recipients reads to_agent. The document allows one recipient. A list means several recipients. An object counts only
// where it names a deployer: an unusual shape must not bypass the security gate.
func (m *message) recipients(c *check, o jsonfile.Object, n need) {
	m.to = c.text(o, "to_agent", n)
	v := o.Get("to_agent")
	if v.Kind() != "array" && v.Kind() != "object" {
		return
	}
	var names []string
	for _, name := range wordsIn(v) {
		if name = clean(name, maxText); name != "" && (len(names) < maxItems || c.deployers.has(name)) && !slices.Contains(names, name) && (v.Kind() == "array" || c.deployers.has(name)) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	at := max(slices.IndexFunc(names, c.deployers.has), 0)
	m.to = names[at]
	m.also = slices.Delete(names, at, at+1)
}

// wordsIn returns the strings in a value, including its keys.
func wordsIn(v jsonfile.Value) []string {
	if s, p := v.Text(); p == jsonfile.Present {
		return []string{s}
	}
	var list []string
	if items, p := v.Array(); p == jsonfile.Present {
		for _, item := range items {
			list = append(list, wordsIn(item)...)
		}
	}
	if o, p := v.Object(); p == jsonfile.Present {
		for _, key := range o.Keys() {
			list = append(append(list, key), wordsIn(o.Get(key))...)
		}
	}
	return list
}
