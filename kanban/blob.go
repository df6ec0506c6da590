package kanban

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gatewayd/internal/enclosure"
	"gatewayd/internal/problem"
)

// MaxAttachment is what one file may have, as in Hermes.
const MaxAttachment = 25 << 20

// ErrTooLarge is the cause where a file has more than MaxAttachment.
var ErrTooLarge = errors.New("is larger than 25 MiB")

const mostCollisions = 1000

// blob is a file below the board's attachments that no row names yet. Until one does it can be dropped, and a process
// that is killed meanwhile leaves it for GC.
type blob struct {
	path string // absolute
	name string // of the file alone
	size int64
}

// attachmentsDir opens the directory of the board's attachments, and makes it for a write.
func (b *Board) attachmentsDir(make bool) (*enclosure.Dir, error) {
	open := enclosure.Open
	if make {
		open = enclosure.Make
	}
	return open(b.attachments)
}

// store writes a file of a card, synced, under the first name that is free. No name is ever written over.
func (b *Board) store(task, name, numbering string, r io.Reader) (stored blob, err error) {
	dir, err := b.attachmentsDir(true)
	if err != nil {
		return blob{}, b.diskTrouble(err)
	}
	defer dir.Close()
	if err := dir.Root().MkdirAll(fileName(task), dirMode); err != nil {
		return blob{}, b.diskTrouble(err)
	}
	f, name, err := createFree(dir.Root(), fileName(task), name, numbering)
	if err != nil {
		return blob{}, b.diskTrouble(err)
	}
	at := filepath.Join(fileName(task), name)
	defer func() {
		if err != nil {
			_ = dir.Root().Remove(at)
		}
	}()
	size, err := fillSynced(f, r)
	if err == nil {
		err = syncIn(dir.Root(), fileName(task))
	}
	if err == nil {
		err = syncIn(dir.Root(), ".")
	}
	if err != nil {
		return blob{}, b.diskTrouble(err)
	}
	return blob{path: filepath.Join(dir.Path(), at), name: name, size: size}, nil
}

func createFree(root *os.Root, dir, name, numbering string) (*os.File, string, error) {
	for n := range mostCollisions {
		free := renumber(name, numbering, n)
		f, err := root.OpenFile(filepath.Join(dir, free), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if !errors.Is(err, fs.ErrExist) {
			return f, free, err
		}
	}
	return nil, "", fmt.Errorf("%d files are called %s: %w", mostCollisions, quote(name), fs.ErrExist)
}

// fillSynced copies at most MaxAttachment and closes the file.
func fillSynced(f *os.File, r io.Reader) (int64, error) {
	size, err := io.Copy(f, io.LimitReader(r, MaxAttachment+1))
	if err == nil && size > MaxAttachment {
		err = tooLarge(filepath.Base(f.Name()))
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return size, err
}

func tooLarge(name string) error {
	return &problem.Error{
		Kind: problem.Invalid, Thing: "file " + quote(name), What: "is larger than 25 MiB", Fate: "nothing was attached",
		Remedy: "attach a smaller one, or put it where people can fetch it and attach its address", Err: mark{ErrTooLarge},
	}
}

func syncIn(root *os.Root, name string) error {
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func (b *Board) diskTrouble(err error) error {
	return diskProblem("directory "+b.attachments+" of board "+string(b.slug), "cannot take a file", "nothing was attached", err)
}

// openBlob opens what a row calls a file of ours, if it is one. A row may have been written by anybody.
func (b *Board) openBlob(path string) (*os.File, error) {
	dir, err := b.attachmentsDir(false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name, err := dir.Name(path)
	if err != nil {
		return nil, err
	}
	f, err := dir.Root().OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return f, nil
}

// dropBlobs removes files that no row names, and the directories that are empty then.
func (b *Board) dropBlobs(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	dir, err := b.attachmentsDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	var failed error
	for _, path := range paths {
		name, err := dir.Name(path)
		if err == nil {
			err = removeFile(dir.Root(), name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
			continue
		}
		if below := filepath.Dir(name); below != "." {
			_ = dir.Root().Remove(below) // an empty one only
		}
	}
	return failed
}

func removeFile(root *os.Root, name string) error {
	st, err := root.Lstat(name)
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err == nil {
		err = root.Remove(name)
	}
	return err
}
