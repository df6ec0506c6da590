package kanban

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gatewayd/internal/enclosure"
)

// staging is a directory in which something is made that gets its name when it is whole. It is locked for as long, and what a
// process that was killed left is cleared away by the next one: its lock went with it.
type staging struct {
	in   *enclosure.Dir
	name string
	path string
	lock *os.File
}

const stageMark = ".making-"

// stage makes a new one in a directory of the root.
func (r *Root) stage(dir string) (*staging, error) {
	in, err := enclosure.Make(dir)
	if err != nil {
		return nil, diskProblem("directory "+dir, "cannot be used", unchanged, err)
	}
	clearStages(in)
	s := &staging{in: in, name: stageMark + rand.Text()}
	s.path = filepath.Join(dir, s.name)
	if err = in.Root().Mkdir(s.name, dirMode); err == nil {
		if s.lock, err = in.Root().Open(s.name); err == nil {
			err = flock(s.lock, unix.LOCK_EX|unix.LOCK_NB)
		}
	}
	if err != nil {
		s.drop()
		return nil, diskProblem("directory "+dir, "cannot be used", unchanged, err)
	}
	return s, nil
}

// drop removes it with all that is in it.
func (s *staging) drop() {
	_ = s.in.RemoveName(s.name)
	if s.lock != nil {
		_ = s.lock.Close()
	}
	_ = s.in.Close()
}

func clearStages(in *enclosure.Dir) {
	entries, _ := os.ReadDir(in.Path())
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), stageMark) || !e.IsDir() {
			continue
		}
		left, err := in.Root().Open(e.Name())
		if err != nil {
			continue
		}
		if flock(left, unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = in.RemoveName(e.Name())
		}
		_ = left.Close()
	}
}

// removeTree removes a directory of the root, by its parent and its name.
func (r *Root) removeTree(parent, name string) error {
	in, err := enclosure.Open(filepath.Join(r.dir, parent))
	if err != nil {
		return err
	}
	defer in.Close()
	return in.RemoveName(name)
}
