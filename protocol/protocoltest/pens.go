package protocoltest

import (
	"fmt"
	"time"
)

// Pen is how a program writes times.
type Pen struct {
	Name string
	Skew time.Duration  // how far its clock is ahead of ours
	Zone *time.Location // its local time, written without a zone; nil writes UTC with a Z
}

// Text formats a moment as the program writes it.
func (p Pen) Text(at time.Time) string {
	at = at.Add(p.Skew)
	if p.Zone == nil {
		return at.UTC().Format("2006-01-02T15:04:05Z")
	}
	return at.In(p.Zone).Format("2006-01-02T15:04:05")
}

// Zones are correct clocks that write local time without a zone, one per zone from -12 to +14.
func Zones() []Pen {
	var list []Pen
	for hours := -12; hours <= 14; hours++ {
		list = append(list, Pen{Name: fmt.Sprintf("zone %+d", hours), Zone: time.FixedZone("", hours*3600)})
	}
	return list
}

// Pens are Zones, each also with a clock that is a day slow or fast, and UTC with wrong clocks.
func Pens() []Pen {
	var list []Pen
	for _, zone := range append(Zones(), Pen{Name: "UTC"}) {
		for _, skew := range []time.Duration{0, -24 * time.Hour, -10 * time.Minute, 10 * time.Minute, 24 * time.Hour} {
			list = append(list, Pen{fmt.Sprintf("%s, clock %v", zone.Name, skew), skew, zone.Zone})
		}
	}
	return list
}
