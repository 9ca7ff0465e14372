package desktop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/livhana/steward/platform/text"
)

const (
	serverName   = "org.freedesktop.Notifications"
	serverPath   = "/org/freedesktop/Notifications"
	noServerHint = "start the desktop's notification daemon (for example xfce4-notifyd, dunst or mako)"
	silentHint   = "the notification daemon hangs; restart it"
)

// muteTime limits the query for "do not disturb": some servers never reply to property queries.
const muteTime = 300 * time.Millisecond

// server is one instance of a notification server on one connection. A new owner of the name, or the same owner after
// it released the name, knows no ids of this instance.
type server struct {
	*session
	owner   string // unique bus name; calls go to it, never to a later owner of the well-known name
	label   string
	markup  bool
	body    bool
	actions bool // it shows buttons
}

// owner returns the unique name of the server's owner. If start is set, the bus starts a server if necessary.
func (s *session) owner(ctx context.Context, start bool) (owner string, err error) {
	err = s.ask(ctx, "GetNameOwner", []any{serverName}, &owner)
	if errorName(err) != "org.freedesktop.DBus.Error.NameHasNoOwner" {
		return owner, err
	}
	none := hinted(unavailable("no notification server on the session bus"), noServerHint)
	if !start {
		return "", none
	}
	var reply uint32
	err = s.call(ctx, busName, busPath, busName+".StartServiceByName", []any{serverName, uint32(0)}, &reply)
	switch name := errorName(err); {
	case name == "org.freedesktop.DBus.Error.ServiceUnknown":
		return "", none
	case name != "":
		return "", hinted(fmt.Errorf("start notification server: %w", err), noServerHint)
	case err != nil:
		return "", err
	}
	err = s.ask(ctx, "GetNameOwner", []any{serverName}, &owner)
	return owner, err
}

// startable reports whether the bus can start a server.
func (s *session) startable(ctx context.Context) error {
	var names []string
	if err := s.ask(ctx, "ListActivatableNames", nil, &names); err != nil || slices.Contains(names, serverName) {
		return err
	}
	return hinted(unavailable("no notification server on the session bus"), noServerHint)
}

// meet queries a new server once for its name and its capabilities.
func meet(ctx context.Context, s *session, owner string) (*server, error) {
	var name, vendor, version, spec string
	var abilities []string
	err := s.call(ctx, owner, serverPath, serverName+".GetServerInformation", nil, &name, &vendor, &version, &spec)
	if err == nil {
		err = s.call(ctx, owner, serverPath, serverName+".GetCapabilities", nil, &abilities)
	}
	label := text.Clean(strings.TrimSpace(name+" "+version), titleLimit)
	if err != nil {
		return nil, hinted(fmt.Errorf("notification server %s: %w", label, err), silentHint)
	}
	return &server{session: s, owner: owner, label: label, markup: slices.Contains(abilities, "body-markup"),
		body: slices.Contains(abilities, "body"), actions: slices.Contains(abilities, "actions")}, nil
}

// notify sends the message. buttons are pairs of key and label.
func (srv *server) notify(ctx context.Context, m Message, replaces uint32, buttons []string) *dbus.Call {
	text := m.Text
	if srv.markup {
		text = escape(text)
	}
	expire := int32(-1)                            // the desktop's default
	if m.Urgency == Critical || len(buttons) > 0 { // a question must not expire
		expire = 0 // never expires
	}
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(byte(m.weight()))}
	if m.Quiet {
		hints["suppress-sound"] = dbus.MakeVariant(true)
	}
	return srv.start(ctx, srv.owner, serverPath, serverName+".Notify", "steward", replaces, "", m.Title, text, buttons, hints, expire)
}

// withdraw removes a popup from the screen. An error reply means that the popup no longer exists.
func (srv *server) withdraw(ctx context.Context, id uint32) error {
	err := srv.call(ctx, srv.owner, serverPath, serverName+".CloseNotification", []any{id})
	if err != nil && errorName(err) == "" {
		return hinted(fmt.Errorf("%s: %w", srv.label, err), silentHint)
	}
	return nil
}

// gone reports whether the bus itself replied, because the server has left it. If a server died during the call
// (NoReply), the message is not sent again: it may be what killed the server.
func gone(err error) bool {
	name := errorName(err)
	return name == "org.freedesktop.DBus.Error.ServiceUnknown" || name == "org.freedesktop.DBus.Error.NameHasNoOwner"
}

// prove returns the proof for an accepted popup: with "do not disturb" on, a server accepts a popup without showing
// it. See docs/decisions.md, "A muted popup counts as not shown on Linux".
func (srv *server) prove(ctx context.Context, id uint32, actions bool) Proof {
	p := Proof{Result: Shown, Actions: actions, ID: fmt.Sprintf("%s/%d", srv.owner, id), Detail: fmt.Sprintf("%s opened popup %d", srv.label, id)}
	if !srv.body {
		p.Detail += ", which shows the title only"
	}
	if srv.muted(ctx) {
		p.Result, p.Detail = Sent, fmt.Sprintf("%s accepted popup %d, but do not disturb is on", srv.label, id)
	}
	return p
}

// muted queries the servers that report it for "do not disturb". GNOME does not expose it on the bus.
func (srv *server) muted(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, muteTime)
	defer cancel()
	const get = "org.freedesktop.DBus.Properties.Get"
	var on dbus.Variant
	var err error
	switch label := strings.ToLower(srv.label); {
	case strings.HasPrefix(label, "xfce"):
		err = srv.call(ctx, "org.xfce.Xfconf", "/org/xfce/Xfconf", "org.xfce.Xfconf.GetProperty", []any{"xfce4-notifyd", "/do-not-disturb"}, &on)
	case strings.HasPrefix(label, "dunst"):
		err = srv.call(ctx, srv.owner, serverPath, get, []any{"org.dunstproject.cmd0", "paused"}, &on)
	case strings.HasPrefix(label, "plasma"):
		err = srv.call(ctx, srv.owner, serverPath, get, []any{serverName, "Inhibited"}, &on)
	}
	yes, _ := on.Value().(bool)
	return err == nil && yes
}
