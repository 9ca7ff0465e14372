package protocol

import (
	"encoding/json"
	"fmt"
	"math"
)

// Share is a used share of something, 0 to 1. Its zero value is unknown, which differs from 0.
type Share struct {
	value float64
	known bool
}

// Used makes a known Share; NaN is unknown, a value outside 0…1 is clamped.
func Used(v float64) Share {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Share{}
	}
	return Share{value: min(max(v, 0), 1), known: true}
}

// Value gives the share and whether it is known.
func (s Share) Value() (float64, bool) { return s.value, s.known }

// Known reports whether the share could be read.
func (s Share) Known() bool { return s.known }

// Or gives the share, or the fallback when it is unknown.
func (s Share) Or(fallback float64) float64 {
	if s.known {
		return s.value
	}
	return fallback
}

// String gives "41 %" or "unknown".
func (s Share) String() string {
	if !s.known {
		return "unknown"
	}
	return fmt.Sprintf("%.0f %%", s.value*100)
}

// MarshalJSON writes a number, or null when unknown.
func (s Share) MarshalJSON() ([]byte, error) {
	if !s.known {
		return []byte("null"), nil
	}
	return json.Marshal(math.Round(s.value*1e4) / 1e4)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Share) UnmarshalJSON(b []byte) error {
	var v *float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*s = Share{}
	if v != nil {
		*s = Used(*v)
	}
	return nil
}
