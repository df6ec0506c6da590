//go:build !linux

package sqlite

import (
	"os"
	"time"
)

// The daemon refuses to run anywhere but on Linux; these stand-ins only let it build there to say so.

func statInode(path string) (inode, error) {
	if _, err := os.Lstat(path); err != nil {
		return inode{}, nil
	}
	return inode{ino: 1}, nil
}

func changes(*os.File) (written, changed time.Time) { return }

func fdInode(int) (inode, error) { return inode{ino: 1}, nil }

func (c *Conn) unlockShm() error { return nil }

func (e *fault) paper() error { return e }

func diskReadOnly(string) bool { return false }

func diskFull(string) bool { return false }

func birthOf(string) (time.Time, bool) { return time.Time{}, false }

func freeBytes(string) (int64, error) { return 1 << 40, nil }

func fdatasync(file *os.File) error { return file.Sync() }

func (n inode) is(_, ino uint64) bool { return n.ino == ino }
