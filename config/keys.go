package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// hint suggests what an unknown key in a table of type t may mean: a similar key of that table, else a setting of this
// name elsewhere, else all keys of the table.
func hint(t reflect.Type, at keyPath, key string, value any) string {
	here := slices.Sorted(maps.Keys(fieldsOf(t)))
	if near, ok := nearest(key, here); ok {
		return fmt.Sprintf("; did you mean %s?", at.key(near))
	}
	if known := elsewhere(key); known != "" && !isTable(value) {
		return fmt.Sprintf("; did you mean %s?", known)
	}
	if at == "" {
		return fmt.Sprintf("; there are %s", strings.Join(here, ", "))
	}
	return fmt.Sprintf("; %s has %s", at, strings.Join(here, ", "))
}

// elsewhere returns the first key whose last part is word.
func elsewhere(word string) keyPath {
	for _, known := range allKeys(reflect.TypeFor[Config](), "") {
		if known == keyPath(word) || strings.HasSuffix(string(known), "."+word) {
			return known
		}
	}
	return ""
}

func isTable(value any) bool {
	switch value.(type) {
	case map[string]any, []map[string]any:
		return true
	}
	return false
}

// allKeys lists every key below a struct, sorted, without those of tables keyed by name.
func allKeys(t reflect.Type, at keyPath) []keyPath {
	var keys []keyPath
	fields := fieldsOf(t)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		f := t.FieldByIndex(fields[key]).Type
		keys = append(keys, at.key(key))
		if f.Kind() == reflect.Slice {
			f = f.Elem()
		}
		if f.Kind() == reflect.Struct {
			keys = append(keys, allKeys(f, at.key(key))...)
		}
	}
	return keys
}

// nearest returns the most similar word within typing-error distance: about one edit per three letters.
func nearest(word string, among []string) (string, bool) {
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	best, least := "", max(1, (len(word)+1)/3)+1
	for _, candidate := range among {
		if d := edits(word, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best, best != ""
}

// edits is the edit distance of two words: insertions, deletions, replacements and swaps of neighbours.
func edits(a, b string) int {
	if len(a) > 2*len(b)+2 {
		return len(a) // too different; a hostile long key would make the comparison slow
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, now := rows[0], rows[1], rows[2]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		rows = [3][]int{last, now, before}
	}
	return rows[1][len(b)]
}

// fieldsOf returns a struct's fields by TOML key, including those of embedded structs.
func fieldsOf(t reflect.Type) map[string][]int {
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if key, ok := f.Tag.Lookup("toml"); ok && key != "-" {
			key, _, _ = strings.Cut(key, ",")
			fields[key] = f.Index
		}
	}
	return fields
}
