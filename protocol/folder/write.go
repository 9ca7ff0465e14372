package folder

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Files reads and writes whole files of a Folder. Late writes of clients into replaced files are lost: see Edit.
type Files struct{ *Folder }

// Has reports whether the file exists and can be examined.
func (f Files) Has(file string) bool {
	_, err := f.Root.Stat(file)
	return err == nil
}

// Replace writes a file over content with the sum expect.
func (f Files) Replace(file string, data []byte, expect jsonfile.Sum, opts ...jsonfile.Option) error {
	late, err := f.Root.Replace(file, data, expect, opts...)
	_ = late.Close()
	return err
}

// Put writes a whole document, over any previous content.
func (f Files) Put(file string, v any, opts ...jsonfile.Option) error {
	data, err := jsonfile.Encode(v)
	if err != nil {
		return err
	}
	return f.Replace(file, data, jsonfile.Any, opts...)
}

// PutOnce writes a document unless the file exists: the first writer wins.
func (f Files) PutOnce(file string, v any) error {
	data, err := jsonfile.Encode(v)
	if err == nil {
		err = f.Root.Create(file, data, 0o644)
	}
	if errors.Is(err, jsonfile.ErrExist) {
		return nil
	}
	return err
}

// Update changes a file of at most max bytes as change says from its present content; nil changes nothing.
func (f Files) Update(file string, max int64, change func(old []byte) ([]byte, error), opts ...jsonfile.Option) error {
	late, err := f.Root.Update(file, max, change, opts...)
	_ = late.Close()
	return err
}

// End returns the last bytes of a file, at most max; nil if it cannot be read.
func (f Files) End(file string, max int64) []byte {
	st, err := f.Root.Stat(file)
	if err != nil {
		return nil
	}
	data, _, err := f.Root.ReadAt(file, st.Size-min(st.Size, max), max)
	if err != nil {
		return nil
	}
	return data
}

// SetFields sets fields of a message, by their paths with dots ("context.spec"), in the paths' order. Errors:
// *protocol.InvalidError that names the path.
func SetFields(doc []byte, fields map[string]any) ([]byte, error) {
	for _, at := range slices.Sorted(maps.Keys(fields)) {
		next, err := jsonfile.Edit(doc, jsonfile.Set{Path: strings.Split(at, "."), Value: fields[at]})
		if err != nil {
			return doc, Invalid([]string{"set " + Line(at, 80) + ": " + err.Error()})
		}
		doc = next
	}
	return doc, nil
}

// IgnoreMissing is err, or nil if it means that the file does not exist.
func IgnoreMissing(err error) error {
	if Missing(err) {
		return nil
	}
	return err
}
