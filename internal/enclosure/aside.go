package enclosure

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
)

const asideMark = ".gone-"

// SetAside renames a directory, so that it is gone from its place at once and can be removed at leisure, by a later process
// too. It refuses what Remove refuses, and what is not a directory.
func (d *Dir) SetAside(name string) (aside string, err error) {
	if filepath.Base(name) != name || !filepath.IsLocal(name) || name == "." {
		return "", fmt.Errorf("set %s aside: %w", name, ErrOutside)
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("set %s aside: it is no directory but %s: %w", filepath.Join(d.path, name), info.Mode().Type(), ErrOutside)
	}
	if err := d.unmounted(name); err != nil {
		return "", fmt.Errorf("set %s aside: %w", filepath.Join(d.path, name), err)
	}
	aside = asideMark + name + "." + rand.Text()
	if err := d.root.Rename(name, aside); err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	return aside, nil
}

// WasAside tells what a directory that was set aside was called.
func WasAside(aside string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(aside, asideMark)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot <= 0 {
		return "", false
	}
	return rest[:dot], true
}
