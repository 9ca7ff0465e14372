package ralph

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// session is what the process table shows about a worker.
type session struct {
	presence protocol.Presence
	evidence string
	pid      int                 // the leader's pid, or the pid that the file claims
	leading  string              // the pid file whose leader lives
	leader   protocol.Identity   // zero if no leader lives
	orphans  []protocol.Identity // proved to belong to this worker; their leader is proved gone
	strays   []protocol.Identity // probably of this worker, but their session may be a different one
	why      string              // why the strays are not counted as orphans
	living   []proc.Process      // the leader and all members
	proved   []protocol.Identity // those of living whose session is proved to be the worker's
}

// judge decides which processes of a worker's sessions are alive (protocol 002: pid = process group = session leader).
func (t *processTable) judge(w *worker) session {
	s := session{}
	if !t.known {
		s.evidence = "the process table cannot be read here"
		return s
	}
	claims := 0
	doubt := ""
	for i := range w.pids {
		r := &w.pids[i]
		if !r.There {
			continue
		}
		if !r.Good {
			doubt = pidFiles[i] + " cannot be read"
			continue
		}
		claims++
		if s.pid == 0 {
			s.pid = r.Value
		}
		if word := t.judgeFile(w, &s, i); word != "" {
			doubt = word
		}
	}
	slices.SortFunc(s.orphans, func(a, b protocol.Identity) int { return a.PID - b.PID })
	s.orphans = slices.Compact(s.orphans)
	left := len(s.orphans) + len(s.strays)
	switch {
	case s.leader.PID != 0:
		s.presence, s.evidence = protocol.PresenceHere, fmt.Sprintf("process %d of %s lives", s.leader.PID, s.leading)
	case left > 0:
		s.presence, s.evidence = protocol.PresenceHere, fmt.Sprintf("its leader is gone; %d of its processes live on", left)
	case doubt != "":
		s.presence, s.evidence = protocol.PresenceHere, doubt
	case claims > 0:
		s.presence, s.evidence = protocol.PresenceGone, fmt.Sprintf("no process of the session of process %d lives", s.pid)
	}
	return s
}

// judgeFile adds the evidence of one pid file. It returns the reason for doubt; "" if none exists.
func (t *processTable) judgeFile(w *worker, s *session, which int) (doubt string) {
	r := &w.pids[which]
	pid, written := r.Value, r.Stamp.ModTime()
	if pid <= 1 || pid == os.Getpid() {
		return ""
	}
	members := others(t.session[pid], pid)
	if row, there := t.byPID[pid]; there && !row.Zombie {
		// Proof that it works for the worker counts whatever the clocks say.
		works := t.worksFor(w, pid)
		if !works && !t.startedBy(row.Identity, written) {
			r.members, r.empty = nil, true
			return "" // the pid was reused, which cannot happen while the session lives
		}
		s.leader, s.leading, s.pid = protocol.Identity(row.Identity), pidFiles[which], pid
		r.leader, r.members, r.empty = s.leader, nil, false
		s.living = append(s.living, row)
		if works {
			s.proved = append(s.proved, s.leader)
		}
		if row.Session == pid {
			if works {
				r.members = identities(members)
				s.proved = append(s.proved, r.members...)
			}
			s.living = append(s.living, members...)
		}
		return ""
	}
	if len(members) == 0 {
		r.members, r.empty = nil, true
		return ""
	}
	ours, near := false, false
	for _, m := range members {
		// The system does not reuse a session's number while a process of that session lives.
		ours = ours || t.worksFor(w, m.PID) || slices.Contains(r.members, protocol.Identity(m.Identity))
		near = near || t.worksIn(t.project, m.PID) || t.cwds[m.PID] == ""
	}
	switch {
	case ours:
		s.pid = pid
		if s.why = t.notOf(r, members, written); s.why != "" {
			s.strays = append(s.strays, identities(members)...)
			return ""
		}
		r.members = identities(members)
		s.orphans = append(s.orphans, r.members...)
		s.living = append(s.living, members...)
	case r.leader.PID == pid && len(r.leader.Boot) > 0 && !r.empty:
		s.pid, s.why = pid, "only the number of their session says that they are this worker's"
		s.strays = append(s.strays, identities(members)...)
	case near:
		return fmt.Sprintf("process %d of %s is gone, but its session lives; nothing proves whose it is", pid, pidFiles[which])
	case !r.empty && t.notOf(r, members, written) == "":
		s.pid, s.why = pid, "only the number of their session and the time of their start say that they are this worker's"
		s.strays = append(s.strays, identities(members)...)
	}
	return "" // or an unrelated session that reuses the number
}

const (
	earlyStart = 5 * time.Second // how much older than its pid file a process of the session may be
	lateStart  = time.Hour       // how much later its oldest process may have started if steward never saw its leader
)

// notOf says why a session whose leader is gone may not be the session of the pid file, although one of its processes
// works in the worker's folder; "" if it is that session. Session numbers are reused, and a user may open a terminal in
// the folder.
func (t *processTable) notOf(r *pidFile, members []proc.Process, written time.Time) string {
	oldest := time.Time{}
	for _, m := range members {
		at, err := t.sys.started(m.Identity)
		switch {
		case err != nil:
			return fmt.Sprintf("it is unknown when process %d began", m.PID)
		case at.Before(written.Add(-earlyStart)):
			return fmt.Sprintf("process %d is older than the pid file", m.PID)
		case oldest.IsZero() || at.Before(oldest):
			oldest = at
		}
	}
	if r.leader.PID == members[0].Session && r.leader.Proves() || !oldest.After(written.Add(lateStart)) {
		return ""
	}
	return "they began long after the pid file was written, and steward never saw its leader, so the number may have been used again"
}
