package steward_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/livhana/steward"

// may is what a package imports directly: packages of ours, and modules of others.
type may struct{ ours, outside []string }

const (
	sysModule    = "golang.org/x/sys"
	jsonModule   = "github.com/go-json-experiment/json"
	metricModule = "github.com/prometheus/client_golang"
	everything   = "..."
)

// floors says who may import whom. A name that ends in /... stands for a folder and all below it.
var floors = map[string]may{
	"protocol":          {},
	"protocol/jsonfile": {outside: []string{sysModule, jsonModule}},
	"platform":          {outside: []string{sysModule}},
	"platform/proc":     {outside: []string{sysModule}},
	"platform/watch":    {outside: []string{"github.com/fsnotify/fsnotify"}},
	"platform/service":  {[]string{"platform"}, []string{"github.com/kardianos/service", "howett.net/plist", "github.com/coreos/go-systemd/v22", "github.com/godbus/dbus/v5"}}, // D-Bus: transient services
	"platform/child":    {outside: []string{sysModule}},
	"platform/text":     {},
	"platform/desktop":  {[]string{"platform/child", "platform/text"}, []string{"github.com/godbus/dbus/v5", sysModule}}, // x/sys: locks
	"platform/push":     {ours: []string{"platform/child", "platform/text"}},
	"platform/confine":  {outside: []string{"github.com/landlock-lsm/go-landlock"}},

	"protocol/agentstatus":     {ours: []string{"protocol", "protocol/jsonfile", "protocol/folder"}},
	"protocol/folder":          {ours: []string{"protocol", "protocol/jsonfile"}},
	"protocol/handoffs":        {ours: []string{"protocol", "protocol/jsonfile", "protocol/folder"}},
	"protocol/envelope":        {ours: []string{"protocol", "protocol/jsonfile", "protocol/folder", "protocol/envelope/deploy"}},
	"protocol/envelope/deploy": {ours: []string{"protocol/jsonfile", "protocol/folder"}},
	"protocol/ralph":           {ours: []string{"protocol", "protocol/jsonfile", "protocol/folder", "platform/proc"}},
	"protocol/mailbox":         {ours: []string{"protocol", "protocol/jsonfile", "protocol/folder", "platform/proc"}},
	"protocol/protocoltest":    {ours: []string{"protocol", "protocol/jsonfile"}},
	"heartbeat":                {ours: []string{"protocol"}},
	"capacity":                 {ours: []string{"protocol"}},
	"capacity/measure":         {[]string{"capacity", "platform/proc"}, []string{"github.com/shirou/gopsutil/v4", sysModule}},
	"escalate/rules":           {ours: []string{"protocol"}},
	"escalate":                 {ours: []string{"protocol", "protocol/jsonfile", "escalate/rules", "status/words"}},

	"supervisor/decide": {ours: []string{"protocol", "capacity", "heartbeat", "escalate/rules"}},
	"supervisor":        {[]string{"protocol", "protocol/jsonfile", "capacity", "heartbeat", "escalate", "escalate/rules", "supervisor/decide", "status/words"}, []string{metricModule}},

	".":               {},
	"config":          {[]string{".", "capacity", "heartbeat", "escalate", "escalate/rules", "supervisor/decide"}, []string{"github.com/BurntSushi/toml"}},
	"status":          {[]string{"supervisor", "supervisor/decide", "escalate", "escalate/rules", "platform", "protocol", "status/words"}, []string{metricModule + "/prometheus/promhttp"}},
	"status/words":    {ours: []string{"protocol", "escalate/rules"}},
	"status/terminal": {[]string{"protocol"}, []string{sysModule}},
	"status/console":  {[]string{"platform", "protocol", "status/terminal", "status/views"}, nil},
	"status/views":    {[]string{"capacity", "escalate", "escalate/rules", "protocol", "status", "status/terminal", "status/words", "supervisor"}, nil},
	"join/...":        {[]string{"protocol", "protocol/jsonfile", "protocol/agentstatus", "platform/...", "status", "status/terminal", "join/run", "join/task"}, []string{"github.com/modelcontextprotocol/go-sdk", sysModule}},

	"join/role": {[]string{"protocol", "join/worker", "status/terminal"}, nil},
	"join/exec": {[]string{"protocol", "protocol/agentstatus", "platform/proc", "join/keep", "join/run", "status/terminal"}, []string{sysModule}},

	// The registry and its handler are wiring; x/sys gives the width of the terminal.
	"cmd/steward":         {[]string{everything}, []string{"github.com/spf13/cobra", metricModule, sysModule}},
	"cmd/steward/cli":     {[]string{everything}, []string{"github.com/spf13/cobra"}},
	"cmd/steward/gate":    {[]string{everything}, nil},
	"cmd/steward/tasks":   {[]string{everything}, []string{"github.com/spf13/cobra"}},
	"cmd/steward/locks":   {[]string{everything}, []string{"github.com/spf13/cobra", sysModule}},
	"cmd/steward/service": {[]string{everything}, []string{"github.com/spf13/cobra"}},
	"cmd/steward/demo":    {[]string{everything}, []string{"github.com/spf13/cobra"}},
	"cmd/steward/holds":   {[]string{everything}, []string{"github.com/spf13/cobra"}},
	"cmd/steward/daemon":  {[]string{everything}, []string{metricModule, sysModule}},
	"cmd/steward/doctor":  {[]string{everything}, []string{sysModule}},
	// What packages are made with: programs of their own.
	"packaging/...": {[]string{everything}, []string{everything}},
	"bench/...":     {[]string{everything}, []string{everything}},
}

// forTests are weighed for tests alone; what programs use may be used by tests too.
var forTests = []string{"github.com/rogpeppe/go-internal", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/santhosh-tekuri/jsonschema/v6"}

// source is one file of the repository.
type source struct {
	path string // with slashes, from the root
	text []byte
	tree *ast.File // nil if it is not Go
	set  *token.FileSet
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") || s.in("test") }
func (s *source) dir() string  { return path.Dir(s.path) }
func (s *source) in(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(s.path, d+"/") })
}

// says makes the sentence: the file, with its line if there is one, then the rule.
func (s *source) says(n ast.Node, format string, args ...any) string {
	at := s.path
	if n != nil {
		at += ":" + strconv.Itoa(s.set.Position(n.Pos()).Line)
	}
	return at + ": " + fmt.Sprintf(format, args...)
}

// rules each give a sentence for everything in a file that breaks them.
var rules = []func(*source) []string{
	formatted, short, secrets, unfinished, importsFitTheFloor, pureStaysPure, noSentences, metricsInOnePlace,
	oneClock, noInit, noGlobalCollectors, oneDoor, plainNames, plainComments,
}

func TestHouse(t *testing.T) {
	n := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || name == "dist" {
				return fs.SkipDir
			}
			if slices.Contains([]string{"internal", "pkg", "util", "utils", "types", "common", "helpers"}, d.Name()) {
				t.Errorf("%s: a folder is named after what is in it (house style, names)", name)
			}
			return nil
		}
		if !d.Type().IsRegular() || name == ".git" { // in a linked work tree .git is a file
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			return err // no text: what was built, and files for tests
		}
		s, err := parse(filepath.ToSlash(name), text)
		if err != nil {
			return err
		}
		if n++; s != nil {
			for _, rule := range rules {
				for _, sentence := range rule(s) {
					t.Error(sentence)
				}
			}
		}
		return nil
	})
	if err != nil || n < 50 {
		t.Fatalf("walk the repository: %v, %d files", err, n)
	}
}

// parse gives nil for a file that is never built.
func parse(name string, text []byte) (*source, error) {
	s := &source{path: name, text: text, set: token.NewFileSet()}
	if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") {
		return s, nil
	}
	if bytes.HasPrefix(text, []byte("//go:build never\n")) {
		return nil, nil
	}
	tree, err := parser.ParseFile(s.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	s.tree = tree
	return s, err
}

func formatted(s *source) []string {
	if s.tree == nil {
		return nil
	}
	if want, err := format.Source(s.text); err != nil || !bytes.Equal(want, s.text) {
		return []string{s.says(nil, "is not as gofmt would write it")}
	}
	return nil
}

func short(s *source) []string {
	limit := 400
	if s.isTest() {
		limit = 600
	}
	if n := bytes.Count(s.text, []byte("\n")); s.tree != nil && n > limit {
		return []string{s.says(nil, "has %d lines; %d at most (house style, size)", n, limit)}
	}
	return nil
}

// secrets of where and how this was written do not belong into it. The words are in pieces because this file is
// searched too.
func secrets(s *source) []string {
	var all []string
	for _, word := range []string{"/wo" + "rk/main", "shared" + "/design"} {
		if bytes.Contains(s.text, []byte(word)) {
			all = append(all, s.says(nil, "names %s, a place on one machine", word))
		}
	}
	return all
}

var unfinishedWord = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)

func unfinished(s *source) []string {
	if word := unfinishedWord.Find(s.text); word != nil && !strings.Contains(s.path, "testdata/") {
		return []string{s.says(nil, "holds a %s; finish it or leave it out", word)}
	}
	return nil
}

func imports(s *source) map[string]*ast.ImportSpec {
	all := map[string]*ast.ImportSpec{}
	if s.tree != nil {
		for _, i := range s.tree.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			all[name] = i
		}
	}
	return all
}

// importsFitTheFloor is law 7. Tests may import all of ours and every library that was weighed.
func importsFitTheFloor(s *source) []string {
	if s.tree == nil {
		return nil
	}
	allowed, ok := floorOf(s.dir())
	if !ok && !s.isTest() {
		return []string{s.says(nil, "the package %s has no floor (law 7: the table in house_test.go)", s.dir())}
	}
	if s.isTest() {
		allowed = may{[]string{everything}, slices.Clone(forTests)}
		for _, floor := range floors {
			allowed.outside = append(allowed.outside, floor.outside...)
		}
		allowed.outside = slices.DeleteFunc(allowed.outside, func(m string) bool { return m == everything })
	}
	var all []string
	for name, spec := range imports(s) {
		if ours, ok := strings.CutPrefix(name, module); ok {
			ours = cmp.Or(strings.TrimPrefix(ours, "/"), ".")
			if !slices.ContainsFunc(allowed.ours, func(pattern string) bool { return within(ours, pattern) }) {
				all = append(all, s.says(spec, "%s must not import %s (law 7, floors)", s.dir(), ours))
			}
			continue
		}
		isLibrary := strings.Contains(strings.Split(name, "/")[0], ".")
		if isLibrary && !slices.ContainsFunc(allowed.outside, func(m string) bool { return within(name, m+"/...") || m == everything }) {
			all = append(all, s.says(spec, "%s must not use the library %s (law 7, floors)", s.dir(), name))
		}
	}
	return all
}

// floorOf prefers the row of the package itself to that of a folder above it.
func floorOf(dir string) (may, bool) {
	if floor, ok := floors[dir]; ok {
		return floor, true
	}
	for pattern, floor := range floors {
		if within(dir, pattern) {
			return floor, true
		}
	}
	return may{}, false
}

// within matches "a/b" with "a/b", "a/b/...", "a/..." and "...".
func within(name, pattern string) bool {
	folder, open := strings.CutSuffix(pattern, "/...")
	return pattern == everything || name == folder || open && strings.HasPrefix(name, folder+"/")
}

// pureStaysPure keeps policies functions of facts: no machine, no log, no second goroutine. escalate/rules compiles its
// patterns when they are first used, because every command would wait for it.
func pureStaysPure(s *source) []string {
	if !s.isPolicy() {
		return nil
	}
	var all []string
	for name, spec := range imports(s) {
		if name == "sync" && s.path == "escalate/rules/pattern.go" {
			continue
		}
		if slices.Contains([]string{"os", "os/exec", "io", "io/fs", "net", "net/http", "log", "log/slog", "context", "sync", "sync/atomic", "unsafe"}, name) {
			all = append(all, s.says(spec, "a policy must not import %s (house style, policies)", name))
		}
	}
	return all
}

// isPolicy reports whether the file is product code of a policy.
func (s *source) isPolicy() bool {
	return s.tree != nil && !s.isTest() && slices.Contains([]string{"heartbeat", "capacity", "escalate/rules", "supervisor/decide"}, s.dir())
}

// sentence matches three words in a row: status/words has the sentences of what is decided.
var sentence = regexp.MustCompile(`[A-Za-z]+,? [A-Za-z]+,? [A-Za-z]+`)

func noSentences(s *source) []string {
	if !s.isPolicy() || s.dir() != "supervisor/decide" { // the others say what is wrong with their settings
		return nil
	}
	var all []string
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && f.Tag != nil {
			return false
		}
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && sentence.MatchString(text.Value) {
			all = append(all, s.says(n, "a decision must hold no sentence: %s (house style, policies)", text.Value))
		}
		return true
	})
	return all
}

// dialect are words that comments and messages do without: name the agent, the task or the person.
var dialect = regexp.MustCompile(`(?i)\b(whoever|somebody|nobody|anew|for ever|is none|lies over|is to be|not to be had|betimes)\b`)

// plainComments keeps the comments and messages of product code in plain English.
func plainComments(s *source) []string {
	if s.tree == nil || s.isTest() || s.in("bench", "test", "packaging") {
		return nil
	}
	var all []string
	for _, group := range s.tree.Comments {
		if word := dialect.FindString(group.Text()); word != "" {
			all = append(all, s.says(group, "a comment says %q (house style, language)", word))
		}
	}
	ast.Inspect(s.tree, func(n ast.Node) bool {
		text, ok := n.(*ast.BasicLit)
		if ok && text.Kind == token.STRING && strings.Contains(text.Value, " ") && dialect.MatchString(text.Value) {
			all = append(all, s.says(n, "a message says %q (house style, language)", dialect.FindString(text.Value)))
		}
		return true
	})
	return all
}

func metricsInOnePlace(s *source) []string {
	if s.isTest() || s.dir() != "supervisor" || s.path == "supervisor/metrics.go" {
		return nil
	}
	var all []string
	for name, spec := range imports(s) {
		if within(name, metricModule+"/...") {
			all = append(all, s.says(spec, "only supervisor/metrics.go uses %s (law 7, floors)", metricModule))
		}
	}
	return all
}

// uses lists where a node takes one of the names from a package that the file imports.
func uses(s *source, n ast.Node, library string, names ...string) []*ast.SelectorExpr {
	spec, ok := imports(s)[library]
	if !ok {
		return nil
	}
	local := path.Base(library)
	if spec.Name != nil {
		local = spec.Name.Name
	}
	var found []*ast.SelectorExpr
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && (len(names) == 0 || slices.Contains(names, sel.Sel.Name)) {
				found = append(found, sel)
			}
		}
		return true
	})
	return found
}

// oneClock is law 5. Since and Until read the clock as Now does.
func oneClock(s *source) []string {
	if s.tree == nil || s.isTest() || s.path == "supervisor/supervisor.go" || s.in("cmd", "capacity/measure", "platform", "bench") {
		return nil
	}
	var all []string
	for _, sel := range uses(s, s.tree, "time", "Now", "Since", "Until") {
		all = append(all, s.says(sel, "time.%s: the time comes in as an argument (law 5, one clock)", sel.Sel.Name))
	}
	return all
}

func noInit(s *source) []string {
	var all []string
	for _, d := range declarations(s) {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			all = append(all, s.says(f, "func init: wiring stands in cmd/steward/daemon/daemon.go (house style, wiring)"))
		}
	}
	return all
}

func declarations(s *source) []ast.Decl {
	if s.tree == nil {
		return nil
	}
	return s.tree.Decls
}

func noGlobalCollectors(s *source) []string {
	var all []string
	for _, d := range declarations(s) {
		if g, ok := d.(*ast.GenDecl); !ok || g.Tok != token.VAR {
			continue
		}
		for _, p := range []string{"/prometheus", "/prometheus/promauto"} {
			for _, sel := range uses(s, d, metricModule+p) {
				all = append(all, s.says(sel, "a collector of the whole package (house style, metrics: newMetrics makes them)"))
			}
		}
	}
	return all
}

// oneDoor keeps adapters from changing files past jsonfile, which compares, syncs and stays in the project.
func oneDoor(s *source) []string {
	if s.isTest() || !s.in("protocol") || s.in("protocol/jsonfile", "protocol/protocoltest") {
		return nil
	}
	var all []string
	for _, sel := range uses(s, s.tree, "os", "WriteFile", "Create", "CreateTemp", "OpenFile", "Rename", "Remove", "RemoveAll",
		"Mkdir", "MkdirAll", "MkdirTemp", "Link", "Symlink", "Chmod", "Chown", "Chtimes", "Truncate", "OpenRoot") {
		all = append(all, s.says(sel, "os.%s: project files are changed through protocol/jsonfile alone (house style, I/O)", sel.Sel.Name))
	}
	return all
}

var emptyWord = regexp.MustCompile(`(Manager|Handler|Processor|Helpers?|Utils?|Info)$`)

func plainNames(s *source) []string {
	var all []string
	for _, d := range declarations(s) {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE || s.isTest() {
			continue
		}
		for _, spec := range g.Specs {
			if name := spec.(*ast.TypeSpec).Name.Name; emptyWord.MatchString(name) {
				all = append(all, s.says(spec, "the type %s is named after nothing (house style, names)", name))
			}
		}
	}
	return all
}

// Every rule must be able to fail, or it holds nothing.
func TestHouseRulesCanFail(t *testing.T) {
	const clean = "package x\n"
	long := func(n int) string { return clean + strings.Repeat("\n// x\n", n/2) }
	for _, c := range []struct{ path, text, want string }{
		{"heartbeat/x.go", clean, ""},
		{"heartbeat/x.go", "package  x\n", "heartbeat/x.go: is not as gofmt would write it"},
		{"heartbeat/x.go", long(402), "heartbeat/x.go: has 403 lines; 400 at most (house style, size)"},
		{"heartbeat/x_test.go", long(402), ""},
		{"heartbeat/x.go", "package x\n\n// whoever asks\n", `heartbeat/x.go:3: a comment says "whoever" (house style, language)`},
		{"heartbeat/x_test.go", long(602), "heartbeat/x_test.go: has 603 lines; 600 at most (house style, size)"},
		{"docs/x.md", "see /wo" + "rk/main/x", "docs/x.md: names /wo" + "rk/main, a place on one machine"},
		{"docs/x.md", "TO" + "DO: write", "docs/x.md: holds a TO" + "DO; finish it or leave it out"},
		{"mailer/x.go", clean, "mailer/x.go: the package mailer has no floor (law 7: the table in house_test.go)"},
		{"heartbeat/x.go", "package x\n\nimport _ \"github.com/livhana/steward/capacity\"\n", "heartbeat/x.go:3: heartbeat must not import capacity (law 7, floors)"},
		{"heartbeat/x.go", "package x\n\nimport _ \"github.com/livhana/steward\"\n", "heartbeat/x.go:3: heartbeat must not import . (law 7, floors)"},
		{"join/task/x.go", "package x\n\nimport _ \"github.com/livhana/steward/platform/proc\"\n", ""},
		{"join/task/x.go", "package x\n\nimport _ \"github.com/livhana/steward/escalate\"\n", "join/task/x.go:3: join/task must not import escalate (law 7, floors)"},
		{"supervisor/x.go", "package x\n\nimport _ \"github.com/livhana/steward/protocol/agentstatus\"\n", "supervisor/x.go:3: supervisor must not import protocol/agentstatus (law 7, floors)"},
		{"protocol/x.go", "package x\n\nimport _ \"golang.org/x/sys/unix\"\n", "protocol/x.go:3: protocol must not use the library golang.org/x/sys/unix (law 7, floors)"},
		{"heartbeat/x_test.go", "package x\n\nimport _ \"github.com/spf13/viper\"\n", "heartbeat/x_test.go:3: heartbeat must not use the library github.com/spf13/viper (law 7, floors)"},
		{"supervisor/x.go", "package x\n\nimport _ \"github.com/prometheus/client_golang/prometheus\"\n", "supervisor/x.go:3: only supervisor/metrics.go uses github.com/prometheus/client_golang (law 7, floors)"},
		{"supervisor/metrics.go", "package x\n\nimport p \"github.com/prometheus/client_golang/prometheus\"\n\nvar n = p.NewGauge(p.GaugeOpts{})\n",
			"supervisor/metrics.go:5: a collector of the whole package (house style, metrics: newMetrics makes them)"},
		{"supervisor/decide/x.go", "package x\n\nimport _ \"context\"\n", "supervisor/decide/x.go:3: a policy must not import context (house style, policies)"},
		{"supervisor/decide/x.go", "package x\n\nvar why = \"its agent is gone\"\n",
			`supervisor/decide/x.go:3: a decision must hold no sentence: "its agent is gone" (house style, policies)`},
		{"capacity/x.go", "package x\n\nimport _ \"sync\"\n", "capacity/x.go:3: a policy must not import sync (house style, policies)"},
		{"escalate/x.go", "package x\n\nimport \"time\"\n\nvar now = time.Now\n", "escalate/x.go:5: time.Now: the time comes in as an argument (law 5, one clock)"},
		{"escalate/x.go", "package x\n\nimport clock \"time\"\n\nvar now = clock.Since\n", "escalate/x.go:5: time.Since: the time comes in as an argument (law 5, one clock)"},
		{"supervisor/supervisor.go", "package x\n\nimport \"time\"\n\nvar now = time.Now\n", ""},
		{"escalate/x.go", "package x\n\nfunc init() {}\n", "escalate/x.go:3: func init: wiring stands in cmd/steward/daemon/daemon.go (house style, wiring)"},
		{"protocol/ralph/x.go", "package x\n\nimport \"os\"\n\nvar w = os.WriteFile\n",
			"protocol/ralph/x.go:5: os.WriteFile: project files are changed through protocol/jsonfile alone (house style, I/O)"},
		{"escalate/x.go", "package x\n\ntype LedgerManager struct{}\n", "escalate/x.go:3: the type LedgerManager is named after nothing (house style, names)"},
	} {
		s, err := parse(c.path, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, rule := range rules {
			got = append(got, rule(s)...)
		}
		if len(got) == 0 {
			got = []string{""}
		}
		if !slices.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.path, got, c.want)
		}
	}
}

var requirement = regexp.MustCompile(`(?m)^(?:require )?\t?(\S+\.\S+/\S+) v\S+$`)

// What go.mod asks for directly was weighed; what others bring along is marked as indirect.
func TestOnlyWeighedLibraries(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	weighed := slices.Clone(forTests)
	for _, floor := range floors {
		weighed = append(weighed, floor.outside...)
	}
	found := requirement.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatal("go.mod requires nothing, or is written otherwise")
	}
	for _, m := range found {
		if !slices.Contains(weighed, string(m[1])) {
			t.Errorf("go.mod: %s was not weighed (the table in house_test.go)", m[1])
		}
	}
}
