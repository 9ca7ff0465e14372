//go:build !linux

package confine

import "errors"

func writing([]string) error { return errors.ErrUnsupported }
func supported() bool        { return false }
