//go:build !linux

package jsonfile

import (
	"errors"
	"os"
)

// nameless: this system has no nameless files.
func (d folder) nameless() (*os.File, error) { return nil, errors.ErrUnsupported }

func (d folder) give(*os.File, string) error { return errors.ErrUnsupported }
