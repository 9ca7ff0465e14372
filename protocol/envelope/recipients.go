package envelope

import (
	"slices"

	"github.com/livhana/steward/protocol/jsonfile"
)

// recipients reads to_agent. The document knows one recipient; a list of them is several, and whatever else names a
// deployer is for the deployer: the security gate must not be passed by a shape.
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

// wordsIn lists the strings in a value, keys included.
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
