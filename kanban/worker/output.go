package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A card's log is appended to by each of its runs, and the words of an earlier run explain nothing about this one. So
// a run's directory remembers where in the log the run began.
const outputFile = "output.json"

// output is that place. A log that was rotated since is another file, and then all of it is this run's.
type output struct {
	Path string `json:"path"`
	From int64  `json:"from"`
	File string `json:"file,omitempty"` // which file it was; "" = there was none
}

// outputAt is the present end of a log.
func outputAt(path string) output {
	o := output{Path: path}
	if info, err := os.Stat(path); err == nil {
		o.From, o.File = info.Size(), fileIdentity(info)
	}
	return o
}

func (o output) save(dir string) error {
	text, err := json.Marshal(o)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, outputFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("note where the output begins: %w", err)
	}
	return nil
}

// outputIn reads it back. Without it there is no telling whose words the log holds, so there are none.
func outputIn(dir string) output {
	var o output
	text, err := os.ReadFile(filepath.Join(dir, outputFile))
	if err != nil || json.Unmarshal(text, &o) != nil {
		return output{}
	}
	return o
}

// tail is the end of what the run wrote.
func (o output) tail() string {
	f, err := os.Open(o.Path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := o.From
	if o.File != fileIdentity(info) || info.Size() < from {
		from = 0
	}
	return readTail(f, from, info.Size())
}

// LogTail reads the end of the log of a worker that somebody else started, of which nothing but its beginning is
// known: a log that was last written before is another run's. A log that cannot be read is empty.
func LogTail(path string, began time.Time) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.ModTime().Before(began) {
		return ""
	}
	return readTail(f, 0, info.Size())
}

func fileIdentity(info os.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}
