package faultfs

import (
	"bytes"
	"io"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

const (
	ioerrDirFsync = sqlite3.IOERR_DIR_FSYNC
	ioerrFsync    = sqlite3.IOERR_FSYNC
)

// file is one open file of a disk.
type file struct {
	below
	disk     *Disk
	path     string
	node     int
	syncsDir bool // with its next sync, as the library does for a journal that it may have made
}

// ReadAt reads, or comes up short by half.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	hit, err := f.disk.strike(Read, f.path)
	if err != nil {
		return 0, err
	}
	if hit != nil {
		n, _ := f.below.ReadAt(p[:len(p)/2], off)
		return n, io.EOF
	}
	return f.below.ReadAt(p, off)
}

// WriteAt writes. One that fails has written half of it.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	_, fail := f.disk.strike(Write, f.path)
	if fail != nil {
		p = p[:len(p)/2]
	}
	n, err := f.below.WriteAt(p, off)
	f.disk.log = append(f.disk.log, event{kind: wrote, node: f.node, off: off, data: bytes.Clone(p[:n])})
	if fail != nil {
		return n, fail
	}
	return n, err
}

// Truncate cuts the file.
func (f *file) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.disk.strike(Truncate, f.path); err != nil {
		return err
	}
	f.disk.log = append(f.disk.log, event{kind: cut, node: f.node, off: size})
	return f.below.Truncate(size)
}

// SizeHint lets the file grow ahead of its writes.
func (f *file) SizeHint(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.disk.strike(Write, f.path); err != nil {
		return err
	}
	f.disk.log = append(f.disk.log, event{kind: grown, node: f.node, off: size})
	return f.below.SizeHint(size)
}

// Sync makes what was written durable. The disk below is not asked: the power is cut on paper.
func (f *file) Sync(vfs.SyncFlag) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.disk.strike(Sync, f.path); err != nil {
		f.disk.log = append(f.disk.log, event{kind: syncFailed, node: f.node})
		return vfs.SystemError(err, ioerrFsync)
	}
	f.disk.log = append(f.disk.log, event{kind: synced, node: f.node})
	if !f.syncsDir {
		return nil
	}
	f.syncsDir = false
	return f.disk.syncDir()
}
