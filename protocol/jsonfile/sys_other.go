//go:build !linux

package jsonfile

import (
	"errors"
	"os"
)

// nameless: this system has no nameless files.
func (d folder) nameless() (*os.File, error) { return nil, errors.ErrUnsupported }

func (d folder) give(*os.File, string) error { return errors.ErrUnsupported }

// reserve: this system has no reservation that leaves the size alone.
func reserve(*os.File, int64, int) error { return nil }

func (d folder) each(take func(name []byte)) error {
	names, err := d.f.Readdirnames(-1)
	if err != nil {
		return err
	}
	var buf []byte
	for _, name := range names {
		buf = append(buf[:0], name...)
		take(buf)
	}
	return nil
}
