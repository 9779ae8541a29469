package filestore

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
)

// The pipeline's bounds: batches of rows in flight, text in a batch, goroutines
// that hash. A batch may be longer by one row.
const (
	batches   = 4
	batchSize = 512 << 10
	hashers   = 2
)

// batch is a run of rows on its way through the pipeline.
type batch struct {
	rows []*row
	text []byte // what the rows are cut from
	err  error  // why no row follows; io.EOF at the end
	done chan struct{}
}

// prove verifies the document from its first row, or from where the walk
// resumes, to its head. The refusal is LoopX's, by diagnose.
func (d *document) prove(ctx context.Context, w *walk) error {
	err := d.pass(ctx, w)
	var halt *stop
	switch {
	case err == nil:
		return nil
	case errors.As(err, &halt):
		return halt.err
	case ctx.Err() != nil:
		return ctx.Err()
	case w.resume != nil && w.rows < w.resume.cursor:
		return rewritten(w.resume.cursor).because(err)
	}
	if err := d.diagnose(ctx); err != nil {
		return err
	}
	return violation("the document changed while it was read").because(err)
}

// pass tries LoopX's own spelling first and any other next.
func (d *document) pass(ctx context.Context, w *walk) error {
	if found, ok := d.canonicalFrame(ctx); ok {
		d.frame = found
		err := d.run(ctx, w)
		var halt *stop
		if err == nil || errors.As(err, &halt) {
			return err
		}
	}
	o, err := d.outline(ctx)
	if err != nil {
		return err
	}
	if d.frame, err = d.frameOf(o); err != nil {
		return err
	}
	if err := d.run(ctx, w); err != nil {
		return err
	}
	w.findings.ofFrame(o)
	return nil
}

// ofFrame adds the oddities of the top level.
func (f *findings) ofFrame(o outline) {
	if o.repeated != "" {
		f.add(authority.Finding{Code: authority.FindingDuplicateKey, Field: o.repeated})
	}
	for _, kind := range f.kinds {
		if kind.Code == authority.FindingSpelling {
			return
		}
	}
	f.add(authority.Finding{Code: authority.FindingSpelling})
}

// run proves the rows of a document whose frame is known.
func (d *document) run(ctx context.Context, w *walk) error {
	if w.resume != nil && w.resume.Format != d.header.format {
		return &stop{rewritten(w.resume.cursor)}
	}
	if err := w.begin(); err != nil {
		return &stop{err}
	}
	ctx, cancel := context.WithCancel(ctx)
	p := pipeline{free: make(chan *batch, batches), hash: make(chan *batch, batches), order: make(chan *batch, batches)}
	for range batches {
		p.free <- &batch{done: make(chan struct{}, 1)}
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { p.cut(ctx, newCutter(d, w.start(d.header.format))) })
	for range hashers {
		running.Go(func() { p.seal(newSealer(d.goal, d.identity), w.audited) })
	}
	return p.collect(ctx, w, d.header)
}

// pipeline carries batches from the goroutine that cuts rows through those that
// hash them to the one that checks the chain. Each channel holds all batches
// there are, so that no send ever waits.
type pipeline struct {
	free, hash, order chan *batch
}

// cut fills batches until the rows end, something is wrong or ctx is done.
func (p *pipeline) cut(ctx context.Context, c *cutter) {
	defer close(p.hash)
	defer close(p.order)
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-p.free:
			b.fill(c)
			ended := b.err != nil // looked at before the batch is another's
			p.order <- b
			p.hash <- b
			if ended {
				return
			}
		}
	}
}

func (b *batch) fill(c *cutter) {
	b.rows, b.text, b.err = b.rows[:0], b.text[:0], nil
	for b.err == nil && len(b.text) < batchSize {
		r, err := c.cut(&b.text)
		if err != nil {
			b.err = err
			return
		}
		r.covering = c.covering
		b.rows = append(b.rows, r)
	}
}

// seal makes the checks of each row by itself.
func (p *pipeline) seal(s *sealer, audited bool) {
	var model modelCheck
	for b := range p.hash {
		for _, r := range b.rows {
			r.prove(s, &model, audited)
		}
		b.done <- struct{}{}
	}
}

// prove leaves what is wrong in r.err.
func (r *row) prove(s *sealer, model *modelCheck, audited bool) {
	if r.err = r.check(); r.err != nil {
		return
	}
	r.key = keyOf(r.operationID)
	if r.err = r.sealed(s); r.err != nil || !audited {
		return
	}
	r.digest = authority.DigestOf(r.projection)
	r.model = model.fault(r.projection)
	if r.compared {
		r.odd.InexactInteger = r.odd.InexactInteger || holdsInexactInteger(r.projection)
	}
}

// collect takes the rows in order.
func (p *pipeline) collect(ctx context.Context, w *walk, h header) error {
	var last []byte
	for b := range p.order {
		<-b.done
		for _, r := range b.rows {
			if err := w.take(r); err != nil {
				return err
			}
			w.covering = r.covering
		}
		if errors.Is(b.err, io.EOF) {
			if len(b.rows) > 0 {
				last = b.rows[len(b.rows)-1].projection
			}
			return w.finish(h, last)
		}
		if b.err != nil {
			return b.err
		}
		last = append(last[:0], b.rows[len(b.rows)-1].projection...)
		p.free <- b
		if err := ctx.Err(); err != nil {
			return &stop{err}
		}
	}
	return &stop{ctx.Err()}
}
