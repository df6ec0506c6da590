package kanban

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

var currentFile = filepath.Join("kanban", "current")

// Current is the board that people mean when they name none. A pointer to a board that is gone falls back to default.
func (r *Root) Current() Slug {
	f, err := r.fs.Open(currentFile)
	if err != nil {
		return DefaultSlug
	}
	defer f.Close()
	const most = 4096
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return DefaultSlug
	}
	slug, err := ParseSlug(strings.TrimPrefix(string(text), "\ufeff"))
	if err != nil || !r.exists(slug) {
		return DefaultSlug
	}
	return slug
}

// SetCurrent makes a board the current one.
func (r *Root) SetCurrent(slug Slug) error {
	info, err := r.Lookup(slug)
	if err != nil {
		return err
	}
	if err := r.fs.MkdirAll("kanban", 0o755); err != nil {
		return fmt.Errorf("switch board: %w", err)
	}
	if err := r.writeFile(currentFile, []byte(string(info.Slug)+"\n")); err != nil {
		return fmt.Errorf("switch board: %w", err)
	}
	return nil
}
