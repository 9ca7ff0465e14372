package supervisor

import (
	"cmp"
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

// Pause is a person's order that the project in a folder is only observed. Each order is a file whose name identifies the
// folder, so that the order holds even if the content of the file can no longer be read.
type Pause struct {
	Version int       `json:"version"`
	Project string    `json:"project"` // its name when the order was given
	Folder  string    `json:"folder"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`

	file    string
	folder  Folder // Path is not known from the file's name alone
	problem error  // why the content cannot be used
}

// ordersVersion is the version of order files.
const ordersVersion = 1

// ordersFolder is the folder of the orders in the state folder. See docs/decisions.md, "Each order lies in a file of its own".
const ordersFolder = "orders"

// maxOrder is the largest order file.
const maxOrder = 1 << 20

// Orders are the orders of people that outlast every run. The zero Orders keeps them in memory only.
type Orders struct {
	root   *jsonfile.Root
	pauses []Pause
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
		if p, ours := pauseNamed(name); ours {
			o.pauses = append(o.pauses, o.read(p))
		}
	}
	return o, nil
}

func (o *Orders) read(p Pause) Pause {
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
	}
	if err != nil {
		p.problem = err
		p.Why = "paused by an order that cannot be read: " + path.Join(ordersFolder, p.file)
		return p
	}
	content.folder.Path = content.Folder
	return content
}

// pauseNamed parses the name of an order's file: "pause-", the sum of the folder's path, device, inode and birth.
func pauseNamed(name string) (Pause, bool) {
	var sum string
	p := Pause{file: name}
	text, ours := strings.CutSuffix(name, ".json")
	if !ours {
		return p, false
	}
	n, err := fmt.Sscanf(text, "pause-%16s-%x-%x-%x", &sum, &p.folder.Device, &p.folder.Inode, &p.folder.Born)
	return p, err == nil && n == 4 && fileOfPause(sum, p.folder) == name
}

func fileOfPause(sum string, f Folder) string {
	return fmt.Sprintf("pause-%s-%x-%x-%x.json", sum, f.Device, f.Inode, f.Born)
}

func (p *Pause) pathSum() string { return p.file[len("pause-"):][:16] }

func pathSum(path string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(path)))[:16] }

// about lists the orders about a folder: those that name this folder, then those that name its path, unless the folder of
// such an order is another supervised one. An order that was given before the folder existed has the configured path.
func (o *Orders) about(f Folder, configured string, others []Folder) []Pause {
	var same, here []Pause
	for _, p := range o.pauses {
		sum := p.pathSum()
		switch {
		case p.folder.is(f):
			same = append(same, p)
		case sum != pathSum(f.Path) && sum != pathSum(configured):
		case !slices.ContainsFunc(others, p.folder.is):
			here = append(here, p)
		}
	}
	return append(same, here...)
}

// pause records an order durably.
func (o *Orders) pause(p Pause, f Folder) (Pause, error) {
	p.Version, p.Folder, p.folder, p.problem = ordersVersion, f.Path, f, nil
	p.file = fileOfPause(pathSum(f.Path), f)
	if err := o.write(p); err != nil {
		return p, err
	}
	o.drop(p.file)
	o.pauses = append(o.pauses, p)
	return p, nil
}

func (o *Orders) write(p Pause) error {
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

// resume removes an order.
func (o *Orders) resume(p Pause) error {
	if o.root != nil {
		if err := o.root.Remove(path.Join(ordersFolder, p.file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	o.drop(p.file)
	return nil
}

func (o *Orders) drop(file string) {
	o.pauses = slices.DeleteFunc(o.pauses, func(p Pause) bool { return p.file == file })
}

// follow updates the orders about a project whose folder was found: the order of a folder that was moved gets the new path,
// one that was given before the folder existed gets its identity.
func (o *Orders) follow(d *projectState, all projects) error {
	var errs []error
	for _, p := range o.aboutProject(d, all) {
		moved := p.folder.is(d.folder) && p.pathSum() != pathSum(d.folder.Path)
		found := p.folder.Inode == 0 && d.folder.Inode != 0
		if p.problem != nil || !moved && !found {
			continue
		}
		_, err := o.pause(p, d.folder)
		if err == nil {
			err = o.resume(p)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// aboutProject lists the orders about a project.
func (o *Orders) aboutProject(d *projectState, all projects) []Pause {
	var others []Folder
	for _, other := range all {
		if other != d && len(o.pauses) > 0 {
			others = append(others, other.folder)
		}
	}
	return o.about(d.place(), d.project.Path, others)
}

// pausedWhy is why an order restricts a project to observation; "": no order exists.
func (o *Orders) pausedWhy(d *projectState, all projects) string {
	why := pausedBy(o.aboutProject(d, all))
	if why == "" && len(o.pauses) > 0 && d.unidentified != nil {
		return "there are paused projects, and it is not known which folder this one is: " + d.unidentified.Error()
	}
	return why
}

func pausedBy(orders []Pause) string {
	if len(orders) == 0 {
		return ""
	}
	return cmp.Or(orders[0].Why, "paused by you")
}

// pauseProject records the order to pause a project. It is on disk before the orders that it replaces are removed.
func (o *Orders) pauseProject(d *projectState, all projects, why string, deps *Deps, now time.Time) error {
	p, err := o.pause(Pause{Project: d.project.Name, Why: why, At: now.UTC()}, d.place())
	if err != nil {
		return err
	}
	return o.resumeProject(d, all, p.file, deps)
}

// resumeProject removes the orders that keep a project paused, except the one in the given file.
func (o *Orders) resumeProject(d *projectState, all projects, except string, deps *Deps) error {
	if d.unidentified != nil && except == "" && len(o.pauses) > 0 {
		return fmt.Errorf("it is not known which folder %s is: %w", d.project.Path, d.unidentified)
	}
	for _, p := range o.aboutProject(d, all) {
		if p.file == except {
			continue
		}
		if err := o.resume(p); err != nil {
			return err
		}
		over := orderAlert(p)
		over.Resolve, over.Detail = true, "another order took its place"
		_ = deps.Tell(over)
	}
	return nil
}

// Paused returns, for a command that only observes, why each project is paused.
func (o *Orders) Paused(folders map[string]Folder) map[string]string {
	paused := map[string]string{}
	for name, f := range folders {
		var others []Folder
		for other, g := range folders {
			if other != name {
				others = append(others, g)
			}
		}
		if why := pausedBy(o.about(f, f.Path, others)); why != "" {
			paused[name] = why
		}
	}
	return paused
}

// tell raises incidents for order files that cannot be used, and resolves those that can be used again.
func (o *Orders) tell(tell func(rules.Alert) error) {
	for _, p := range o.pauses {
		alert := orderAlert(p)
		if p.problem == nil {
			alert.Resolve, alert.Detail = true, "it can be read again"
		}
		_ = tell(alert)
	}
}

// orderAlert is the incident about an unusable order file.
func orderAlert(p Pause) rules.Alert {
	a := rules.Alert{Kind: "order_unreadable", Severity: protocol.Medium, Foreign: true, Code: p.file, Options: []rules.Option{{ID: decide.OptionDone, Label: "Taken care of"}},
		Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "orders"},
		Summary: "an order to pause a project cannot be read, and stays in force"}
	a.Key = decide.KeyOf(a)
	if p.problem != nil {
		a.Detail = fmt.Sprintf("%s in the state folder: %v. Its project is only observed until: steward resume PROJECT", path.Join(ordersFolder, p.file), p.problem)
		a.Occurrence = p.problem.Error()
	}
	return a
}
