package config

import (
	"strings"
	"testing"
)

func TestAddProject(t *testing.T) {
	for name, c := range map[string]struct{ text, dir, tail string }{
		"nothing yet":       {"", "/p/shop", "[[project]]\n"},
		"after other rows":  {"# mine\n[human]\nname = \"Jo\"\n\n[[project]]\npath = \"/p/a\"\n[project.mode]\nralph = \"act\"\n", "/p/shop", "\n[[project]]\n"},
		"no newline at end": {"[human]\nname = \"Jo\" # me", "/p/shop", "\n\n[[project]]\n"},
		"CRLF":              {"[human]\r\nname = \"Jo\"\r\n", "/p/shop", "\n[[project]]\n"},
		"hostile name":      {"", "/p/a \"b\" \\ {{x}} ü\t", "[[project]]\n"},
	} {
		got, err := AddProject("x", []byte(c.text), c.dir, "/home/j")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasPrefix(string(got), c.text) || !strings.Contains(string(got[len(c.text):]), c.tail) {
			t.Errorf("%s: what was there is not kept as it was:\n%s", name, got)
		}
		cfg, err := Parse("x", got)
		if err != nil || cfg.Projects[len(cfg.Projects)-1].Path != c.dir {
			t.Errorf("%s: %v %+v", name, err, cfg.Projects)
		}
		again, err := AddProject("x", got, c.dir, "/home/j")
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: it is listed twice (%v)", name, err)
		}
	}
	if got, err := AddProject("x", []byte("[[project]]\npath = \"~/shop\"\n"), "/home/j/shop", "/home/j"); err != nil || strings.Count(string(got), "[[project]]") != 1 {
		t.Errorf("~/shop is /home/j/shop: %s (%v)", got, err)
	}
	if _, err := AddProject("x", []byte("nonsense = 1\n"), "/p", "/home/j"); err == nil {
		t.Error("a file that is refused was written to")
	}
}
