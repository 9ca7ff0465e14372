//go:build !linux

package jsonfile

import (
	"errors"
	"os"
)

// nameless: no file goes without a name here.
func (d folder) nameless() (*os.File, error) { return nil, errors.ErrUnsupported }

func (d folder) give(*os.File, string) error { return errors.ErrUnsupported }
