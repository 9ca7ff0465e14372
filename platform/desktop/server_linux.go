package desktop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// muteTime limits the query for "do not disturb": some servers never reply to property queries.
const muteTime = 300 * time.Millisecond

// server is one instance of a notification server on one connection. A new owner of the name, or the same owner after
// it released the name, knows no ids of this instance.
type server struct {
	bus     *bus
	owner   string // unique bus name; calls go to it, never to a later owner of the well-known name
	label   string
	markup  bool
	body    bool
	actions bool // it shows buttons, and we receive presses
}

// same reports whether both are one instance, perhaps on different connections. A bus has a new id after each start and
// never reuses a unique name. A bus without an id does not allow that conclusion.
func (srv *server) same(other *server) bool {
	if srv == nil || other == nil || srv == other {
		return srv == other && srv != nil
	}
	return srv.bus.guid != "" && srv.bus.guid == other.bus.guid && srv.owner == other.owner
}

func ownerOf(ctx context.Context, b *bus, start bool) (string, error) {
	var owner string
	err := b.ask(ctx, "GetNameOwner", []any{serverName}, &owner)
	if errorName(err) != "org.freedesktop.DBus.Error.NameHasNoOwner" {
		return owner, err
	}
	none := hinted(unavailable("no notification server on the session bus"), noServerHint)
	if !start {
		return "", none
	}
	var reply uint32
	err = b.call(ctx, busName, busPath, busName+".StartServiceByName", []any{serverName, uint32(0)}, &reply)
	switch name := errorName(err); {
	case name == "org.freedesktop.DBus.Error.ServiceUnknown":
		return "", none
	case name != "":
		return "", hinted(fmt.Errorf("start notification server: %w", err), noServerHint)
	case err != nil:
		return "", err
	}
	err = b.ask(ctx, "GetNameOwner", []any{serverName}, &owner)
	return owner, err
}

// meet queries a new server once for its name and its capabilities, concurrently, because some servers are slow.
func meet(ctx context.Context, b *bus, owner string) (*server, error) {
	var name, vendor, version, spec string
	var abilities []string
	able := make(chan error, 1)
	go func() {
		able <- b.call(ctx, owner, serverPath, serverName+".GetCapabilities", nil, &abilities)
	}()
	err := b.call(ctx, owner, serverPath, serverName+".GetServerInformation", nil, &name, &vendor, &version, &spec)
	if other := <-able; err != nil {
		return nil, hinted(fmt.Errorf("notification server: %w", err), silentHint)
	} else if err = other; err != nil {
		return nil, hinted(fmt.Errorf("notification server %s: %w", clean(name, titleLimit), err), silentHint)
	}
	label := clean(strings.TrimSpace(name+" "+version), titleLimit)
	return &server{bus: b, owner: owner, label: label,
		markup: slices.Contains(abilities, "body-markup"), body: slices.Contains(abilities, "body"),
		actions: slices.Contains(abilities, "actions") && !b.deaf}, nil
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
	return srv.bus.start(ctx, srv.owner, serverPath, serverName+".Notify", dbus.FlagNoAutoStart,
		"steward", replaces, "", m.Title, text, buttons, hints, expire)
}

// close removes a popup from the screen. An error reply means that the popup no longer exists.
func (srv *server) close(ctx context.Context, id uint32) error {
	err := srv.bus.call(ctx, srv.owner, serverPath, serverName+".CloseNotification", []any{id})
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
		err = srv.bus.call(ctx, "org.xfce.Xfconf", "/org/xfce/Xfconf", "org.xfce.Xfconf.GetProperty", []any{"xfce4-notifyd", "/do-not-disturb"}, &on)
	case strings.HasPrefix(label, "dunst"):
		err = srv.bus.call(ctx, srv.owner, serverPath, get, []any{"org.dunstproject.cmd0", "paused"}, &on)
	case strings.HasPrefix(label, "plasma"):
		err = srv.bus.call(ctx, srv.owner, serverPath, get, []any{serverName, "Inhibited"}, &on)
	}
	yes, _ := on.Value().(bool)
	return err == nil && yes
}
