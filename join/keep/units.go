package keep

import (
	"context"
	"time"

	"github.com/livhana/steward/platform/service"
)

// unitsAgain is the pause before another attempt to reach the service manager.
const unitsAgain = 10 * time.Second

// servesAgents reports whether agents are to run as services.
func (k *Keeper) servesAgents() bool {
	place := k.config().Place
	return place == PlaceService || place != PlaceSession && k.Managed
}

// units returns the service manager and connects to it on first use. It is needed if agents are to run as services, or
// if unit names a recorded one. Otherwise, or if the manager cannot be reached, it returns nil.
func (k *Keeper) units(ctx context.Context, unit string) *service.Units {
	if k.OpenUnits == nil || unit == "" && !k.servesAgents() {
		return nil
	}
	k.unitsMu.Lock()
	defer k.unitsMu.Unlock()
	if k.unitsConn != nil || k.Now().Before(k.unitsRetry) {
		return k.unitsConn
	}
	found, err := k.OpenUnits(ctx)
	if err != nil {
		k.unitsRetry = k.Now().Add(unitsAgain)
		k.Log.Warn("agents cannot be services of their own", "error", err)
		return nil
	}
	k.unitsConn = found
	return found
}

func (k *Keeper) closeUnits() {
	k.unitsMu.Lock()
	defer k.unitsMu.Unlock()
	if k.unitsConn != nil {
		k.unitsConn.Close()
		k.unitsConn = nil
	}
}
