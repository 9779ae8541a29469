package cutover

import (
	"context"

	"github.com/loopx-project/loopx-migrate/fence"
)

// lockWriters keeps LoopX's writers out until w.unlock.
func (f *Flow) lockWriters(ctx context.Context, w *work) error {
	if err := w.unlock(); err != nil { // a step that holds them already would wait for itself
		return err
	}
	request := fence.LockRequest{StateFile: f.Registration.StateFile, Wait: f.LockWait, Operation: "loopx-migrate " + w.request.Command}
	if w.files {
		request.Legacy = &fence.LegacyLocks{Registry: f.Registration.Path}
	}
	held, err := fence.Lock(ctx, f.Place, request)
	if err != nil {
		return err
	}
	w.unlock = held.Release
	return nil
}
