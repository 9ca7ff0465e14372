package protocol

import (
	"fmt"
	"strings"
)

// Kind is the kind of thing that a Subject names.
type Kind string

// The kinds of Subject.
const (
	KindAgent    Kind = "agent"
	KindTask     Kind = "task"
	KindLock     Kind = "lock"
	KindQuestion Kind = "plea"
	KindProject  Kind = "project"
	KindIncident Kind = "incident"
	KindMachine  Kind = "machine"
)

// Subject is the comparable key of a thing, for memory, log, metrics and explain. Protocol is part of it because two
// protocols in one folder may use the same id. See docs/decisions.md, "Subject carries the protocol".
type Subject struct {
	Project  string `json:"project,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Kind     Kind   `json:"kind"`
	ID       string `json:"id"`
}

// String returns "project:kind/id", the form that commands accept.
func (s Subject) String() string {
	if s.Project == "" {
		return string(s.Kind) + "/" + s.ID
	}
	return s.Project + ":" + string(s.Kind) + "/" + s.ID
}

// Full returns "project:protocol:kind/id", for cases where two protocols use the same name.
func (s Subject) Full() string {
	if s.Project == "" || s.Protocol == "" {
		return s.String()
	}
	return s.Project + ":" + s.Protocol + ":" + string(s.Kind) + "/" + s.ID
}

// MarshalText lets a Subject key a JSON object.
func (s Subject) MarshalText() ([]byte, error) {
	return []byte(strings.Join([]string{s.Project, s.Protocol, string(s.Kind), s.ID}, "\x1f")), nil
}

// UnmarshalText reads what MarshalText wrote.
func (s *Subject) UnmarshalText(b []byte) error {
	part := strings.SplitN(string(b), "\x1f", 4)
	if len(part) != 4 {
		return fmt.Errorf("read subject %q: want four parts", b)
	}
	*s = Subject{part[0], part[1], Kind(part[2]), part[3]}
	return nil
}

// Query is what a user typed for a Subject: "id", "kind/id", "project:kind/id", or "project:protocol:kind/id" if two
// protocols of a project use the same name.
type Query struct {
	Project  string
	Protocol string
	Kind     Kind
	ID       string
}

// ParseQuery parses a typed subject. An unknown kind is treated as part of the id.
func ParseQuery(text string) Query {
	q := Query{ID: text}
	head, tail, ok := strings.Cut(q.ID, "/")
	if !ok {
		return q
	}
	var project, speaks string
	kind := head
	if i := strings.LastIndexByte(head, ':'); i >= 0 {
		project, kind = head[:i], head[i+1:]
		project, speaks, _ = strings.Cut(project, ":")
	}
	switch k := Kind(kind); k {
	case KindAgent, KindTask, KindLock, KindQuestion, KindProject, KindIncident, KindMachine:
		return Query{Project: project, Protocol: speaks, Kind: k, ID: tail}
	}
	return q
}

// Matches reports whether s fits the query.
func (q Query) Matches(s Subject) bool {
	return q.ID == s.ID && (q.Kind == "" || q.Kind == s.Kind) && (q.Project == "" || q.Project == s.Project) &&
		(q.Protocol == "" || q.Protocol == s.Protocol)
}
