package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// quietInput is after how long a person is told that standard input is waited for.
const quietInput = 2 * time.Second

// toSay is what a command line and standard input say together: the text, and then what is piped. A - stands for standard input, and
// a terminal is read only where it is asked for so.
func (c *cli) toSay(args []string) (string, error) {
	var said []string
	asked := len(args) == 0
	for _, word := range args {
		if word == "-" {
			asked = true
			continue
		}
		said = append(said, word)
	}
	parts := []string{strings.Join(said, " ")}
	if asked || piped(c.std.in) {
		piece, err := c.readAll()
		if err != nil {
			return "", err
		}
		parts = append(parts, piece)
	}
	return strings.TrimSpace(strings.Join(parts, "\n\n")), nil
}

// piped reports that something is handed over on standard input: a pipe or a file. Whatever a service manager gives (/dev/null, a
// socket) is no message.
func piped(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&fs.ModeNamedPipe != 0)
}

// readAll reads standard input to its end. One that gives nothing for a while may be a pipe that somebody forgot to close.
func (c *cli) readAll() (string, error) {
	hint := time.AfterFunc(quietInput, func() {
		fmt.Fprintln(c.std.err, "gatewayd: standard input is read to its end; give it </dev/null where there is nothing to read")
	})
	defer hint.Stop()
	raw, err := io.ReadAll(c.std.in)
	return string(raw), err
}
