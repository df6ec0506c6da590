package terminal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of a history.
const (
	HistoryLines = 1_000    // kept in the file
	historyBytes = 8 << 10  // of one line; a longer one is a text and not something that is typed again
	historyFile  = 16 << 20 // of a file that is read at all
)

// History is what a person has typed before, oldest first, kept in a file of one entry per line that only its owner may read. Several
// terminals may add to one file. It is used by one goroutine.
type History struct {
	path  string
	lines []string
}

// OpenHistory reads a history; a file that is missing is an empty one. A file that has grown to twice the bound is written anew. The
// error says that nothing could be read, the history works all the same.
func OpenHistory(path string) (*History, error) {
	h := &History{path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > historyFile {
		return h, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(raw)) {
		h.lines = append(h.lines, unescape.Replace(strings.TrimSuffix(line, "\n")))
	}
	if over := len(h.lines) - HistoryLines; over > 0 {
		h.lines = h.lines[over:]
		if over > HistoryLines {
			err = h.rewrite()
		}
	}
	return h, err
}

var (
	escape   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// Add keeps a line, unless it begins with a space, is the last one again, or is too long.
func (h *History) Add(line string) error {
	if line == "" || line[0] == ' ' || len(line) > historyBytes || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return nil
	}
	h.lines = append(h.lines, line)
	if h.path == "" {
		return nil
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(escape.Replace(line) + "\n")
	return errors.Join(err, f.Close())
}

// Lines gives what was typed, oldest first.
func (h *History) Lines() []string { return slices.Clone(h.lines) }

func (h *History) rewrite() error {
	f, err := os.CreateTemp(filepath.Dir(h.path), ".history-*") // 0600
	if err != nil {
		return err
	}
	for _, line := range h.lines {
		if _, werr := f.WriteString(escape.Replace(line) + "\n"); err == nil {
			err = werr
		}
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), h.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
