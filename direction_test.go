package steward_test

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostBack is the share of the arrows between the files of a package that may run back up, in percent. An arrow says that
// one file names what another one defines. Files stand in the order that makes most arrows run down.
const mostBack = 20

// directed are the packages that are held to it.
var directed = []string{
	"supervisor", "supervisor/decide", "heartbeat", "capacity", "capacity/measure", "escalate", "escalate/rules", "status", "config",
	"cmd/steward", "cmd/steward/daemon", "cmd/steward/doctor", "cmd/steward/locks", "cmd/steward/service", "cmd/steward/tasks",
	"join/exec", "join/keep", "join/lock", "join/run", "join/task", "join/worker",
	"protocol/jsonfile", "protocol/folder", "protocol/agentstatus", "protocol/handoffs", "protocol/ralph", "protocol/mailbox", "protocol/envelope",
}

var showDirection = flag.String("direction", "", "print the arrows of this package that run back up")

func TestDirection(t *testing.T) {
	for _, dir := range slices.Compact(slices.Sorted(slices.Values(append(directed, *showDirection)))) {
		if dir == "" {
			continue
		}
		arrows := fileArrows(t, dir)
		order := downward(arrows)
		all, back := 0, 0
		place := map[string]int{}
		for i, file := range order {
			place[file] = i
		}
		var lines []string
		for from, to := range arrows {
			for file, names := range to {
				if all++; place[file] < place[from] {
					back++
					lines = append(lines, from+" -> "+file+": "+strings.Join(slices.Sorted(maps.Keys(names)), " "))
				}
			}
		}
		share := 100 * back / max(all, 1)
		if dir == *showDirection {
			slices.Sort(lines)
			t.Logf("%s from the top: %s\nback up:\n%s", dir, strings.Join(order, " "), strings.Join(lines, "\n"))
		}
		t.Logf("%s: %d of %d arrows run back up, %d %%", dir, back, all, share)
		if share > mostBack && dir != *showDirection {
			t.Errorf("%s: %d %% of the arrows between its files run back up; at most %d %%", dir, share, mostBack)
		}
	}
}

// fileArrows returns for each file of a package the other files that define what it names, and those names.
func fileArrows(t *testing.T, dir string) map[string]map[string]map[string]bool {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var trees []*ast.File
	arrows := map[string]map[string]map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_darwin.go") || strings.HasSuffix(name, "_other.go") {
			continue
		}
		tree, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
		arrows[filepath.Base(name)] = map[string]map[string]bool{}
	}
	// Imported packages stay unknown, so the checker finds errors; it resolves what the package itself defines all the same.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Error: func(error) {}, Importer: noImports{}}
	pkg, _ := conf.Check(dir, set, trees, info)
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() || !shared(pkg, object) {
			continue
		}
		from, to := filepath.Base(set.Position(ident.Pos()).Filename), filepath.Base(set.Position(object.Pos()).Filename)
		if from == to {
			continue
		}
		if arrows[from][to] == nil {
			arrows[from][to] = map[string]bool{}
		}
		arrows[from][to][object.Name()] = true
	}
	return arrows
}

// shared reports whether an object is one of the package's own or a method: fields and parameters come with their types.
func shared(pkg *types.Package, object types.Object) bool {
	if f, ok := object.(*types.Func); ok {
		return f.Signature().Recv() != nil || object.Parent() == pkg.Scope()
	}
	return object.Parent() == pkg.Scope()
}

type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

// downward orders files so that few arrows run back up: each file moves to the place that is best for it until none can.
func downward(arrows map[string]map[string]map[string]bool) []string {
	order := slices.Sorted(maps.Keys(arrows))
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(len(arrows[b]), len(arrows[a])) })
	cost := func(above, below string) int { // of an arrow that runs from the lower file to the upper one
		if arrows[below][above] != nil {
			return 1
		}
		return 0
	}
	for moved := true; moved; {
		moved = false
		for i := range order {
			best, gain, sum := i, 0, 0
			for j := i - 1; j >= 0; j-- { // order[i] moves above order[j]
				sum += cost(order[j], order[i]) - cost(order[i], order[j])
				if sum > gain {
					best, gain = j, sum
				}
			}
			sum = 0
			for j := i + 1; j < len(order); j++ { // order[i] moves below order[j]
				sum += cost(order[i], order[j]) - cost(order[j], order[i])
				if sum > gain {
					best, gain = j, sum
				}
			}
			if gain > 0 {
				file := order[i]
				order = slices.Insert(slices.Delete(order, i, i+1), best, file)
				moved = true
			}
		}
	}
	return order
}
