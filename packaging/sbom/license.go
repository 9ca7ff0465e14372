package main

import (
	"slices"
	"strings"
)

// marks are sentences that only one licence holds; all must be there, and none of the others.
type marks struct {
	name     string
	has, not []string
}

// classify names the licence of the first text that is one of the common kinds, in SPDX's words.
func classify(texts []text) string {
	kinds := []marks{
		{name: "Apache-2.0", has: []string{"apache license", "version 2.0, january 2004"}},
		{name: "MIT", has: []string{"permission is hereby granted, free of charge, to any person obtaining a copy", "the above copyright notice and this permission notice shall be included"}},
		{name: "BSD-3-Clause", has: []string{"redistribution and use in source and binary forms", "neither the name"}, not: []string{"all advertising materials"}},
		{name: "BSD-2-Clause", has: []string{"redistribution and use in source and binary forms"}, not: []string{"neither the name", "all advertising materials"}},
		{name: "MPL-2.0", has: []string{"mozilla public license version 2.0"}},
		{name: "Zlib", has: []string{"altered source versions must be plainly marked as such", "this notice may not be removed or altered from any source"}},
	}
	for _, t := range texts {
		flat := strings.ToLower(strings.Join(strings.Fields(string(t.data)), " "))
		within := func(s string) bool { return strings.Contains(flat, s) }
		var found []string
		for _, k := range kinds {
			if !slices.ContainsFunc(k.has, func(s string) bool { return !within(s) }) && !slices.ContainsFunc(k.not, within) {
				found = append(found, k.name)
			}
		}
		// A file with several licences, for several parts of a module, is all of them.
		if len(found) > 0 {
			return strings.Join(found, " AND ")
		}
	}
	return ""
}
