package sqlite

import "os"

// alignModes gives the sidecars the permissions of the database: they hold the same rows, but the library creates
// them by the process's umask alone. It is done when they differ, so normally once in the life of a file.
func (f *File) alignModes() {
	main, err := os.Stat(f.path)
	if err != nil || f.journal.Mode != "wal" {
		return
	}
	for _, path := range []string{f.path + "-wal", f.path + "-shm"} {
		side, err := os.Lstat(path)
		if err != nil || !side.Mode().IsRegular() || side.Mode().Perm() == main.Mode().Perm() {
			continue
		}
		if err := os.Chmod(path, main.Mode().Perm()); err != nil {
			f.log.Warn("permissions of a database file differ and cannot be set", "path", path, "error", err)
		}
	}
}
