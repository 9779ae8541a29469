package canonical

// State is a canonical object on which deltas are replayed one after another.
// It takes apart only what the deltas touch and keeps that apart, so that a
// step of a long replay costs little more than printing the result. It refers to
// the text it was made from and to the deltas applied, which must not change
// while it is in use.
type State struct{ root node }

// NewState takes a canonical object; canonical form is the caller's promise. The
// error is a *DeltaError for a text that is no object.
func NewState(text []byte) (*State, error) {
	if Kind(text) != Object {
		return nil, deltaFault("needs an object")
	}
	return &State{root: node{raw: text}}, nil
}

// Apply replays a delta. Operations apply in order, each to what the one before
// left. The error is a *DeltaError for the first operation that does not fit;
// the state is then between two and good for nothing more.
func (s *State) Apply(d Delta) error {
	for i := range d.operations {
		if fault := s.root.apply(&d.operations[i]); fault != "" {
			return &DeltaError{Operation: i, Reason: "authority state delta " + fault}
		}
	}
	return nil
}

// AppendTo appends the text of the state, which is canonical.
func (s *State) AppendTo(dst []byte) []byte { return s.root.appendTo(dst) }

// Apply appends the state that the delta makes of prev, a canonical object. The
// result is canonical. On error dst comes back as it was; the error is that of
// State.Apply.
func (d Delta) Apply(dst, prev []byte) ([]byte, error) {
	state, err := NewState(prev)
	if err != nil {
		return dst, err
	}
	if err := state.Apply(d); err != nil {
		return dst, err
	}
	return state.AppendTo(dst), nil
}
