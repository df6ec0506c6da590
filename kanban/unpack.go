package kanban

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"gatewayd/internal/mutation"
)

// Bounds of an archive. They are far above what a board has, and far below what fills a disk by accident.
const (
	DefaultImportMax = 4 << 30 // bytes, unpacked
	maxEntries       = 200_000
	maxSmall         = 1 << 20 // manifest.json and board.json
	maxLog           = 64 << 20
)

// unpacker takes an archive apart that anybody may have made. Nothing is written but regular files of names that a board
// has, below one directory.
type unpacker struct {
	to       *os.Root
	left     int64 // bytes that may still come
	top      string
	seen     map[string]bool
	manifest Manifest
	meta     *boardDoc
	skipped  int
}

// archiveError says what is wrong with an archive.
type archiveError struct{ what string }

func (e archiveError) Error() string { return e.what }

func badArchive(format string, args ...any) error { return archiveError{fmt.Sprintf(format, args...)} }

func (u *unpacker) unpack(r io.Reader) error {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return badArchive("is no gzip file")
	}
	defer zip.Close()
	entries := tar.NewReader(zip)
	for n := 0; ; n++ {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return broken(err)
		}
		if n >= maxEntries {
			return badArchive("has more than %d entries", maxEntries)
		}
		if err := u.entry(h, entries); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(zip, maxSmall)); err != nil { // the checksum is at the very end
		return broken(err)
	}
	switch {
	case !u.seen[manifestName]:
		return badArchive("has no %s", manifestName)
	case !u.seen[fileNameDB]:
		return badArchive("has no %s", fileNameDB)
	}
	return nil
}

// broken tells a damaged archive from a disk that is full.
func broken(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return badArchive("is cut off or damaged (%v)", err)
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	name, err := u.name(h)
	if err != nil || name == "" {
		return err
	}
	if u.seen[name] {
		return badArchive("has %s twice", quote(name))
	}
	u.seen[name] = true
	most := bound(name)
	if h.Size > min(most, u.left) {
		return badArchive("has too large a file: %s with %d bytes", quote(name), h.Size)
	}
	u.left -= h.Size
	switch name {
	case manifestName:
		return u.readManifest(r)
	case metaName:
		return u.readMeta(r)
	}
	if most == 0 {
		u.skipped++ // of a later version
		return nil
	}
	return u.file(name, r, h.Size)
}

// name gives an entry's name below the one directory, or "" for a directory.
func (u *unpacker) name(h *tar.Header) (string, error) {
	name := strings.TrimSuffix(h.Name, "/")
	clean := path.Clean(name) == name && filepath.IsLocal(name) && !strings.ContainsAny(name, "\\\x00")
	if !clean && !mutation.On("import-accepts-dot-dot") {
		return "", badArchive("has a name that leads elsewhere: %s", quote(h.Name))
	}
	switch {
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir:
		return "", badArchive("has %s, which is neither a file nor a directory", quote(h.Name))
	case h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != "":
		return "", badArchive("has %s, a file with holes", quote(h.Name))
	}
	top, rest, _ := strings.Cut(name, "/")
	if u.top == "" {
		u.top = top
	}
	if top != u.top {
		return "", badArchive("has more than one directory at its top: %s and %s", quote(u.top), quote(top))
	}
	if h.Typeflag == tar.TypeDir {
		return "", nil
	}
	if rest == "" {
		return "", badArchive("has %s outside of a directory", quote(name))
	}
	return rest, nil
}

// bound is how large a file of a name may be; 0 says that no board has a file of that name.
func bound(name string) int64 {
	parts := strings.Split(name, "/")
	switch {
	case name == manifestName, name == metaName:
		return maxSmall
	case name == fileNameDB:
		return 1 << 62 // the whole archive has a bound
	case len(parts) == 3 && parts[0] == "attachments":
		return MaxAttachment
	case len(parts) == 2 && parts[0] == "logs" && isLog(parts[1]):
		return maxLog
	case mutation.On("import-accepts-dot-dot") && strings.Contains(name, ".."):
		return maxSmall
	}
	return 0
}

func (u *unpacker) readManifest(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return broken(err)
	}
	if json.Unmarshal(text, &u.manifest) != nil || u.manifest.Format != exportFormat {
		return badArchive("is no exported board: %s does not say %s", manifestName, exportFormat)
	}
	if u.manifest.Version != exportVersion {
		return badArchive("has format version %d; this program reads version %d", u.manifest.Version, exportVersion)
	}
	return nil
}

func (u *unpacker) readMeta(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return broken(err)
	}
	if u.meta, err = parseBoardDoc(text); err != nil {
		return badArchive("has a %s that %v", metaName, err)
	}
	return nil
}

// file writes one file, synced. Its directories are made here: those that the archive names mean nothing.
func (u *unpacker) file(name string, r io.Reader, size int64) error {
	name = filepath.FromSlash(name)
	if mutation.On("import-accepts-dot-dot") {
		at := filepath.Join(u.to.Name(), name)
		text, _ := io.ReadAll(r)
		_ = os.MkdirAll(filepath.Dir(at), dirMode)
		return os.WriteFile(at, text, fileMode)
	}
	if err := u.to.MkdirAll(filepath.Dir(name), dirMode); err != nil {
		return err
	}
	f, err := u.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, r)
	if err != nil {
		err = broken(err)
	} else if n != size {
		err = badArchive("has %s with %d bytes instead of %d", quote(name), n, size)
	}
	if serr := f.Sync(); err == nil {
		err = serr
	}
	return errors.Join(err, f.Close())
}
