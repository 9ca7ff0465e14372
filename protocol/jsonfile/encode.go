package jsonfile

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Encode encodes v in steward's own format: two spaces of indentation, a newline at the end, times as in FormatTime,
// map keys sorted.
func Encode(v any) ([]byte, error) {
	b, err := marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// EncodeLine is Encode on one line without a newline, for Append.
func EncodeLine(v any) ([]byte, error) { return marshal(v) }

func marshal(v any, opts ...json.Options) ([]byte, error) {
	times := json.MarshalToFunc(func(e *jsontext.Encoder, t time.Time) error {
		return e.WriteToken(jsontext.String(FormatTime(t)))
	})
	values := json.MarshalToFunc(func(e *jsontext.Encoder, v Value) error {
		if v.n == nil {
			return e.WriteToken(jsontext.Null)
		}
		return e.WriteValue(v.Raw())
	})
	objects := json.MarshalToFunc(func(e *jsontext.Encoder, o Object) error {
		if o.v.n == nil {
			return e.WriteToken(jsontext.Null)
		}
		return e.WriteValue(o.v.Raw())
	})
	opts = append(opts, json.Deterministic(true), json.WithMarshalers(json.JoinMarshalers(times, values, objects)))
	b, err := json.Marshal(v, opts...)
	if err != nil {
		return nil, &Error{Op: "encode", Err: err}
	}
	return b, nil
}
