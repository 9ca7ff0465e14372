package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// AddProject returns the text of a configuration file with one more [[project]] at its end; all earlier bytes stay as
// they are. If the folder is already listed, the text is unchanged. name is used in errors; home replaces ~.
func AddProject(name string, text []byte, dir, home string) ([]byte, error) {
	before, err := Parse(name, text)
	if err != nil {
		return nil, err
	}
	known, err := before.ProjectList(home, home)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(known, func(p ProjectRef) bool { return p.Path == dir }) {
		return text, nil
	}
	var row bytes.Buffer
	if err := toml.NewEncoder(&row).Encode(map[string]any{"project": []map[string]any{{"path": dir}}}); err != nil {
		return nil, fmt.Errorf("add %q: %w", dir, err)
	}
	grown := slices.Clone(text)
	if len(grown) > 0 && grown[len(grown)-1] != '\n' {
		grown = append(grown, '\n')
	}
	if len(grown) > 0 {
		grown = append(grown, '\n')
	}
	grown = append(grown, row.Bytes()...)
	after, err := Parse(name, grown)
	if err != nil || len(after.Projects) != len(before.Projects)+1 {
		return nil, fmt.Errorf("%s: a project cannot be added at its end; add it by hand", name)
	}
	return grown, nil
}

// TOML encodes the configuration; Parse restores it unchanged.
func (c Config) TOML() ([]byte, error) {
	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	enc.Indent = ""
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return withoutBlanks(b.String()), nil
}

// withoutBlanks drops empty values from rows and from tables keyed by name, where an absent key means the same. In
// other tables a zero is a value that overrides a default.
func withoutBlanks(text string) []byte {
	var b bytes.Buffer
	optional := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "[") {
			optional = strings.HasPrefix(line, "[[") || strings.HasPrefix(line, "[heartbeat.protocols.") ||
				strings.HasPrefix(line, "[heartbeat.agents.")
		}
		_, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch value {
		case `""`, `"0s"`, "0", "0.0":
			if optional {
				continue
			}
		}
		b.WriteString(line)
	}
	return b.Bytes()
}
