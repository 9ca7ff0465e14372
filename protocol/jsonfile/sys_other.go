//go:build !linux && !darwin

package jsonfile

import "errors"

func (d folder) renameNew(old string, to folder, name string) error { return errors.ErrUnsupported }

func (d folder) exchange(a, b string) error { return errors.ErrUnsupported }
