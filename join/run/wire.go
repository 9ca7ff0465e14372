package run

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/livhana/steward/platform/proc"
)

// stopByte follows the Spec on the shim's input to stop the run. The end of the input means that the caller is dead.
const stopByte = 's'

// wireSpec is a Spec as JSON. Arguments, paths and environment are bytes on Unix; JSON strings would lose bytes that
// are not UTF-8, so byte fields stand in place of the text fields of Spec.
type wireSpec struct {
	Spec
	Argv, Env, Write [][]byte
	Dir, Log, Mark   []byte
	Confine          bool // Spec.Write is not nil
}

// report is a message of the shim, in this order, each as a JSON document on its own line.
type report struct {
	Command *proc.Identity `json:",omitempty"` // the command has started
	Ended   *Ended         `json:",omitempty"`
}

func (s *Spec) encode() ([]byte, error) {
	return json.Marshal(wireSpec{Spec: *s, Argv: convert[[]byte](s.Argv), Env: convert[[]byte](s.Env), Write: convert[[]byte](s.Write),
		Dir: []byte(s.Dir), Log: []byte(s.Log), Mark: []byte(s.Mark), Confine: s.Write != nil})
}

// decodeSpec reads one Spec and returns the rest of the input.
func decodeSpec(in io.Reader) (Spec, io.Reader, error) {
	d := json.NewDecoder(in)
	var w wireSpec
	if err := d.Decode(&w); err != nil {
		return Spec{}, nil, fmt.Errorf("read what to run: %w", err)
	}
	s := w.Spec
	s.Argv, s.Env = convert[string](w.Argv), convert[string](w.Env)
	s.Dir, s.Log, s.Mark = string(w.Dir), string(w.Log), string(w.Mark)
	if w.Confine {
		s.Write = convert[string](w.Write)
	}
	return s, io.MultiReader(d.Buffered(), in), s.check()
}

func convert[To, From ~string | ~[]byte](from []From) []To {
	to := make([]To, len(from))
	for i, v := range from {
		to[i] = To(v)
	}
	return to
}
