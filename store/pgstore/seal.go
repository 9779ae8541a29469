package pgstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Seals are made in the database by a trigger; sql/migrate.sql says how. Here they are
// recomputed from what the server prints, so that neither the trigger nor its table has
// to be believed.

// seal is a row of loopx_migrate_seals, in PostgreSQL's binary forms.
type seal struct {
	there       bool
	revision    int64
	operation   string
	committedAt []byte // timestamptz_send
	projection  []byte
	events      [][]byte
	receipts    [][]byte
	movedAt     []byte // timestamptz_send, nil where the head did not move to this cursor
	maker       string
	seal        []byte
}

// sealColumns are what a seal is read from; s is loopx_migrate_seals.
const sealColumns = `s.provider_revision, s.operation_id, timestamptz_send(s.committed_at), s.projection_sha256,
	s.events_sha256, s.receipts_sha256, timestamptz_send(s.head_updated_at), s.made_by, s.seal`

func (s *seal) scan(raw [][]byte) (err error) {
	*s = seal{there: raw[8] != nil}
	if !s.there {
		return nil
	}
	if len(raw[0]) != 8 {
		return errWire
	}
	s.revision, s.operation = int64(binary.BigEndian.Uint64(raw[0])), string(raw[1])
	s.committedAt, s.projection, s.movedAt, s.maker, s.seal = raw[2], raw[3], raw[6], string(raw[7]), raw[8]
	if s.events, err = arrayOf(raw[4]); err != nil {
		return err
	}
	s.receipts, err = arrayOf(raw[5])
	return err
}

// firstLink is what stands before the first seal of a Goal.
func firstLink(tenant, goal string) []byte {
	t, g := sha256.Sum256([]byte(tenant)), sha256.Sum256([]byte(goal))
	link := sha256.Sum256(append(append([]byte("loopx_migrate_seal_v1"), t[:]...), g[:]...))
	return link[:]
}

// chained is the seal that must follow previous at this cursor.
func (s *seal) chained(previous []byte, cursor int64) []byte {
	operation := sha256.Sum256([]byte(s.operation))
	text := binary.BigEndian.AppendUint64(bytes.Clone(previous), uint64(cursor))
	text = binary.BigEndian.AppendUint64(text, uint64(s.revision))
	text = append(append(append(text, operation[:]...), s.committedAt...), s.projection...)
	for _, list := range [][][]byte{s.events, s.receipts} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(list)))
		text = append(text, bytes.Join(list, nil)...)
	}
	made := sha256.Sum256(append(text, s.movedAt...))
	return made[:]
}

// line is a row of the audit: a record, what else its row has, and its seal.
type line struct {
	record
	committedAt            []byte
	lastEvent, lastReceipt int64 // the highest index, -1 when there is none
	seal                   seal
	projectionSum          [sha256.Size]byte // of the text as the server printed it
}

const lineColumns = recordColumns + `, timestamptz_send(c.committed_at),
	(SELECT coalesce(max(e.event_index), -1)::bigint FROM loopx_control_plane.authority_events AS e
		WHERE e.tenant_id = c.tenant_id AND e.goal_id = c.goal_id AND e.cursor = c.cursor),
	(SELECT coalesce(max(r.receipt_index), -1)::bigint FROM loopx_control_plane.authority_receipts AS r
		WHERE r.tenant_id = c.tenant_id AND r.goal_id = c.goal_id AND r.cursor = c.cursor), ` + sealColumns

// The seal is looked up row by row: LIMIT keeps the planner from joining a table that it
// believes to be small, which would read all seals again for each row.
const lineQuery = "SELECT " + lineColumns + ` FROM loopx_control_plane.authority_commits AS c
	LEFT JOIN LATERAL (SELECT * FROM loopx_control_plane.loopx_migrate_seals AS x
		WHERE x.tenant_id = c.tenant_id AND x.goal_id = c.goal_id AND x.cursor = c.cursor LIMIT 1) AS s ON TRUE
	WHERE c.tenant_id = $1 AND c.goal_id = $2 AND c.cursor >= $3 ORDER BY c.cursor`

// scan reads the values of lineColumns; the slices are the caller's to keep.
func (l *line) scan(raw [][]byte) error {
	if len(raw) != 18 || len(raw[7]) != 8 || len(raw[8]) != 8 {
		return errWire
	}
	if err := l.record.scan(raw[:6]); err != nil {
		return err
	}
	l.committedAt = raw[6]
	l.lastEvent, l.lastReceipt = int64(binary.BigEndian.Uint64(raw[7])), int64(binary.BigEndian.Uint64(raw[8]))
	l.projectionSum = sha256.Sum256(l.projection)
	return l.seal.scan(raw[9:])
}

// keep copies what the driver will overwrite with the next row into buffer.
func keep(raw [][]byte, buffer []byte) ([][]byte, []byte) {
	size := 0
	for _, value := range raw {
		size += len(value)
	}
	if cap(buffer) < size {
		buffer = make([]byte, 0, size)
	}
	buffer = buffer[:0]
	kept := make([][]byte, len(raw))
	for i, value := range raw {
		if value == nil {
			continue
		}
		from := len(buffer)
		buffer = append(buffer, value...)
		kept[i] = buffer[from:len(buffer):len(buffer)]
	}
	return kept, buffer
}

// prove holds the row against its seal and the seal against the one before. The first
// difference is named by its row and column.
func (l *line) prove(previous []byte) error {
	if !l.seal.there {
		return unsealed(l)
	}
	s := &l.seal
	for _, column := range []struct {
		name string
		same bool
	}{
		{"provider_revision", l.revision == s.revision},
		{"operation_id", l.operation == s.operation},
		{"committed_at", bytes.Equal(l.committedAt, s.committedAt)},
		{"projection", bytes.Equal(l.projectionSum[:], s.projection)},
	} {
		if !column.same {
			return l.defect("authority_commits."+column.name, "it is not what was sealed when it was committed")
		}
	}
	if err := l.proveList("authority_events", "event", l.events, l.lastEvent, s.events); err != nil {
		return err
	}
	if err := l.proveList("authority_receipts", "receipt", l.receipts, l.lastReceipt, s.receipts); err != nil {
		return err
	}
	if !bytes.Equal(s.chained(previous, l.cursor), s.seal) {
		return l.defect("loopx_migrate_seals.seal", "the seal does not follow the one before")
	}
	return nil
}

func (l *line) proveList(table, column string, rows [][]byte, last int64, sealed [][]byte) error {
	for i, row := range rows {
		at := fmt.Sprintf("%s[%d]", table, i)
		if i >= len(sealed) {
			return l.defect(at, "the row was added after the commit was sealed")
		}
		if sum := sha256.Sum256(row); !bytes.Equal(sum[:], sealed[i]) {
			return l.defect(at+"."+column, "it is not what was sealed when it was committed")
		}
	}
	if len(rows) < len(sealed) {
		return l.defect(fmt.Sprintf("%s[%d]", table, len(rows)), "the row was there when the commit was sealed and is gone")
	}
	if last != int64(len(rows))-1 {
		return l.defect(fmt.Sprintf("%s[%d].%s_index", table, last, column), "the indices do not run from 0 without a gap")
	}
	return nil
}
