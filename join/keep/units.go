package keep

import (
	"context"
	"time"

	"github.com/livhana/steward/platform/service"
)

// unitsAgain is the pause before a service manager that could not be reached is looked for again.
const unitsAgain = 10 * time.Second

// servesAgents reports whether agents are to be services.
func (k *Keeper) servesAgents() bool {
	place := k.config().Place
	return place == PlaceService || place != PlaceSession && k.Managed
}

// units is the service manager, reached when it is needed for the first time: agents are to be services, or unit, that of
// a record, is one. Else, and where it cannot be reached, nil.
func (k *Keeper) units(ctx context.Context, unit string) *service.Units {
	if k.OpenUnits == nil || unit == "" && !k.servesAgents() {
		return nil
	}
	k.manager.Lock()
	defer k.manager.Unlock()
	if k.reached != nil || k.Now().Before(k.unitsAt) {
		return k.reached
	}
	found, err := k.OpenUnits(ctx)
	if err != nil {
		k.unitsAt = k.Now().Add(unitsAgain)
		k.Log.Warn("agents cannot be services of their own", "error", err)
		return nil
	}
	k.reached = found
	return found
}

func (k *Keeper) closeUnits() {
	k.manager.Lock()
	defer k.manager.Unlock()
	if k.reached != nil {
		k.reached.Close()
		k.reached = nil
	}
}
