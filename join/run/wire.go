package run

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/livhana/steward/platform/proc"
)

// specLimit bounds the Spec that a shim reads, in bytes.
const specLimit = 64 << 20

// stopByte follows the Spec on the shim's input to stop the run. The end of the input means that the caller is dead.
const stopByte = 's'

// wireSpec is a Spec as JSON. Arguments, paths and environment are bytes on Unix; JSON strings would lose bytes that
// are not UTF-8.
type wireSpec struct {
	Argv, Env, Write  [][]byte
	Dir, Log, Mark    []byte
	Stdin             []byte
	HasStdin, Confine bool
	Limit, Grace      time.Duration
	Keep              int
}

// report is a message of the shim, in this order, each as a JSON document on its own line.
type report struct {
	Command *proc.Identity `json:",omitempty"` // the command has started
	Ended   *Ended         `json:",omitempty"`
}

func (s *Spec) encode() ([]byte, error) {
	w := wireSpec{
		Argv: convert[[]byte](s.Argv), Env: convert[[]byte](s.Env), Write: convert[[]byte](s.Write),
		Dir: []byte(s.Dir), Log: []byte(s.Log), Mark: []byte(s.Mark),
		Stdin: s.Stdin, HasStdin: s.Stdin != nil, Confine: s.Write != nil,
		Limit: s.Limit, Grace: s.Grace, Keep: s.Keep,
	}
	text, err := json.Marshal(w)
	if err == nil && len(text) > specLimit {
		err = fmt.Errorf("command, environment and input are %d bytes as JSON; %d at most", len(text), specLimit)
	}
	return text, err
}

// decodeSpec reads one Spec and returns the rest of the input.
func decodeSpec(in io.Reader) (Spec, io.Reader, error) {
	bounded := &io.LimitedReader{R: in, N: specLimit + 1}
	d := json.NewDecoder(bounded)
	var w wireSpec
	if err := d.Decode(&w); err != nil {
		if bounded.N <= 0 {
			err = fmt.Errorf("more than %d bytes", specLimit)
		}
		return Spec{}, nil, fmt.Errorf("read what to run: %w", err)
	}
	s := Spec{
		Argv: convert[string](w.Argv), Env: convert[string](w.Env), Dir: string(w.Dir), Log: string(w.Log), Mark: string(w.Mark),
		Limit: w.Limit, Grace: w.Grace, Keep: w.Keep,
	}
	if w.HasStdin {
		s.Stdin = append([]byte{}, w.Stdin...)
	}
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
