package rehearsal

import (
	"github.com/loopx-project/loopx-migrate/witness"
)

// earlier keeps the legacy files of an arm as they were before the last operation that
// changed them: a copy to be taken for stale by the witness.
type earlier struct {
	at            copied
	now           witness.Files
	before        *witness.Files
	err           error
	operationDone func(done int)
}

// keepEarlier begins with the files as they are; next is told of each operation as well.
func keepEarlier(at copied, next func(done int)) (*earlier, error) {
	k := &earlier{at: at, operationDone: next}
	var err error
	k.now, err = k.load()
	return k, err
}

func (k *earlier) load() (witness.Files, error) {
	return witness.LoadFiles(k.at.place.GoalID(), k.at.registration.StateFile, k.at.place.LeaseDir())
}

// see looks at the files behind an operation.
func (k *earlier) see(done int) {
	k.operationDone(done)
	if k.err != nil {
		return
	}
	var now witness.Files
	if now, k.err = k.load(); k.err == nil && !now.Same(k.now) {
		before := k.now
		k.before, k.now = &before, now
	}
}
