package kanban

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

var currentFile = filepath.Join("kanban", "current")

// Current is the board that people mean when they name none. A pointer to a board that is gone falls back to default.
func (r *Root) Current() Slug {
	f, err := r.fs.OpenFile(currentFile, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not be waited for
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

// SetCurrent makes a board the current one. The default board must have a file.
func (r *Root) SetCurrent(slug Slug) error {
	info, err := r.Lookup(slug)
	if err != nil {
		return err
	}
	if slug == DefaultSlug && !info.HasFile && info.Trouble == "" { // it is always listed, though nobody may have made it
		return missingBoard(slug, info.Path)
	}
	err = r.fs.MkdirAll("kanban", dirMode)
	if err == nil {
		err = r.writeFile(currentFile, []byte(string(info.Slug)+"\n"))
	}
	if err != nil {
		return diskProblem("the current board below "+r.dir, "cannot be switched", "it stays "+string(r.Current()), err)
	}
	return nil
}
