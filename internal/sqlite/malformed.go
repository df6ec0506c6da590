package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

// keepMalformedCopies is how many raw copies of one damaged file are kept.
const keepMalformedCopies = 3

const malformedMark = ".malformed-backup-"

// keepMalformed copies a damaged file and what lies beside it, byte by byte, once for the same bytes. Nobody may have
// it open.
func (f *File) keepMalformed(space func(string) (free, total uint64)) (string, error) {
	sum, size, err := rawDigest(f.path)
	if err != nil {
		return "", fmt.Errorf("keep the damaged file: %w", err)
	}
	copies, err := malformedCopies(f.path)
	if err != nil {
		return "", fmt.Errorf("keep the damaged file: %w", err)
	}
	for _, old := range copies {
		if have, _, err := rawDigest(old); err == nil && have == sum {
			return old, nil
		}
	}
	if free, total := space(f.dir()); free < uint64(size)+max(headroom, total/50) {
		return "", f.refuse(NoSpace, problem.Full, fmt.Sprintf("needs %d MB of free space for a copy before it is repaired", (uint64(size)+headroom)>>20), "free some space", nil)
	}
	to, err := f.copyRaw()
	if err != nil {
		return "", fmt.Errorf("keep the damaged file: %w", err)
	}
	return to, dropMalformed(copies)
}

// copyRaw copies the sidecars first: the copy counts from the moment the main file has its name.
func (f *File) copyRaw() (string, error) {
	to := f.path + malformedMark + time.Now().UTC().Format("20060102_150405")
	for n, want := 1, to; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s_%d", want, n)
	}
	for _, side := range append(slices.Clone(sidecars), "") {
		if _, err := os.Lstat(f.path + side); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		fresh := to + side + partialMark
		os.Remove(fresh)
		if err := errors.Join(copyFile(f.path+side, fresh), syncFile(fresh), os.Rename(fresh, to+side)); err != nil {
			os.Remove(fresh)
			return "", err
		}
	}
	return to, syncDir(f.dir())
}

// malformedCopies lists the raw copies, oldest first.
func malformedCopies(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, filepath.Base(path)+malformedMark) || strings.HasSuffix(name, partialMark) ||
			slices.ContainsFunc(sidecars, func(s string) bool { return strings.HasSuffix(name, s) }) {
			continue
		}
		found = append(found, filepath.Join(filepath.Dir(path), name))
	}
	return found, nil
}

// dropMalformed removes the oldest, so that with the one just made as many as may be are left.
func dropMalformed(copies []string) error {
	for _, old := range copies[:max(0, len(copies)-keepMalformedCopies+1)] {
		for _, side := range append([]string{""}, sidecars...) {
			if err := os.Remove(old + side); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove an old copy of a damaged file: %w", err)
			}
		}
	}
	return nil
}

// rawDigest is the digest of a database and of what lies beside it and may hold rows; the -shm does not.
func rawDigest(path string) (sum string, size int64, err error) {
	for _, side := range []string{"", "-wal", "-journal"} {
		n, part, err := digest(path + side)
		if side != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", 0, err
		}
		sum, size = sum+part+side+" ", size+n
	}
	return sum, size, nil
}

// spaceOf gives the free bytes of a directory's file system and all of its bytes; what cannot be asked is plenty.
func spaceOf(dir string) (free, total uint64) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 1 << 62, 0
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize)
}
