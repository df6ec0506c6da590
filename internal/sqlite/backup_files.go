package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// BackedFile is a file that rows name: an attachment of a card.
type BackedFile struct {
	Name   string `json:"name"` // below the backup's "files"
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const backupFiles = "files"

// copyTree copies the regular files below a directory, each with its digest. Links are not followed.
func copyTree(dir, stage string) (list []BackedFile, err error) {
	src, err := os.OpenRoot(dir)
	if dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("copy files of %s: %w", dir, err)
	}
	defer src.Close()
	err = fs.WalkDir(src.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		to := filepath.Join(stage, backupFiles, name)
		if err := copyFrom(src, name, to); err != nil {
			return err
		}
		n, sum, err := digest(to)
		list = append(list, BackedFile{name, n, sum})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("copy files of %s: %w", dir, err)
	}
	return list, nil
}

func copyFrom(src *os.Root, name, to string) error {
	in, err := src.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// checkFiles compares the files with the manifest.
func (b Backup) checkFiles() error {
	for _, file := range b.Manifest.Files {
		if !filepath.IsLocal(file.Name) {
			return classify(Corrupt, "the manifest names %q, which leads elsewhere", file.Name)
		}
		n, sum, err := digest(filepath.Join(b.Dir, backupFiles, file.Name))
		if err != nil {
			return err
		}
		if n != file.Bytes || sum != file.SHA256 {
			return classify(Corrupt, "%s is not what was written", file.Name)
		}
	}
	return nil
}

// restoreFiles puts files where none is: one that is there is what some row names, and stays.
func (b Backup) restoreFiles(dir string) error {
	if dir == "" {
		return nil
	}
	for _, file := range b.Manifest.Files {
		if err := restoreBeside(filepath.Join(b.Dir, backupFiles, file.Name), filepath.Join(dir, file.Name)); err != nil {
			return fmt.Errorf("restore %s: the database is restored: %w", file.Name, err)
		}
	}
	return nil
}

// removeFiles takes away what the manifest names, and directories that it emptied.
func (b Backup) removeFiles() error {
	root := filepath.Join(b.Dir, backupFiles)
	for _, file := range b.Manifest.Files {
		if !filepath.IsLocal(file.Name) {
			continue
		}
		if err := os.Remove(filepath.Join(root, file.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for dir := filepath.Dir(filepath.Join(root, file.Name)); len(dir) >= len(root); dir = filepath.Dir(dir) {
			if os.Remove(dir) != nil {
				break
			}
		}
	}
	return nil
}

// roomFor refuses a copy that will not fit before it fills the disk that the daemon writes to.
func (f *File) roomForCopy(dir string) error {
	free, err := f.opts.seams.free(dir)
	if err != nil || mutation.On("backup-fills-the-disk") {
		return nil // whatever is wrong with it is said by who writes there
	}
	need := int64(backupSpare)
	for _, path := range []string{f.path, f.walPath} {
		if info, err := os.Stat(path); err == nil {
			need += info.Size()
		}
	}
	if free >= need {
		return nil
	}
	return &problem.Error{
		Kind: problem.Full, Thing: "backup directory " + dir, What: fmt.Sprintf("has %d MB left and a copy of %s needs %d", free>>20, f.thing(), need>>20+1),
		Fate: "no backup was made; the older ones are there", Remedy: backupRoom, Err: syscall.ENOSPC,
	}
}

const (
	backupSpare = 16 << 20 // that must be left beside the copy for those who write
	backupRoom  = "free some space, keep fewer (backup.keep), or keep them on another disk (backup.dir)"
)

// targetProblem names the directory of backups where that is what is wrong; nil where it is not.
func (f *File) targetProblem(dir string, err error) error {
	p := &problem.Error{Kind: problem.Denied, Thing: "backup directory " + dir, What: "cannot be written to", Fate: "no backup was made; the older ones are there", Err: err}
	at, ours := errors.AsType[*fs.PathError](err)
	ours = ours && len(at.Path) >= len(dir) && at.Path[:len(dir)] == dir
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), f.fullAt(dir, err):
		p.Kind, p.What, p.Remedy = problem.Full, "has no space left for a copy of "+f.thing(), backupRoom
	case errors.Is(err, syscall.EROFS):
		p.What, p.Remedy = "is on a file system that is read-only", "mount it for writing, or name another directory (backup.dir)"
	case ours && errors.Is(err, fs.ErrPermission):
		p.Remedy = "check its owner and permissions, or name another directory (backup.dir)"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		p.What, p.Remedy = "is no directory", "move away what is there, or name another directory (backup.dir)"
	default:
		return nil
	}
	return p
}

// fullAt tells a disk that ran full while SQLite wrote the copy: it says no more than that a write failed.
func (f *File) fullAt(dir string, err error) bool {
	class := ClassOf(err)
	return (class == NoSpace || class == IO) && f.opts.seams.full(dir)
}
