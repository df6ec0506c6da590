//go:build !linux

package terminal

import (
	"os"

	"golang.org/x/term"
)

// makeRaw gives each key as it is pressed. It returns what puts the terminal back.
func makeRaw(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	was, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, was) }, nil
}
