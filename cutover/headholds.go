package cutover

import (
	"errors"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// coordinationHolds are the holds against a head of the reference implementation, which
// has counters and receipts of its own and names the store that may act on it.
func coordinationHolds(projection authority.Canonical, goal string, store authority.Identity, now time.Time) []Hold {
	schema := text(member(projection, "schema_version"))
	head, err := coordination.ParseCoordinationHead(projection)
	if err != nil {
		var fault *coordination.HeadError
		errors.As(err, &fault)
		return []Hold{{Code: string(fault.Reason), Record: fault.Path, Detail: fault.Detail}}
	}
	var holds []Hold
	if head.GoalID != goal {
		holds = append(holds, Hold{Code: "head_of_another_goal", Record: head.GoalID, Detail: "the head names another goal"})
	}
	switch {
	case head.Schema == coordination.SchemaV0:
		holds = append(holds, Hold{Code: string(coordination.ReasonHeadMigration), Record: schema, Detail: "a head of this schema is never read as current; upgrade-head first"})
	case head.Binding != store:
		holds = append(holds, Hold{Code: "store_binding", Record: string(head.Binding), Detail: "the head is bound to another store than the one it is in; rebind first"})
	}
	return append(holds, leasesOf(head, now)...)
}

func leasesOf(head *coordination.CoordinationHead, now time.Time) []Hold {
	var holds []Hold
	for todo, lease := range head.Leases {
		hold := Hold{Code: "lease_active", Record: todo, Detail: "release or complete it first"}
		if expires, err := time.Parse(time.RFC3339, string(lease.ExpiresAt)); err == nil && !expires.After(now) {
			hold = Hold{Code: "lease_expired_still_active", Record: todo, Acceptable: true, Detail: "the lease has expired and still stands"}
		}
		holds = append(holds, hold)
	}
	return holds
}

// openWork are the leases of a head of either shape that stand in the way back.
func openWork(projection authority.Canonical, now time.Time) []Hold {
	if !coordinationHead(projection) {
		return leaseHolds(member(projection, "leases"), nil, now)
	}
	head, err := coordination.ParseCoordinationHead(projection)
	if err != nil {
		return []Hold{{Code: "lease_active", Record: "coordination/leases", Detail: "whether a lease stands cannot be told: " + err.Error()}}
	}
	return leasesOf(head, now)
}

// coordinationHead reports whether a head is one of the reference implementation.
func coordinationHead(projection authority.Canonical) bool {
	schema := text(member(projection, "schema_version"))
	return schema == coordination.SchemaV0 || schema == coordination.SchemaV1
}
