package sqlite

import (
	"encoding/binary"
	"io"
	"os"

	"gatewayd/internal/problem"
)

// The header of a rollback journal, as far as it is read raw.
const (
	journalMagic  = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
	journalPages  = 16 // pages of the database before the transaction, big endian
	journalHeader = 28
)

// neverFinished reports whether the file is what a cut left of the very first transaction: the journal beside it, which
// SQLite syncs before it touches the database, says that the database had no page. What the file holds then is of no
// meaning, zeros mostly, and SQLite empties it.
func (f *File) neverFinished() bool {
	file, err := os.Open(f.path + "-journal")
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, journalHeader)
	if _, err := io.ReadFull(file, head); err != nil {
		return false
	}
	return string(head[:len(journalMagic)]) == journalMagic && binary.BigEndian.Uint32(head[journalPages:]) == 0
}

// preflightUnfinished lets a creation that was cut short begin anew, where creating is asked for.
func (f *File) preflightUnfinished() error {
	if f.opts.Create {
		return nil
	}
	return f.refuse(Missing, problem.NotFound, "was never finished being created", "create it first", nil)
}
