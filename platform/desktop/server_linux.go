package desktop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// muteTime bounds the question for "do not disturb": some servers never answer one about properties.
const muteTime = 300 * time.Millisecond

// server is one life of a notification server, as heard over one connection: another owner of the name, or the same one
// after it gave the name up, knows no id of this one. A server on another connection is the same one if its mark says so.
type server struct {
	bus    *bus
	owner  string // unique bus name; calls go to it, never to whoever took the name since
	label  string
	markup bool
	body   bool

	actions bool // it shows buttons, and we hear of presses
	tags    bool // it puts popups in the place of others by their names
}

// stackTag is the capability, and the hint, of servers that do so. Others have hints of that sense, too, but show what
// carries these as they show the volume.
const stackTag = "x-dunst-stack-tag"

// popupRef is where a popup of this server stands; where it cannot be known again, it is only known that there is one.
func (srv *server) mark(id uint32) popupRef {
	if srv.bus == nil || srv.bus.guid == "" {
		return popupRef{}
	}
	return popupRef{Bus: srv.bus.guid, Owner: srv.owner, ID: id}
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

// meet asks a new server once who it is and what it understands, both at the same time: some are slow.
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
		actions: slices.Contains(abilities, "actions") && !b.deaf, tags: slices.Contains(abilities, stackTag)}, nil
}

// notify sends the message. buttons are pairs of key and label. The tag makes up for an id that a kill kept from being
// written; beside an id it would have some servers replace, and free, the popup that they are just filling.
func (srv *server) notify(ctx context.Context, m Message, replaces uint32, buttons []string, tag string) *dbus.Call {
	text := m.Text
	if srv.markup {
		text = escape(text)
	}
	expire := int32(-1)                            // the desktop's own time
	if m.Urgency == Critical || len(buttons) > 0 { // what asks must not fade away
		expire = 0 // until closed
	}
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(byte(m.weight()))}
	if m.Quiet {
		hints["suppress-sound"] = dbus.MakeVariant(true)
	}
	if replaces == 0 && srv.tags && tag != "" {
		hints[stackTag] = dbus.MakeVariant(tag)
	}
	return srv.bus.start(ctx, srv.owner, serverPath, serverName+".Notify", dbus.FlagNoAutoStart,
		"steward", replaces, "", m.Title, text, buttons, hints, expire)
}

// close takes a popup off the screen. An error answer means that there is no such popup any more.
func (srv *server) close(ctx context.Context, id uint32) error {
	err := srv.bus.call(ctx, srv.owner, serverPath, serverName+".CloseNotification", []any{id})
	if err != nil && errorName(err) == "" {
		return hinted(fmt.Errorf("%s: %w", srv.label, err), silentHint)
	}
	return nil
}

// gone says whether the answer came from the bus, for a server that has left it. A server that died in the middle
// of the call (NoReply) is not asked again: our message may be what killed it.
func gone(err error) bool {
	name := errorName(err)
	return name == "org.freedesktop.DBus.Error.ServiceUnknown" || name == "org.freedesktop.DBus.Error.NameHasNoOwner"
}

// prove tells what an accepted popup is worth: with "do not disturb" on, a server accepts and shows nothing.
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

// muted asks the servers that say so whether "do not disturb" is on. GNOME keeps it where the bus does not show it.
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
