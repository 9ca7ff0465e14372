package steward_test

import (
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The limits to the size of types, functions and folders.
const (
	mostMethods = 30
	mostFields  = 20
	mostFiles   = 25
	mostLines   = 60 // of a function: one screen

	samePackages = 2 // packages that may have an unexported type of the same name
)

// variants are the ends of the names of files that one platform builds.
var variants = []string{"_linux.go", "_darwin.go", "_unix.go", "_other.go", "_stub.go"}

// TestShape holds the limits for product code.
func TestShape(t *testing.T) {
	methods, fields, files := map[string]int{}, map[string]int{}, map[string]int{}
	named := map[string]map[string]bool{} // unexported type names, with the packages that have them
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.Contains(name, "testdata/") || strings.HasPrefix(name, "bench/") || strings.HasPrefix(name, "test/") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(name, text)
		if err != nil || s == nil {
			return err
		}
		dir := path.Dir(name)
		if !slices.ContainsFunc(variants, func(end string) bool { return strings.HasSuffix(name, end) }) {
			files[dir]++
		}
		for _, d := range s.tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if lines := s.set.Position(d.End()).Line - s.set.Position(d.Pos()).Line + 1; lines > mostLines {
					t.Errorf("%s: %s has %d lines; at most %d", name, d.Name.Name, lines, mostLines)
				}
				if d.Recv != nil {
					methods[dir+"."+receiver(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if of, ok := spec.(*ast.TypeSpec); ok {
						if !of.Name.IsExported() {
							if named[of.Name.Name] == nil {
								named[of.Name.Name] = map[string]bool{}
							}
							named[of.Name.Name][dir] = true
						}
						if st, ok := of.Type.(*ast.StructType); ok {
							fields[dir+"."+of.Name.Name] = st.Fields.NumFields()
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	hold(t, "methods", methods, mostMethods)
	hold(t, "fields", fields, mostFields)
	hold(t, "files", files, mostFiles)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if n := len(named[name]); n > samePackages {
			t.Errorf("%d packages have a type %s, of which a reader can tell at most %d apart: %v", n, name, samePackages, slices.Sorted(maps.Keys(named[name])))
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// hold compares what was counted with the limit.
func hold(t *testing.T, what string, counted map[string]int, limit int) {
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		if n := counted[name]; n > limit {
			t.Errorf("%s has %d %s; at most %d", name, n, what, limit)
		}
	}
}
