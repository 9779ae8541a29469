package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
)

// TamperedError refuses a document of ours that is not as it was written.
type TamperedError struct {
	File   string // base name
	Detail string
}

// Error names the file.
func (e *TamperedError) Error() string {
	return fmt.Sprintf("%s is not as it was written: %s", e.File, e.Detail)
}

type envelope struct {
	Body   json.RawMessage  `json:"body"`
	SHA256 authority.Digest `json:"sha256"`
}

// Encode returns the canonical form of a plain value.
func Encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return canonical.Append(nil, text)
}

// DigestOf is the SHA-256 of the canonical form of a plain value.
func DigestOf(v any) (authority.Digest, error) {
	text, err := Encode(v)
	if err != nil {
		return authority.Digest{}, err
	}
	return authority.DigestOf(text), nil
}

// seal returns the sealed document of a value, and the digest of its body.
func seal(v any) ([]byte, authority.Digest, error) {
	body, err := Encode(v)
	if err != nil {
		return nil, authority.Digest{}, err
	}
	digest := authority.DigestOf(body)
	text, err := Encode(envelope{Body: body, SHA256: digest})
	return append(text, '\n'), digest, err
}

// openSealed reads a sealed document into v. The text must be exactly what seal
// writes for the value it decodes to, so that nothing unknown can hide in it.
func openSealed(path string, v any) (authority.Digest, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return authority.Digest{}, err
	}
	tampered := func(detail string) (authority.Digest, error) {
		return authority.Digest{}, &TamperedError{File: filepath.Base(path), Detail: detail}
	}
	var env envelope
	if err := canonical.DecodeStrict(text, &env); err != nil {
		return tampered("it is not a sealed document")
	}
	if authority.DigestOf(env.Body) != env.SHA256 {
		return tampered("its digest differs")
	}
	if err := canonical.DecodeStrict(env.Body, v); err != nil {
		return tampered("its body has another shape")
	}
	again, digest, err := seal(v)
	if err != nil || !bytes.Equal(again, text) {
		return tampered("it is spelled otherwise")
	}
	return digest, nil
}

// write replaces a sealed document durably and reads it back.
func write(path string, v any) error {
	text, _, err := seal(v)
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Replace(path, 0o600, text); err != nil {
		return err
	}
	back, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(back, text) {
		return &TamperedError{File: filepath.Base(path), Detail: "it reads back otherwise right after the write"}
	}
	return nil
}
