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

// The limits to the size of types and folders. What was larger when they were set is listed with its size; it may shrink,
// not grow.
const (
	mostMethods = 30
	mostFields  = 20
	mostFiles   = 25

	samePackages = 2 // packages that may have an unexported type of the same name
)

var largerTypes = map[string]int{}

var largerStructs = map[string]int{}

var commonTypes = []string{}

var largerFolders = map[string]int{}

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
	hold(t, "methods", methods, mostMethods, largerTypes)
	hold(t, "fields", fields, mostFields, largerStructs)
	hold(t, "files", files, mostFiles, largerFolders)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		switch n := len(named[name]); {
		case n > samePackages && !slices.Contains(commonTypes, name):
			t.Errorf("%d packages have a type %s, of which a reader can tell at most %d apart: %v", n, name, samePackages, slices.Sorted(maps.Keys(named[name])))
		case n <= samePackages && slices.Contains(commonTypes, name):
			t.Errorf("%d packages have a type %s, which is within the limit: take it off the list", n, name)
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

// hold compares what was counted with the limit, or with the size on the list.
func hold(t *testing.T, what string, counted map[string]int, limit int, larger map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		n, most := counted[name], max(limit, larger[name])
		if n > most {
			t.Errorf("%s has %d %s; at most %d", name, n, what, most)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(larger)) {
		if n := counted[name]; n <= limit {
			t.Errorf("%s has %d %s, which is within the limit: take it off the list", name, n, what)
		}
	}
}
