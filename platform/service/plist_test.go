package service

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"howett.net/plist"
)

// documented lists the keys of launchd.plist(5) that are used here, with their types as in the manual page.
var documented = map[string]reflect.Kind{
	"Label": reflect.String, "ProgramArguments": reflect.Slice, "RunAtLoad": reflect.Bool, "KeepAlive": reflect.Map,
	"ThrottleInterval": reflect.Uint64, "ExitTimeOut": reflect.Uint64, "AbandonProcessGroup": reflect.Bool,
	"ProcessType": reflect.String, "SoftResourceLimits": reflect.Map, "HardResourceLimits": reflect.Map,
	"Umask": reflect.Uint64, "WorkingDirectory": reflect.String, "StandardOutPath": reflect.String,
	"StandardErrorPath": reflect.String, "EnvironmentVariables": reflect.Map, "LimitLoadToSessionType": reflect.String,
	"UserName": reflect.String,
	// Keys inside dictionaries. The keys of EnvironmentVariables are arbitrary.
	"KeepAlive.SuccessfulExit": reflect.Bool, "SoftResourceLimits.NumberOfFiles": reflect.Uint64,
	"HardResourceLimits.NumberOfFiles": reflect.Uint64,
}

// undocumented returns the keys of a parsed plist that the manual page lacks, or has with another type.
func undocumented(d map[string]any, prefix string) (bad []string) {
	for key, value := range d {
		name, kind := prefix+key, reflect.ValueOf(value).Kind()
		if want, ok := documented[name]; !ok || kind != want {
			bad = append(bad, fmt.Sprintf("%s (%s)", name, kind))
		}
		switch inner := value.(type) {
		case map[string]any:
			if key == "EnvironmentVariables" {
				continue
			}
			bad = append(bad, undocumented(inner, name+".")...)
		}
	}
	return bad
}

func specFor(home string) Spec {
	return Spec{Binary: home + "/bin/steward", User: "jesse", UID: 501, Home: home, LogDir: home + "/Library/Logs/steward"}
}

func parsePlist(t *testing.T, text string) map[string]any {
	t.Helper()
	var d map[string]any
	format, err := plist.Unmarshal([]byte(text), &d)
	if err != nil || format != plist.XMLFormat {
		t.Fatalf("parse: %v, format %d\n%s", err, format, text)
	}
	return d
}

func TestPlistHoldsDocumentedKeysOnly(t *testing.T) {
	for _, session := range []string{onDesktop, inBackground, ""} {
		text, err := renderPlist(specFor("/Users/jesse"), session, "abc")
		if err != nil {
			t.Fatal(err)
		}
		d := parsePlist(t, text)
		if bad := undocumented(d, ""); len(bad) > 0 {
			t.Errorf("session %q: not in launchd.plist(5), or of another type: %v", session, bad)
		}
		if _, agent := d["LimitLoadToSessionType"]; agent == (session == "") {
			t.Errorf("session %q: LimitLoadToSessionType is for agents, and for them alone", session)
		}
		if _, daemon := d["UserName"]; daemon != (session == "") {
			t.Errorf("session %q: UserName is for daemons, and for them alone", session)
		}
	}
	if bad := undocumented(map[string]any{"Label": true, "Nice": 3, "KeepAlive": map[string]any{"Crashed": true}}, ""); len(bad) != 3 {
		t.Errorf("the check itself lets something pass: %v", bad)
	}
}

func TestPlistSays(t *testing.T) {
	spec := specFor("/Users/jesse")
	spec.Args = []string{"--config", "/Users/jesse/my config.toml"}
	text, err := renderPlist(spec, onDesktop, "")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"Label":                  "com.livhana.steward",
		"ProgramArguments":       []any{"/Users/jesse/bin/steward", "run", "--service", "--config", "/Users/jesse/my config.toml"},
		"RunAtLoad":              true,
		"KeepAlive":              map[string]any{"SuccessfulExit": false},
		"ThrottleInterval":       uint64(10),
		"ExitTimeOut":            uint64(20),
		"AbandonProcessGroup":    true,
		"ProcessType":            "Background",
		"SoftResourceLimits":     map[string]any{"NumberOfFiles": uint64(10240)},
		"HardResourceLimits":     map[string]any{"NumberOfFiles": uint64(65536)},
		"Umask":                  uint64(63),
		"WorkingDirectory":       "/Users/jesse",
		"StandardOutPath":        "/Users/jesse/Library/Logs/steward/steward.log",
		"StandardErrorPath":      "/Users/jesse/Library/Logs/steward/steward.log",
		"EnvironmentVariables":   map[string]any{"PATH": "/Users/jesse/.local/bin:/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
		"LimitLoadToSessionType": "Aqua",
	}
	if got := parsePlist(t, text); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	text, err = renderPlist(spec, "", "")
	if err != nil {
		t.Fatal(err)
	}
	d := parsePlist(t, text)
	env := d["EnvironmentVariables"].(map[string]any)
	if d["UserName"] != "jesse" || env["HOME"] != "/Users/jesse" || env["USER"] != "jesse" || env["LOGNAME"] != "jesse" {
		t.Errorf("a daemon needs its account and home: %v %v", d["UserName"], env)
	}
}

func TestPlistKeepsHostilePaths(t *testing.T) {
	for _, home := range []string{
		"/Users/je sse & <co> \"q\" 'a' ]]>", "/Users/{{.Name}} %s $HOME `x`", "/Users/é 日本 \t tab\nline", "/Users/a:b", "/Users/&amp;&#x0;",
	} {
		spec := specFor(home)
		spec.Args = []string{"--config", home + "/<c>.toml"}
		text, err := renderPlist(spec, onDesktop, "")
		if err != nil {
			t.Errorf("%q: %v", home, err)
			continue
		}
		d := parsePlist(t, text)
		argv := []any{home + "/bin/steward", "run", "--service", "--config", home + "/<c>.toml"}
		if !reflect.DeepEqual(d["ProgramArguments"], argv) || d["WorkingDirectory"] != home {
			t.Errorf("%q came back as %q in %q", home, d["ProgramArguments"], d["WorkingDirectory"])
		}
		if got := plistProgram(text); got != spec.Binary {
			t.Errorf("plistProgram: %q, want %q", got, spec.Binary)
		}
		paths := strings.Split(d["EnvironmentVariables"].(map[string]any)["PATH"].(string), ":")
		if !slices.Contains(paths, "/opt/homebrew/bin") || slices.ContainsFunc(paths, func(p string) bool { return !strings.HasPrefix(p, "/") }) {
			t.Errorf("%q: PATH %q", home, paths)
		}
	}
}

func TestPlistIsRefused(t *testing.T) {
	for name, spec := range map[string]Spec{
		`cannot be written in XML`:   specFor("/Users/bell\a"),
		`cannot be written in XML; `: specFor("/Users/\xff"),
		`is not an absolute path`:    {Binary: "steward", Home: "/h", LogDir: "/l", User: "jesse"},
		`not an absolute path`:       {Binary: "/steward", Home: "/h", User: "jesse"},
		`name it with --user`:        {Binary: "/steward", Home: "/h", LogDir: "/l"},
	} {
		if text, err := renderPlist(spec, "", ""); err == nil || text != "" || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v and %d bytes", name, err, len(text))
		}
	}
}

func TestPlistProgramOfOthers(t *testing.T) {
	for text, want := range map[string]string{
		"":              "",
		"bplist00\x01":  "",
		"<plist><dict>": "",
		"<plist><dict><key>Program</key><string>/a</string></dict></plist>":                                                                               "",
		"<plist><dict><key>ProgramArguments</key><array><string>/a</string></array>":                                                                      "",
		"<plist><dict><key>Label</key><string>x</string><key>ProgramArguments</key><array><string>/a b</string><string>c</string></array></dict></plist>": "/a b",
	} {
		if got := plistProgram(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
