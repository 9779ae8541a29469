package sqlitestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// lens is a session that shows the database, directly or as it was at one moment.
type lens struct {
	*session
	path  string
	fixed bool     // the session shows the files as mark describes them
	mark  stamp    // of the files, when fixed
	copy  *scratch // the private copy that is read, nil when the database itself is
}

func (l *lens) close() error {
	if l == nil {
		return nil
	}
	err := l.session.close()
	if l.copy != nil {
		err = errors.Join(err, l.copy.remove())
	}
	return err
}

// steady reports whether what was read still is what stands there. A lens that is
// not fixed reads under SQLite's own locks and is always steady.
func (l *lens) steady() bool {
	if !l.fixed {
		return true
	}
	now, err := look(l.path)
	return err == nil && now == l.mark
}

// read runs work on one state of the database; nil stands for a file that is absent.
func (s *Store) read(ctx context.Context, work func(*session) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fs.ErrClosed
	}
	if s.options.Mode == Untouched {
		return s.readFixed(ctx, work)
	}
	in := s.writer
	if in == nil || !in.current(s.options.Path) {
		if err := s.hold(ctx); err != nil {
			return err
		}
		if s.held == nil {
			return work(nil)
		}
		in = s.held.session
	}
	return in.reading(ctx, func() error { return work(in) })
}

// hold makes s.held a lens on the file that stands at the path now, nil when none does.
func (s *Store) hold(ctx context.Context) error {
	if s.held != nil && s.held.current(s.options.Path) {
		return nil
	}
	if err := s.drop(); err != nil {
		return err
	}
	var err error
	s.held, err = s.aim(ctx)
	return err
}

// aim opens a lens of its own, nil when the file is absent.
func (s *Store) aim(ctx context.Context) (*lens, error) {
	if s.options.Mode == Untouched {
		return s.fix(ctx, time.Now().Add(s.options.BusyWait))
	}
	if _, err := os.Stat(s.options.Path); err != nil {
		return nil, unlessAbsent(err)
	}
	how := accessRead
	if s.options.Mode.writes() {
		how = accessWrite
	}
	in, err := openSession(ctx, s.options.Path, how, keepJournal, s.options)
	if err != nil {
		return nil, err
	}
	return &lens{session: in, path: s.options.Path}, nil
}

func unlessAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readFixed runs work on a lens that is fixed, and again on another one when the
// files changed meanwhile: then whatever work found or failed on means nothing.
func (s *Store) readFixed(ctx context.Context, work func(*session) error) error {
	deadline := time.Now().Add(s.options.BusyWait)
	for {
		if s.held != nil && !s.held.steady() {
			if err := s.drop(); err != nil {
				return err
			}
		}
		if s.held == nil {
			var err error
			if s.held, err = s.fix(ctx, deadline); err != nil {
				return err
			}
		}
		if s.held == nil {
			return work(nil)
		}
		in := s.held
		err := in.reading(ctx, func() error { return work(in.session) })
		if in.steady() {
			return err
		}
		if err := pause(ctx, settling, deadline); err != nil {
			return err
		}
	}
}

// drop closes every connection that is held between verbs.
func (s *Store) drop() error {
	err := s.held.close()
	s.held = nil
	if s.writer != nil {
		err = errors.Join(err, s.writer.close())
		s.writer = nil
	}
	return err
}
