package authority

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Place is where LoopX keeps one Goal under a runtime root. Its methods are pure
// names: nothing is looked up. Sources: shared layout of LoopX 0.5.1 to 2.1.1, as
// docs/formats.md lists it.
type Place struct {
	root string
	goal string
}

// NewPlace names the Goal under an absolute, resolved runtime root. A Goal id that
// is not one path segment is refused, since it would climb out of its folder.
func NewPlace(root, goal string) (Place, error) {
	if !filepath.IsAbs(root) || filepath.Clean(root) != root {
		return Place{}, fmt.Errorf("runtime root %q is not an absolute, clean path", root)
	}
	if goal == "" || goal == "." || goal == ".." || strings.ContainsAny(goal, "/\\\x00") {
		return Place{}, &GoalIDError{Goal: goal}
	}
	return Place{root: root, goal: goal}, nil
}

// GoalIDError refuses a Goal id that is not one path segment.
type GoalIDError struct{ Goal string }

// Error names the id.
func (e *GoalIDError) Error() string {
	return fmt.Sprintf("goal id %q is not one path segment", e.Goal)
}

// Root is the runtime root.
func (p Place) Root() string { return p.root }

// GoalID is the Goal.
func (p Place) GoalID() string { return p.goal }

// Rel is a path below the runtime root as it may be shared: relative, with slashes.
func (p Place) Rel(path string) string {
	rel, err := filepath.Rel(p.root, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return filepath.Base(path)
	}
	return filepath.ToSlash(rel)
}

// Selector is LoopX's durable record of which store is the authority.
func (p Place) Selector() string {
	return filepath.Join(p.root, "authority", "provider-"+GoalHash(p.goal)+".json")
}

// FileDir is the folder of file journals; its identity is shared by all Goals in it.
func (p Place) FileDir() string { return filepath.Join(p.root, "authority", "file-v0") }

// Journal is the Goal's document in FileDir.
func (p Place) Journal() string {
	return filepath.Join(p.FileDir(), "authority-store-"+GoalHash16(p.goal)+".json")
}

// StoreIdentity is the identity file of FileDir.
func (p Place) StoreIdentity() string { return filepath.Join(p.FileDir(), "store-identity") }

// SQLiteDir is the folder of SQLite databases.
func (p Place) SQLiteDir() string { return filepath.Join(p.root, "authority", "sqlite-v0") }

// Database is the Goal's SQLite database.
func (p Place) Database() string {
	return filepath.Join(p.SQLiteDir(), "authority-"+GoalHash(p.goal)+".sqlite")
}

// Transition is the folder of writer fences and writer locks.
func (p Place) Transition() string {
	return filepath.Join(p.root, "authority-transition", "file-v0")
}

// WriterFence is the durable mark that makes legacy writers refuse.
func (p Place) WriterFence() string {
	return filepath.Join(p.Transition(), "legacy-writer-fence-"+GoalHash16(p.goal)+".json")
}

// ShadowManagement is the folder of LoopX's shadow capture of this Goal.
func (p Place) ShadowManagement() string {
	return filepath.Join(p.Transition(), "shadow-management-"+GoalHash16(p.goal))
}

// MaintenanceLock is the lock target that every canonical writer of LoopX takes first.
func (p Place) MaintenanceLock() string {
	return filepath.Join(p.ShadowManagement(), "maintenance")
}

// TodoWriterLock is the lock target of Todo writers.
func (p Place) TodoWriterLock() string {
	return filepath.Join(p.Transition(), "legacy-todo-writer-"+GoalHash16(p.goal))
}

// LeaseWriterLock is the lock target of lease writers.
func (p Place) LeaseWriterLock() string {
	return filepath.Join(p.Transition(), "legacy-task-lease-writer-"+GoalHash16(p.goal))
}

// LeaseDir holds the legacy lease records.
func (p Place) LeaseDir() string {
	return filepath.Join(p.root, "goals", p.goal, "task-leases")
}

// LeaseLock is the lock target beside the lease records.
func (p Place) LeaseLock() string { return filepath.Join(p.LeaseDir(), ".task-leases") }

// ShadowOutbox holds captured writes that were not drained into a shadow store.
func (p Place) ShadowOutbox() string {
	return filepath.Join(p.root, "authority-shadow", "outbox", p.goal)
}

// LocalProvider holds the records of LoopX's own provider migrations, of all Goals.
func (p Place) LocalProvider() string {
	return filepath.Join(p.root, "authority-transition", "local-provider")
}

// Migration is this tool's own folder for the Goal.
func (p Place) Migration() string {
	return filepath.Join(p.root, "authority-transition", "loopx-migrate", GoalHash16(p.goal))
}
