package pgstore

import "context"

// RecallCandidate makes a Goal a candidate under an id: one that is open, or fenced or a
// candidate under the same id. From then on only the importer writes to it. A place that
// another id holds is ReasonFenceHeld.
func (s *Store) RecallCandidate(ctx context.Context, candidateID string) error {
	return s.turn(ctx, "recall candidate", candidateID, nil, func(now Standing) (Standing, error) {
		if now.State != FenceOpen && now.ID != candidateID {
			return now, fenceHeld(now)
		}
		return Standing{FenceCandidate, candidateID}, nil
	})
}

// FenceCandidateOf turns a candidate, or a Goal that is open since it was released, into a
// fenced Goal under that id: nobody writes, the importer included. Fenced already, there is
// nothing to do. A place that another id holds is ReasonFenceHeld.
func (s *Store) FenceCandidateOf(ctx context.Context, candidateID string) error {
	return s.turn(ctx, "fence candidate", candidateID, nil, func(now Standing) (Standing, error) {
		if now.State != FenceOpen && now.ID != candidateID {
			return now, fenceHeld(now)
		}
		return Standing{FenceEngaged, candidateID}, nil
	})
}
