package logfile

import (
	"os"
	"path/filepath"
	"sync/atomic"

	"gopkg.in/natefinch/lumberjack.v2"
)

// Bounds of what is kept.
const (
	MaxMegabytes = 10 // of one file: some 40,000 lines
	MaxOlder     = 3  // files beside the newest
)

// Path is the newest file of a home.
func Path(home string) string { return filepath.Join(home, "logs", "gatewayd.log") }

// Writer takes whole lines. What comes before Open is dropped: the home was not held yet, and another daemon may write there. It is
// safe for concurrent use. A line that cannot be written is lost, which must not cost the daemon anything.
type Writer struct {
	file atomic.Pointer[lumberjack.Logger]
}

// Open writes into the home from now on. The file is made with the first line, readable by its owner alone.
func (w *Writer) Open(home string) {
	_ = os.MkdirAll(filepath.Dir(Path(home)), 0o700) // lumberjack would let others list it
	w.file.Store(&lumberjack.Logger{Filename: Path(home), MaxSize: MaxMegabytes, MaxBackups: MaxOlder})
}

// Write writes one line.
func (w *Writer) Write(line []byte) (int, error) {
	if file := w.file.Load(); file != nil {
		_, _ = file.Write(line)
	}
	return len(line), nil
}

// Close closes the file. A later line opens it again.
func (w *Writer) Close() error {
	if file := w.file.Load(); file != nil {
		return file.Close()
	}
	return nil
}
