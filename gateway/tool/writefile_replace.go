package tool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gatewayd/internal/mutation"
)

// Modes of what is new. The umask of the daemon takes more away.
const (
	newFile = 0o644
	newDir  = 0o755
)

// mine refuses a file of another user: replacing it would take it from them.
func mine(said string, info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d)", said, s.Uid)
	}
	return nil
}

func readAll(file io.Reader, info fs.FileInfo, said string) (string, error) {
	if info.Size() > maxWritten {
		return "", fmt.Errorf("%s has %d bytes; files of at most %d are changed", said, info.Size(), maxWritten)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxWritten+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", said, err)
	case len(text) > maxWritten:
		return "", fmt.Errorf("%s grows while it is read", said)
	}
	return string(text), nil
}

// replace puts a text in the file's place: a new file beside it, on the disk, then renamed. Links on the way were followed before,
// so a link stays one. The mode stays, and group and owner where that is permitted.
func (p *place) replace(text string, old *existing) (fs.FileInfo, error) {
	dir, err := p.openDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name := filepath.Base(p.name)
	beside := "." + name + "." + strings.ToLower(rand.Text()[:10]) + ".new"
	info, err := writeBeside(dir, beside, text, old)
	if err == nil {
		err = unchanged(dir, name, old)
	}
	if err == nil {
		err = dir.Rename(beside, name)
	}
	if err != nil {
		_ = dir.Remove(beside)
		return nil, fmt.Errorf("write %s: %w", p.said, err)
	}
	syncDir(dir)
	if again, err := dir.Lstat(name); err == nil {
		info = again // a rename is a change of the inode too
	}
	return info, nil
}

// openDir opens the directory of the file, which is made where it is missing.
func (p *place) openDir() (*os.Root, error) {
	name := filepath.Dir(p.name)
	if err := p.root.MkdirAll(name, newDir); err != nil {
		return nil, fmt.Errorf("make the directory of %s: %w", p.said, err)
	}
	dir, err := p.root.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open the directory of %s: %w", p.said, err)
	}
	itself, err := dir.Open(".")
	if err == nil {
		err = stillAt(itself, filepath.Dir(p.real), p.said)
		_ = itself.Close()
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

var errMeanwhile = errors.New("somebody else changed it in this very moment. Read it again")

// unchanged looks once more, now that the new text is on the disk, which may have taken its time.
func unchanged(dir *os.Root, name string, old *existing) error {
	info, err := dir.Lstat(name)
	switch {
	case mutation.On("last-look-is-left-out"):
	case errors.Is(err, fs.ErrNotExist) && old == nil:
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil || old == nil || stampOf(info) != stampOf(old.info):
		return errMeanwhile
	}
	return nil
}

func writeBeside(dir *os.Root, name, text string, old *existing) (fs.FileInfo, error) {
	mode := fs.FileMode(newFile)
	if old != nil {
		mode = 0o600 // until it is as it was
	}
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(text)
	if err == nil && old != nil {
		err = likeOld(file, old.info)
	}
	info, serr := file.Stat()
	return info, errors.Join(err, serr, file.Sync(), file.Close())
}

// likeOld gives a file the mode of another, and its group where that is permitted.
func likeOld(file *os.File, old fs.FileInfo) error {
	if s, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = file.Chown(int(s.Uid), int(s.Gid))
	}
	return file.Chmod(old.Mode().Perm())
}

// syncDir makes the new name durable. Where a file system cannot, the file is there all the same.
func syncDir(dir *os.Root) {
	if d, err := dir.Open("."); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
