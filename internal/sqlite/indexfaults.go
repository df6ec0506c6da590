package sqlite

import (
	"context"
	"strings"
)

// IndexFaults asks SQLite's own check for everything that is wrong, through the writer's connection, and reports whether
// all of it is about indexes that do not agree with their tables: rows are whole then, and a REINDEX mends it. It blocks
// the writer for a read of the whole file.
func (f *File) IndexFaults(ctx context.Context) (faults []string, indexOnly bool, err error) {
	err = f.Peek(ctx, func(c *Conn) (err error) {
		faults, err = c.faults()
		return err
	})
	for _, fault := range faults {
		if !aboutPlainIndex(fault) {
			return faults, false, err
		}
	}
	return faults, len(faults) > 0 && err == nil, err
}

// aboutPlainIndex: SQLite gives these complaints no code.
func aboutPlainIndex(fault string) bool {
	for _, part := range strings.Split(fault, "; ") {
		if !strings.Contains(part, "wrong # of entries in index ") && !(strings.HasPrefix(part, "row ") && strings.Contains(part, " missing from index ")) {
			return false
		}
	}
	return true
}
