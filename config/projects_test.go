package config

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestProjectList(t *testing.T) {
	home, cwd := abs("/home/ann"), abs("/srv/work")
	for _, c := range []struct {
		name string
		rows []Project
		want []string // name=path
	}{
		{"none", nil, nil},
		{"home", []Project{{Path: "~"}, {Path: "~/a/../b/"}}, []string{"ann=/home/ann", "b=/home/ann/b"}},
		{"relative", []Project{{Path: "."}, {Path: "sub/x"}, {Path: "../other"}}, []string{"work=/srv/work", "x=/srv/work/sub/x", "other=/srv/other"}},
		{"absolute", []Project{{Path: abs("/x/y")}, {Path: abs("/x/y") + "/../z/."}}, []string{"y=/x/y", "z=/x/z"}},
		{"same folder names", []Project{{Path: "a/x"}, {Path: "b/x"}, {Path: "c/x"}}, []string{"x=/srv/work/a/x", "x-2=/srv/work/b/x", "x-3=/srv/work/c/x"}},
		{"a name that another row claims", []Project{{Path: "a/x"}, {Path: "b/y", Name: "x"}, {Path: "c/x-2"}},
			[]string{"x-2=/srv/work/a/x", "x=/srv/work/b/y", "x-2-2=/srv/work/c/x-2"}},
		{"odd folder names", []Project{{Path: "a:b"}, {Path: "/"}}, []string{"a-b=/srv/work/a:b", "project=/"}},
	} {
		list, err := Config{Projects: c.rows}.ProjectList(home, cwd)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, p := range list {
			got = append(got, p.Name+"="+strings.TrimPrefix(filepath.ToSlash(p.Path), filepath.VolumeName(p.Path)))
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// abs makes a slash path absolute, also on systems with drive letters.
func abs(path string) string {
	p, err := filepath.Abs(filepath.FromSlash(path))
	if err != nil {
		panic(err)
	}
	return p
}

func TestProjectListRefuses(t *testing.T) {
	for want, rows := range map[string][]Project{
		"is named twice":                    {{Path: "~/x"}, {Path: abs("/home/ann/x")}},
		"write the path out":                {{Path: "~bob/x"}},
		"needs the path of its folder":      {{Name: "x"}},
		`"x" is listed twice`:               {{Path: "a", Name: "x"}, {Path: "b", Name: "x"}},
		`"x/y" must be plain`:               {{Path: "a", Name: "x/y"}},
		`did you mean "agentstatus"?`:       {{Path: "a", Protocols: []string{"agent_status"}}},
		`"on" must be "observe", "ask" or`:  {{Path: "a", Mode: map[string]string{"agentstatus": "on"}}},
		`project.mode.mailbox: the project`: {{Path: "a", Protocols: []string{"ralph"}, Mode: map[string]string{"mailbox": "observe"}}},
	} {
		_, err := Config{Projects: rows}.ProjectList(abs("/home/ann"), abs("/srv"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "list the projects: ") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := (Config{Projects: []Project{{Path: "~/x"}}}).ProjectList("", abs("/srv")); err == nil {
		t.Error("a home that is not known was taken for a folder")
	}
}

func TestModes(t *testing.T) {
	list, err := Config{Projects: []Project{
		{Path: "a"},
		{Path: "b", Mode: map[string]string{"agentstatus": "observe"}},
	}}.ProjectList(abs("/home/ann"), abs("/srv"))
	if err != nil {
		t.Fatal(err)
	}
	if p := list[0]; !p.Acts("agentstatus") || p.Mode("agentstatus") != ModeAct {
		t.Error("agentstatus does not act unless told otherwise")
	}
	if p := list[1]; p.Acts("agentstatus") || p.Mode("agentstatus") != ModeObserve {
		t.Error("it acts where it was told to observe")
	}
	for name, acts := range map[string]bool{"handoffs": true, "envelope": true, "ralph": false, "mailbox": false, "morse": false} {
		if list[0].Acts(name) != acts {
			t.Errorf("%s acts unless told otherwise: %v, want %v", name, !acts, acts)
		}
	}
}
