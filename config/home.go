package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gatewayd/internal/problem"
)

// resolveHome finds the home: the flag, else the variable, else ~/.gatewayd. An empty flag is a mistake, an
// empty variable is none.
func (l *loader) resolveHome(flags map[string]string) error {
	from := Origin{Source: FromDefault}
	home, ok := flags["home"]
	switch {
	case ok && home == "":
		return &problem.Error{Kind: problem.Config, Thing: "--home", What: "is empty", Remedy: "name a directory"}
	case ok:
		from = Origin{Source: FromFlag, Place: "--home"}
	case l.Environ.Get(homeEnv) != "":
		home, from = l.Environ.Get(homeEnv), Origin{Source: FromEnv, Place: homeEnv}
	default:
		home = "~/.gatewayd"
	}
	absolute, err := l.expand(home)
	if err != nil {
		return err
	}
	l.Home, from.Value = absolute, absolute
	l.Origins["home"] = from
	return nil
}

// expand makes a path absolute, "~" being the HOME of the environment and everything else relative to the
// working directory.
func (l *loader) expand(path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		user := l.Environ.Get("HOME")
		if !filepath.IsAbs(user) {
			return "", &problem.Error{
				Kind: problem.Config, Thing: "home", What: "is unknown: HOME is not set to an absolute path",
				Remedy: "set HOME, set " + homeEnv + " or give --home DIR",
			}
		}
		path = filepath.Join(user, strings.TrimPrefix(path, "~"))
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", &problem.Error{Kind: problem.Config, Thing: path, What: "is not a path", Remedy: "give an absolute one", Err: err}
	}
	return absolute, nil
}

// absolute takes paths in settings relative to the home; an empty one stays empty.
func (l *loader) absolute(path string) string {
	switch {
	case path == "" || filepath.IsAbs(path):
		return path
	case path == "~" || strings.HasPrefix(path, "~/"):
		full, err := l.expand(path)
		if err != nil {
			l.problems = append(l.problems, err)
		}
		return full
	}
	return filepath.Join(l.Home, path)
}

// readSmall reads a regular file of at most a megabyte: a FIFO would block for ever and a device never end.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is a %s, not a file", kindOf(info.Mode()))
	}
	const limit = 1 << 20
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if len(text) > limit {
		return nil, errors.New("it is larger than a megabyte")
	}
	return text, err
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
