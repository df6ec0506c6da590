package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// resolve gives the one absolute name of a path, following links, also where the file or the directories above
// it do not exist yet: a link to a file that is still to be made counts as that file.
func resolve(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	const links = 40 // as many as the kernel follows
	resolved, err := follow(absolute, links)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	return resolved, nil
}

func follow(path string, links int) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
		return resolved, err
	}
	dir, err := follow(filepath.Dir(path), links)
	if err != nil {
		return "", err
	}
	full := filepath.Join(dir, filepath.Base(path))
	target, err := os.Readlink(full)
	if err != nil {
		return full, nil // not there at all, or made by now: its own name is right either way
	}
	if links == 0 {
		return "", errors.New("too many links")
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	return follow(target, links-1)
}
