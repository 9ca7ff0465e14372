//go:build !linux

package proc

import (
	"errors"
	"testing"
)

func TestTableIsForLinux(t *testing.T) {
	if _, err := Table(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}
