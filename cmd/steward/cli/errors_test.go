package cli

import (
	"errors"
	"testing"
)

func TestGivenUpIsNamed(t *testing.T) {
	if exit, code := classOf(Hopeless{Err: errors.New("x")}); exit != exitHopeless || code != codeGivenUp {
		t.Error(exit, code)
	}
}
