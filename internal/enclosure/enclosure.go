package enclosure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

// ErrOutside says that a path is not strictly inside the directory.
var ErrOutside = errors.New("is not inside the directory that it belongs in")

// ErrMounted says that something is mounted in a tree that would be removed.
var ErrMounted = errors.New("something is mounted in it")

// Dir is an open directory of ours. What is done through it is done to the directory that was opened, whatever
// becomes of its name. It is safe for concurrent use.
type Dir struct {
	path string
	real string // path without links
	root *os.Root
}

// Open opens an existing directory. Its parent is taken as it is; the directory itself must not be a link that leads out of
// the parent.
func Open(path string) (*Dir, error) {
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("open %s: %w", path, ErrOutside)
	}
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	root, err := parent.OpenRoot(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &Dir{path: path, real: resolved, root: root}, nil
}

// Make is Open for a directory that is made where it is missing, for its owner alone.
func Make(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return Open(path)
}

// Close gives the directory back.
func (d *Dir) Close() error { return d.root.Close() }

// Path is the directory's name.
func (d *Dir) Path() string { return d.path }

// Root is the directory for whoever opens or makes files in it by relative names.
func (d *Dir) Root() *os.Root { return d.root }

// Name gives the name, relative to the directory, of an absolute path that is strictly inside it: by its words, and with
// every link followed as far as it exists. No directory on the way may be a link, not even one that stays inside. Both
// spellings of the directory are understood, with its links and without.
func (d *Dir) Name(path string) (string, error) {
	if mutation.On("containment-not-checked") {
		return filepath.Rel(d.path, path)
	}
	name, ok := inside(d.path, path)
	if !ok {
		if name, ok = inside(d.real, path); !ok {
			return "", fmt.Errorf("%s %w (%s)", path, ErrOutside, d.path)
		}
	}
	for _, part := range []string{filepath.Dir(name), name} {
		at := filepath.Join(d.real, part)
		resolved, err := filepath.EvalSymlinks(at)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil // os.Root refuses what a dangling link would lead to
		}
		if err != nil {
			return "", err
		}
		if _, ok := inside(d.real, resolved); resolved != at && (part != name || !ok) {
			return "", fmt.Errorf("%s (really %s) %w (%s)", path, resolved, ErrOutside, d.path)
		}
	}
	return name, nil
}

// inside gives the name of path relative to dir if it is strictly below. Nothing is cleaned first: a path with `..` in it is
// refused even where it would come back, because the system may read it in another way.
func inside(dir, path string) (string, bool) {
	name, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
	if !ok || name == "." || !filepath.IsLocal(name) || filepath.Clean(name) != strings.TrimSuffix(name, "/") {
		return "", false
	}
	return filepath.Clean(name), true
}

// Remove deletes the tree at an absolute path that is strictly inside. Links in it go, what they point to stays. It refuses
// where something is mounted below. What is not there is no error.
func (d *Dir) Remove(path string) error {
	name, err := d.Name(path)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return d.RemoveName(name)
}

// RemoveName is Remove for a relative name.
func (d *Dir) RemoveName(name string) error {
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
		return fmt.Errorf("remove %s: %w", name, ErrOutside)
	}
	if err := d.unmounted(name); err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Join(d.path, name), err)
	}
	err := d.root.RemoveAll(name)
	if errors.Is(err, fs.ErrPermission) { // package caches make their directories read-only
		d.open(name)
		err = d.root.RemoveAll(name)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Join(d.path, name), err)
	}
	return nil
}

// unmounted looks for mount points at or below a name. A bind mount of the same file system has the same device number, so
// only the mount table tells.
func (d *Dir) unmounted(name string) error {
	points, err := procfs.MountsUnder(filepath.Join(d.real, name))
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%w: %s", ErrMounted, points[0])
	}
	return nil
}

// open makes the directories of a tree writable for their owner.
func (d *Dir) open(name string) {
	info, err := d.root.Lstat(name)
	if err != nil || !info.IsDir() {
		return
	}
	_ = d.root.Chmod(name, 0o700)
	dir, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	entries, _ := dir.ReadDir(-1)
	_ = dir.Close()
	for _, e := range entries {
		if e.IsDir() {
			d.open(filepath.Join(name, e.Name()))
		}
	}
}
