package daemon

import (
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor"
)

// OrdersAbout returns what people ordered about projects, for a command that reads without a daemon: why a project is paused,
// and by project and protocol the modes that steward mode set. Where steward never ran there are no orders.
func OrdersAbout(state string, refs []config.ProjectRef) (paused map[string]string, modes map[string]map[string]supervisor.ModeOrder, err error) {
	root, err := jsonfile.Open(state)
	if err != nil {
		return nil, nil, nil
	}
	defer root.Close()
	orders, err := supervisor.OpenOrders(root)
	if err != nil {
		return nil, nil, err
	}
	folders := map[string]supervisor.Folder{}
	for _, ref := range refs {
		if folders[ref.Name], err = FolderOf(ref.Path); err != nil {
			folders[ref.Name] = supervisor.Folder{Path: ref.Path}
		}
	}
	return orders.Paused(folders), orders.Modes(folders), nil
}
