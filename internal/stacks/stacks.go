// Package stacks owns the files in which a daemon writes down what each of its goroutines is doing: when somebody asks, and before it
// ends itself because a part of it hangs. A file holds names of functions and addresses, and no value of any variable.
package stacks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// Keep is how many files there are at most; the oldest go.
const Keep = 10

// most is how much one file holds: some ten thousand goroutines.
const most = 16 << 20

// Write makes a private file in dir with the stacks of all goroutines and gives its path. why is its first line. It may be called
// while everything else hangs: it takes no lock and asks nobody.
func Write(dir, why string, now time.Time) (path string, err error) {
	path = filepath.Join(dir, now.UTC().Format("stacks-20060102T150405.000Z.log"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write stacks: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("write stacks: %w", err)
	}
	_, err = fmt.Fprintf(file, "%s, %s\n\n%s", now.UTC().Format(time.RFC3339), why, all())
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("write stacks: %w", err)
	}
	tidy(dir)
	return path, nil
}

// all are the stacks, in a buffer that grows until they fit.
func all() []byte {
	for size := 1 << 16; ; size *= 4 {
		text := make([]byte, min(size, most))
		if n := runtime.Stack(text, true); n < len(text) || size >= most {
			return text[:n]
		}
	}
}

// tidy removes the oldest. Their names are in the order of their times.
func tidy(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "stacks-*.log"))
	if err != nil {
		return
	}
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-Keep)] {
		_ = os.Remove(name)
	}
}
