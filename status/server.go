package status

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/supervisor"
)

// Server answers requests from the loop's last state, and passes the operator's commands to the loop. All fields but
// Metrics must be set. The listener controls who may connect (platform.Listen, platform.PeerListener).
type Server struct {
	// State is the loop's last state; nil before the first scan.
	State     func() *supervisor.State
	Incidents *escalate.Incidents
	Journal   *supervisor.Journal
	// Do carries out an operator's command.
	Do func(context.Context, supervisor.Command) error
	// Reload reads the configuration again. The notes say what takes effect only at the next start.
	Reload func(context.Context) (notes []string, err error)
	// Reply takes the operator's answer to the incident with that key, and makes sure that it is written where the
	// agent reads it.
	Reply func(ctx context.Context, key string, r escalate.Reply) (escalate.Incident, error)
	// Channels returns the state of the notification channels; nil: unknown.
	Channels func() []Channel
	// Fresh returns the state with the present load, for clients that watch the load; nil: the load of the last
	// decision is shown.
	Fresh func(*supervisor.State) *supervisor.State
	// Admissions admits work that clients start by themselves.
	Admissions *supervisor.Admissions
	// Lives is false only for a process that is gone; nil: all processes count as alive.
	Lives func(pid int) bool
	// Kept returns the agents that this steward starts; nil: none.
	Kept func() []Kept
	// Restart ends one of them, starts it again, and returns its new state; nil only if Kept is nil.
	Restart func(ctx context.Context, a Kept, why string) (Kept, error)
	// HoldKept holds or releases one of them. It is for agents whose protocol cannot record a hold; for others handled is
	// false. nil only if Kept is nil.
	HoldKept func(a Kept, hold bool, why string) (handled bool, err error)
	// Granted lists the locks that steward lock run holds now in the projects of the picture; nil: none. It must be
	// fast: it is called for every request for the whole state, the locks or a single lock.
	Granted func(*supervisor.State) []Granted
	// Reach sends a test on every channel, Reached returns the results; nil: there are no channels.
	Reach   func() error
	Reached func() []Trial
	// Escalate returns the settings in force, which include how long an acknowledgement lasts.
	Escalate func() escalate.Config
	Metrics  http.Handler // GET /metrics; nil: none exists
	Self     Self
	Now      func() time.Time
}

// Limits against slow, greedy or vanished clients.
const (
	headerTime  = 5 * time.Second
	readTime    = 10 * time.Second
	writeTime   = 30 * time.Second
	idleTime    = 15 * time.Second // steward's own clients make one request for each connection
	farewell    = 2 * time.Second
	maxHeader   = 16 << 10
	maxBody     = 64 << 10         // an answer's reason may have 8,000 characters, each of several bytes in JSON
	commandTime = 20 * time.Second // below writeTime, so that the answer can still be sent
)

// Serve answers on l until ctx ends, and closes it. Streams end with ctx; other requests have a short grace period.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return Serve(ctx, l, s.Handler())
}

// Serve runs a handler on l until ctx ends, with limits that cut off slow clients, and closes l. It also serves metrics
// over TCP.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ConnState: newConnections().state}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if srv.Shutdown(end) != nil {
		srv.Close() // cut off unfinished requests
	}
	<-served
	return nil
}

// getHealth reports whether the loop still scans: its last scan is no older than three scan intervals and half a minute.
func getHealth(s *Server, _ *http.Request) (any, error) {
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	last := p.Plan.Memory.LastLook
	if age, most := s.Now().Sub(last), 3*p.Config.LookEvery+30*time.Second; age > most {
		return nil, notReady("see the log of the daemon; restart it", "the last scan is %s old, more than %s", age.Round(time.Second), most)
	}
	return struct {
		OK       bool       `json:"ok"`
		LastLook *time.Time `json:"last_look"`
		Looks    int        `json:"looks"`
	}{true, instant(last), p.Looks}, nil
}

// picture is the last state, or an error if none exists.
func (s *Server) picture() (*supervisor.State, error) {
	if p := s.State(); p != nil {
		return p, nil
	}
	return nil, notReady("ask again in a few seconds", "steward has not scanned anything yet")
}
