package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// DecodeStrict reads one JSON document of a closed shape into v: an unknown member
// fails, and so does anything but blanks behind the document. The documents are this
// tool's own and LoopX's selector: a member that nobody knows may change what the
// others mean, so it is never passed over.
func DecodeStrict(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text behind the document")
	}
	return nil
}
