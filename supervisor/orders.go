package supervisor

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor/decide"
)

// standingOrder is a person's order about the project in a folder: that it is paused, or in which mode a protocol of it is.
// Each order is a file whose name says what it is about and identifies the folder, so that the order holds even if the content
// of the file can no longer be read.
type standingOrder struct {
	Version int           `json:"version"`
	Project string        `json:"project"` // its name when the order was given
	Folder  string        `json:"folder"`
	Why     string        `json:"why"`
	At      time.Time     `json:"at"`
	Mode    protocol.Mode `json:"mode,omitempty"` // of a protocol

	file    string
	about   string // pauseOrder, or modeOrder and a protocol
	folder  Folder // Path is not known from the file's name alone
	problem error  // why the content cannot be used
}

// What orders are about.
const (
	pauseOrder = "pause"
	modeOrder  = "mode-"
)

// ordersVersion is the version of order files.
const ordersVersion = 1

// ordersFolder is the folder of the orders in the state folder. See docs/decisions.md, "Each order lies in a file of its own".
const ordersFolder = "orders"

// maxOrder is the largest order file.
const maxOrder = 1 << 20

// Orders are the orders of people that outlast every run. The zero Orders keeps them in memory only.
type Orders struct {
	root *jsonfile.Root
	list []standingOrder
}

// OpenOrders reads the orders in the state folder. An order whose file cannot be used is in force all the same. A folder
// that cannot be listed is an error, because it may hold orders.
func OpenOrders(state *jsonfile.Root) (*Orders, error) {
	o := &Orders{root: state}
	names, _, err := state.List(ordersFolder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the orders of people: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if p, ours := orderNamed(name); ours {
			o.list = append(o.list, o.read(p))
		}
	}
	return o, nil
}

func (o *Orders) read(p standingOrder) standingOrder {
	blob, err := o.root.Read(path.Join(ordersFolder, p.file), maxOrder)
	content := p
	if err == nil {
		err = json.Unmarshal(blob.Data, &content)
	}
	switch {
	case err == nil && content.Version > ordersVersion:
		err = fmt.Errorf("it was written by a newer steward (file version %d, this steward knows %d)", content.Version, ordersVersion)
	case err == nil && pathSum(content.Folder) != p.pathSum():
		err = errors.New("its folder is not the one in the file's name")
	case err == nil && p.about != pauseOrder && !slices.Contains(modes, content.Mode):
		err = fmt.Errorf("%q is not a mode", content.Mode)
	}
	if err != nil {
		p.problem, p.Mode = err, protocol.ModeObserve
		p.Why = "paused by an order that cannot be read: " + path.Join(ordersFolder, p.file)
		return p
	}
	content.folder.Path = content.Folder
	return content
}

// modes are the modes, the most careful first.
var modes = []protocol.Mode{protocol.ModeObserve, protocol.ModeAsk, protocol.ModeAct}

// orderNamed parses the name of an order's file: what it is about, the sum of the folder's path, device, inode and birth.
func orderNamed(name string) (standingOrder, bool) {
	p := standingOrder{file: name}
	text, ours := strings.CutSuffix(name, ".json")
	parts := strings.Split(text, "-")
	n := len(parts) - 4
	if !ours || n < 1 {
		return p, false
	}
	p.about = strings.Join(parts[:n], "-")
	_, err := fmt.Sscanf(strings.Join(parts[n+1:], " "), "%x %x %x", &p.folder.Device, &p.folder.Inode, &p.folder.Born)
	known := p.about == pauseOrder || strings.HasPrefix(p.about, modeOrder)
	return p, known && err == nil && len(parts[n]) == 16 && fileOfOrder(p.about, parts[n], p.folder) == name
}

func fileOfOrder(about, sum string, f Folder) string {
	return fmt.Sprintf("%s-%s-%x-%x-%x.json", about, sum, f.Device, f.Inode, f.Born)
}

func (p *standingOrder) pathSum() string { return p.file[len(p.about)+1:][:16] }

func pathSum(path string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(path)))[:16] }

// about lists the orders about a folder ("" lists those about anything): those that name this folder, then those that name its path, unless the folder of
// such an order is another supervised one. An order that was given before the folder existed has the configured path.
func (o *Orders) about(about string, f Folder, configured string, others []Folder) []standingOrder {
	var same, here []standingOrder
	for _, p := range o.list {
		sum := p.pathSum()
		switch {
		case about != "" && p.about != about:
		case p.folder.is(f):
			same = append(same, p)
		case sum != pathSum(f.Path) && sum != pathSum(configured):
		case !slices.ContainsFunc(others, p.folder.is):
			here = append(here, p)
		}
	}
	return append(same, here...)
}

// give records an order durably.
func (o *Orders) give(p standingOrder, f Folder) (standingOrder, error) {
	p.Version, p.Folder, p.folder, p.problem = ordersVersion, f.Path, f, nil
	p.file = fileOfOrder(p.about, pathSum(f.Path), f)
	if err := o.write(p); err != nil {
		return p, err
	}
	o.drop(p.file)
	o.list = append(o.list, p)
	return p, nil
}

func (o *Orders) write(p standingOrder) error {
	if o.root == nil {
		return nil
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := o.root.MkdirAll(ordersFolder, 0o700); err != nil {
		return err
	}
	late, err := o.root.Replace(path.Join(ordersFolder, p.file), append(data, '\n'), jsonfile.Any)
	_ = late.Close()
	return err
}

// takeBack removes an order.
func (o *Orders) takeBack(p standingOrder) error {
	if o.root != nil {
		if err := o.root.Remove(path.Join(ordersFolder, p.file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	o.drop(p.file)
	return nil
}

func (o *Orders) drop(file string) {
	o.list = slices.DeleteFunc(o.list, func(p standingOrder) bool { return p.file == file })
}

// follow updates the orders about a project whose folder was found: the order of a folder that was moved gets the new path,
// one that was given before the folder existed gets its identity.
func (o *Orders) follow(d *projectState, all projects) error {
	var errs []error
	for _, p := range o.aboutProject("", d, all) {
		moved := p.folder.is(d.folder) && p.pathSum() != pathSum(d.folder.Path)
		found := p.folder.Inode == 0 && d.folder.Inode != 0
		if p.problem != nil || !moved && !found {
			continue
		}
		_, err := o.give(p, d.folder)
		if err == nil {
			err = o.takeBack(p)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// aboutProject lists the orders about a project.
func (o *Orders) aboutProject(about string, d *projectState, all projects) []standingOrder {
	var others []Folder
	for _, other := range all {
		if other != d && len(o.list) > 0 {
			others = append(others, other.folder)
		}
	}
	return o.about(about, d.place(), d.project.Path, others)
}

// tell raises incidents for order files that cannot be used, and resolves those that can be used again.
func (o *Orders) tell(tell func(rules.Alert) error) {
	for _, p := range o.list {
		alert := orderAlert(p)
		if p.problem == nil {
			alert.Resolve, alert.Detail = true, "it can be read again"
		}
		_ = tell(alert)
	}
}

// orderAlert is the incident about an unusable order file.
func orderAlert(p standingOrder) rules.Alert {
	a := rules.Alert{Kind: "order_unreadable", Severity: protocol.Medium, Foreign: true, Code: p.file, Options: []rules.Option{{ID: decide.OptionDone, Label: "Taken care of"}},
		Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "orders"},
		Summary: "an order to pause a project cannot be read, and stays in force"}
	undo := "steward resume PROJECT"
	if name, ok := strings.CutPrefix(p.about, modeOrder); ok {
		a.Summary, undo = "an order about the mode of "+name+" cannot be read", "steward mode PROJECT "+name+" default"
	}
	a.Key = decide.KeyOf(a)
	if p.problem != nil {
		a.Detail = fmt.Sprintf("%s in the state folder: %v. steward only observes until: %s", path.Join(ordersFolder, p.file), p.problem, undo)
		a.Occurrence = p.problem.Error()
	}
	return a
}
