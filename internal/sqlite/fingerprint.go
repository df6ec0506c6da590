package sqlite

import (
	"os"
)

// Fingerprint tells whether a file that could not be used has been changed since. It is taken without opening
// anything, and it is comparable.
type Fingerprint struct{ Main, WAL FileMark }

// FileMark is one file's part; the zero value means that it is not there.
type FileMark struct {
	There bool
	Size  int64 // bytes
	Mtime int64 // nanoseconds
}

// TakeFingerprint looks at a database and its -wal. It asks for modification times, which makes the next sync of
// a live database dearer, so it is for files that are not in use.
func TakeFingerprint(path string) Fingerprint {
	return Fingerprint{Main: markOf(path), WAL: markOf(path + "-wal")}
}

func markOf(path string) FileMark {
	info, err := os.Stat(path)
	if err != nil {
		return FileMark{}
	}
	return FileMark{There: true, Size: info.Size(), Mtime: info.ModTime().UnixNano()}
}
