package kanban

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The parts of a SQLite header that say how long the file must be, both big endian.
const (
	headerPageSize  = 16
	headerChanges   = 24
	headerPageCount = 28
	headerValidFor  = 92 // equals headerChanges where the page count can be believed
	headerEnd       = 100
)

var errTorn = errors.New("torn-extend detected")

// tornAtRest refuses a file that is shorter than its header says, before SQLite makes a -wal and a -shm beside it. With a
// -wal or a journal there the missing pages may be in it, and SQLite decides. The header is read a second time before
// a short file is believed: a writer may just have finished.
func tornAtRest(path string) error {
	var short error
	for range 2 {
		if short = tornCheck(path); short == nil || hasBytes(path+"-wal") || hasBytes(path+"-journal") {
			return nil
		}
	}
	return short
}

func hasBytes(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Size() > 0
}

// tornCheck says nothing about what it cannot read: SQLite's own error is better.
func tornCheck(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, headerEnd)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || string(head[:16]) != "SQLite format 3\x00" {
		return nil
	}
	pageSize := int64(binary.BigEndian.Uint16(head[headerPageSize:]))
	if pageSize == 1 {
		pageSize = 65536
	}
	claimed := int64(binary.BigEndian.Uint32(head[headerPageCount:]))
	believed := string(head[headerChanges:headerPageCount]) == string(head[headerValidFor:headerValidFor+4])
	if pageSize < 512 || !believed || st.Size()/pageSize >= claimed {
		return nil
	}
	return fmt.Errorf("%w: page count mismatch on %s: header claims %d pages, file has %d pages (missing %d pages, file_size=%d, page_size=%d)",
		errTorn, path, claimed, st.Size()/pageSize, claimed-st.Size()/pageSize, st.Size(), pageSize)
}
