package filestore

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"hash"

	"github.com/loopx-project/loopx-migrate/authority"
)

// prefixSum hashes texts of which consecutive ones often begin alike. It puts the
// state of the hash down every so many bytes, and takes it up where the text last
// hashed and the new one part.
type prefixSum struct {
	sum    hash.Hash
	text   []byte   // last hashed
	states [][]byte // behind each whole stride of it
}

// sumStride weighs what is hashed twice around a change against the states kept.
const sumStride = 4 << 10

func (p *prefixSum) digest(text []byte) (d authority.Digest) {
	if p.sum == nil {
		p.sum = sha256.New()
	}
	known := p.common(text)
	p.takeUp(known)
	at := known * sumStride
	p.text = append(p.text[:at], text[at:]...)
	p.states = p.states[:known]
	for ; len(text)-at >= sumStride; at += sumStride {
		p.sum.Write(text[at : at+sumStride])
		p.putDown()
	}
	p.sum.Write(text[at:])
	p.sum.Sum(d[:0])
	return d
}

// common is how many strides the last text and the new one have in common.
func (p *prefixSum) common(text []byte) int {
	n := min(len(p.states), len(text)/sumStride)
	for i := range n {
		if !bytes.Equal(p.text[i*sumStride:(i+1)*sumStride], text[i*sumStride:(i+1)*sumStride]) {
			return i
		}
	}
	return n
}

func (p *prefixSum) takeUp(strides int) {
	if strides == 0 {
		p.sum.Reset()
		return
	}
	if err := p.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.states[strides-1]); err != nil {
		panic("filestore: a state of sha256 cannot be taken up: " + err.Error()) // it was put down by the same code
	}
}

func (p *prefixSum) putDown() {
	var state []byte
	if n := len(p.states); n < cap(p.states) {
		state = p.states[:n+1][n][:0] // one that is not needed any more
	}
	state, err := p.sum.(encoding.BinaryAppender).AppendBinary(state)
	if err != nil {
		panic("filestore: the state of sha256 cannot be put down: " + err.Error()) // crypto/sha256 documents that it can
	}
	p.states = append(p.states, state)
}
