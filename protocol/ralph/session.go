package ralph

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// system holds the adapter's calls to the operating system.
type system struct {
	table   func() ([]proc.Process, error)
	cwd     func(pid int) (string, error)
	command func(pid int) ([]string, error)
	opened  func(pid int) ([]proc.OpenFile, error)
	holders func(path string) ([]proc.Identity, error)
	started func(proc.Identity) (time.Time, error)
	signal  func(id proc.Identity, sig string) error
	check   func(proc.Identity) proc.State
}

func machine() system {
	return system{proc.Table, proc.Cwd, proc.Command, proc.Opened, proc.FlockHolders, proc.Started, proc.Signal, proc.Check}
}

// processScan is the process table of one scan.
type processScan struct {
	sys     *system
	known   bool // the table could be read
	byPID   map[int]proc.Process
	session map[int][]proc.Process // living processes by session
	cwds    map[int]string
	mine    []proc.Process // living processes of this user
}

// count reads the process table once.
func (p *Project) count() *processScan {
	c := &processScan{sys: &p.sys, byPID: map[int]proc.Process{}, session: map[int][]proc.Process{}, cwds: map[int]string{}}
	all, err := p.sys.table()
	if err != nil {
		return c
	}
	c.known = true
	for _, row := range all {
		c.byPID[row.PID] = row
		if !row.Zombie {
			c.session[row.Session] = append(c.session[row.Session], row)
			if row.UID == os.Getuid() || os.Getuid() == 0 {
				c.mine = append(c.mine, row)
			}
		}
	}
	return c
}

// cwd returns a process's working folder; "" if it cannot be read.
func (c *processScan) cwd(pid int) string {
	dir, ok := c.cwds[pid]
	if !ok {
		dir, _ = c.sys.cwd(pid)
		c.cwds[pid] = dir
	}
	return dir
}

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
	living   []proc.Process      // of proved sessions: the leader and all members
}

// lateWrite is how much later than its pid file's stamp a leader may appear to have started.
const lateWrite = 2 * time.Second

// judge decides which processes of a worker's sessions are alive (protocol 002: pid = process group = session leader).
func (p *Project) judge(c *processScan, w *worker) session {
	s := session{}
	if !c.known {
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
		if word := p.weigh(c, w, &s, i); word != "" {
			doubt = word
		}
	}
	slices.SortFunc(s.orphans, func(a, b protocol.Identity) int { return a.PID - b.PID })
	s.orphans = slices.Compact(s.orphans)
	switch {
	case s.leader.PID != 0:
		s.presence, s.evidence = protocol.PresenceHere, fmt.Sprintf("process %d of %s lives", s.leader.PID, s.leading)
	case len(s.orphans)+len(s.strays) > 0:
		s.presence, s.evidence = protocol.PresenceHere, fmt.Sprintf("its leader is gone; %d of its processes live on", len(s.orphans)+len(s.strays))
	case doubt != "":
		s.presence, s.evidence = protocol.PresenceHere, doubt
	case claims > 0:
		s.presence, s.evidence = protocol.PresenceGone, fmt.Sprintf("nobody of the session of process %d lives", s.pid)
	}
	return s
}

// weigh adds the evidence of one pid file. It returns the reason for doubt; "" if there is none.
func (p *Project) weigh(c *processScan, w *worker, s *session, which int) (doubt string) {
	file, pid, written := pidFiles[which], w.pids[which].Value, w.pids[which].Stamp.ModTime()
	if pid <= 1 || pid == os.Getpid() {
		return ""
	}
	row, there := c.byPID[pid]
	if there && !row.Zombie {
		if !p.isLeader(c, w, row, written) {
			w.kin[which], w.left[which] = nil, true
			return "" // the pid was reused, which cannot happen while the session lives
		}
		s.leader, s.leading, s.pid = protocol.Identity(row.Identity), file, pid
		w.seen[which], w.kin[which], w.left[which] = s.leader, nil, false
		s.living = append(s.living, row)
		if row.Session == pid {
			kin := others(c.session[pid], pid)
			if p.works(c, w, row) {
				w.kin[which] = identities(kin)
			}
			s.living = append(s.living, kin...)
		}
		return ""
	}
	members := others(c.session[pid], pid)
	if len(members) == 0 {
		w.kin[which], w.left[which] = nil, true
		return ""
	}
	home, project := filepath.Join(p.real, Base, w.dir()), p.real
	ours, near := false, false
	for _, m := range members {
		at := c.cwd(m.PID)
		// The system does not reuse a session's number while a process of that session lives.
		ours = ours || inside(at, home) || slices.Contains(w.kin[which], protocol.Identity(m.Identity))
		near = near || at == "" || inside(at, project)
	}
	switch {
	case ours:
		s.pid = pid
		if s.why = p.another(w.seen[which], members, written); s.why != "" {
			s.strays = append(s.strays, identities(members)...)
			return ""
		}
		w.kin[which] = identities(members)
		s.orphans = append(s.orphans, identities(members)...)
		s.living = append(s.living, members...)
		return ""
	case w.seen[which].PID == pid && len(w.seen[which].Boot) > 0 && !w.left[which]:
		s.pid, s.why = pid, "only the number of their session says that they are this worker's"
		s.strays = append(s.strays, identities(members)...)
		return ""
	case near:
		return fmt.Sprintf("process %d of %s is gone, but its session lives; nothing proves whose it is", pid, file)
	}
	return "" // an unrelated session that reuses the number
}

const (
	earlyStart = 5 * time.Second // how much older than its pid file a process of the session may be
	lateStart  = time.Hour       // how much later its oldest process may have started if steward never saw its leader
)

// another says why a session whose leader is gone may not be the session of the pid file, although one of its processes
// works in the worker's folder; "" if it is that session. Session numbers are reused, and a user may open a terminal in
// the folder.
func (p *Project) another(seen protocol.Identity, members []proc.Process, written time.Time) string {
	oldest := time.Time{}
	for _, m := range members {
		at, err := p.sys.started(m.Identity)
		switch {
		case err != nil:
			return fmt.Sprintf("nobody can say when process %d began", m.PID)
		case at.Before(written.Add(-earlyStart)):
			return fmt.Sprintf("process %d is older than the pid file", m.PID)
		case oldest.IsZero() || at.Before(oldest):
			oldest = at
		}
	}
	if seen.PID == members[0].Session && seen.Proves() || !oldest.After(written.Add(lateStart)) {
		return ""
	}
	return "they began long after the pid file was written, and steward never saw its leader, so the number may have been used again"
}

func identities(rows []proc.Process) []protocol.Identity {
	var list []protocol.Identity
	for _, row := range rows {
		list = append(list, protocol.Identity(row.Identity))
	}
	return list
}

// isLeader reports whether a living process may be the process that the pid file means. Proof that it works for the worker
// counts whatever the clocks say; otherwise it must not have started after the file was written.
func (p *Project) isLeader(c *processScan, w *worker, row proc.Process, written time.Time) bool {
	if p.works(c, w, row) {
		return true
	}
	at, err := c.sys.started(row.Identity)
	return err != nil || !at.After(written.Add(lateWrite))
}

// works reports whether a process is proved to work for the worker, by its working folder or its command line.
func (p *Project) works(c *processScan, w *worker, row proc.Process) bool {
	if inside(c.cwd(row.PID), filepath.Join(p.real, Base, w.dir())) {
		return true
	}
	argv, err := c.sys.command(row.PID)
	return err == nil && mentions(argv, w.name)
}

func mentions(argv []string, word string) bool {
	return slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, word) })
}

func others(rows []proc.Process, pid int) []proc.Process {
	return slices.DeleteFunc(slices.Clone(rows), func(r proc.Process) bool { return r.PID == pid })
}

// inside reports whether a path is dir or lies below it.
func inside(at, dir string) bool {
	return at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")
}

// visitor returns the pid of a living process that works inside a worker's folder, however it was started; 0 if there is
// none.
func (p *Project) visitor(c *processScan, w *worker) int {
	home := filepath.Join(p.real, Base, w.dir())
	for _, row := range c.mine {
		if row.PID != os.Getpid() && inside(c.cwd(row.PID), home) {
			return row.PID
		}
	}
	return 0
}

// gone reports whether an identity's process is proved to have ended.
func (p *Project) gone(id protocol.Identity) bool { return p.sys.check(proc.Identity(id)) == proc.Gone }
