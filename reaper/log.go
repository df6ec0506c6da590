package reaper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// cappedLog appends to a file and never lets it grow past max: a full file becomes the one old generation, ".1",
// while the child goes on writing.
type cappedLog struct {
	path string
	max  int64
	file *os.File
	size int64
}

func openLog(path string, limit int64) (*cappedLog, error) {
	l := &cappedLog{path: path, max: limit}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make directory of log: %w", err)
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *cappedLog) open() error {
	flags := os.O_WRONLY | os.O_APPEND | os.O_CREATE | openFlagsNoFollow()
	file, err := os.OpenFile(l.path, flags, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("open log %s: %w", l.path, err)
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write splits what does not fit, so that no generation is larger than max, whatever the size of one write.
func (l *cappedLog) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if l.size >= l.max {
			if err := l.rotate(); err != nil {
				return written, err
			}
		}
		n, err := l.file.Write(p[:min(int64(len(p)), l.max-l.size)])
		l.size += int64(n)
		written += n
		if err != nil {
			return written, fmt.Errorf("write log: %w", err)
		}
		p = p[n:]
	}
	return written, nil
}

func (l *cappedLog) rotate() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	return l.open()
}

func (l *cappedLog) Close() error { return l.file.Close() }
