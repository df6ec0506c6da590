package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
)

// Floor is the disk's own price of a durable append, for benchmarks: what SQLite must write at least, without
// SQLite. It overwrites a file that has its size already, as a -wal does after its first round.
type Floor struct {
	file *os.File
	at   int64
	buf  []byte
}

const (
	walFrame    = 24 + 4096 // frame header and page
	floorFrames = 6         // of an append with a unique index, a session index and a counter row
	floorSize   = 1000 * walFrame
)

// NewFloor makes the file in a directory, which should be the one of the database that is measured.
func NewFloor(dir string) (*Floor, error) {
	file, err := os.Create(filepath.Join(dir, "floor"))
	if err != nil {
		return nil, fmt.Errorf("make floor: %w", err)
	}
	f := &Floor{file: file, buf: make([]byte, walFrame)}
	if _, err := file.Write(make([]byte, floorSize)); err != nil {
		f.Close()
		return nil, fmt.Errorf("make floor: %w", err)
	}
	if err := file.Sync(); err != nil {
		f.Close()
		return nil, fmt.Errorf("make floor: %w", err)
	}
	return f, nil
}

// Append writes six frames and syncs the data: the floor of one durable append.
func (f *Floor) Append() error {
	for range floorFrames {
		if f.at+walFrame > floorSize {
			f.at = 0
		}
		if err := f.write(f.buf[:24], f.at); err != nil {
			return err
		}
		if err := f.write(f.buf[24:], f.at+24); err != nil {
			return err
		}
		f.at += walFrame
	}
	return fdatasync(f.file)
}

// Overwrite writes one 4 KiB page in place and syncs the data.
func (f *Floor) Overwrite() error {
	if err := f.write(f.buf[:4096], 0); err != nil {
		return err
	}
	return fdatasync(f.file)
}

func (f *Floor) write(p []byte, at int64) error {
	_, err := f.file.WriteAt(p, at)
	return err
}

// Close removes the file.
func (f *Floor) Close() error {
	err := f.file.Close()
	if gone := os.Remove(f.file.Name()); err == nil {
		err = gone
	}
	return err
}
