package sqlite

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Capture is a copy of a generation that is not on disk any more: the database, its -wal and its -shm as a handle
// still had them open. It is a directory beside the database, complete once it has its name.
type Capture struct {
	Dir      string
	Manifest Manifest // zero where manifest.json cannot be read
}

// Manifest says what a capture holds and where it comes from.
type Manifest struct {
	Version    int       `json:"version"`
	Database   string    `json:"database"` // path
	Trigger    string    `json:"trigger"`  // "halt" when the loss was met, "close" when the handle ended
	Reason     Reason    `json:"reason"`
	PID        int       `json:"pid"`
	CapturedAt time.Time `json:"captured_at"`
	Runtime    string    `json:"runtime"` // of Go
	SQLite     string    `json:"sqlite"`
	Main       MainImage `json:"main"`
	WAL        *Image    `json:"wal,omitempty"`
	SHM        *Image    `json:"shm,omitempty"`
	OnDisk     OnDisk    `json:"path_generation_at_capture"` // what the paths named then

	MainWrittenAt time.Time `json:"main_written_at"` // the database's last change
	LostAt        time.Time `json:"lost_at"`         // the -wal's last change: its last row or the loss of its name
	Note          string    `json:"note,omitempty"`
	Unfinished    bool      `json:"unfinished,omitempty"` // a writer was killed in the middle, and what undoes its half is not here
}

// Image is one captured file.
type Image struct {
	Identity string `json:"identity"` // device:inode of the original
	File     string `json:"file"`     // in the capture's directory
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
}

// MainImage is the database itself, or only its header where it was too large to copy.
type MainImage struct {
	Image
	Size   int64  `json:"size"` // of the original
	Mode   string `json:"mode"` // MainCopied or MainHeaderOnly
	Header Header `json:"header"`
}

// The modes of a MainImage.
const (
	MainCopied     = "copied"
	MainHeaderOnly = "header_only"
)

// Header is what the first hundred bytes of a database say.
type Header struct {
	Valid           bool   `json:"valid"`
	PageSize        int    `json:"page_size"`
	ChangeCounter   uint32 `json:"change_counter"`
	PageCount       uint32 `json:"page_count"`
	UserVersion     uint32 `json:"user_version"`
	ApplicationID   uint32 `json:"application_id"`
	VersionValidFor uint32 `json:"version_valid_for"`
}

// OnDisk is what lay at the three paths, as device:inode; empty is nothing.
type OnDisk struct {
	Main     string `json:"main"`
	WAL      string `json:"wal"`
	SHM      string `json:"shm"`
	WALBytes int64  `json:"wal_bytes"`
}

const (
	manifestVersion = 1
	manifestName    = "manifest.json"
	captureWord     = ".retired-wal-"
	partialSuffix   = ".partial"
)

func parseHeader(head []byte) Header {
	if len(head) < headerSize {
		return Header{}
	}
	u := func(at int) uint32 { return binary.BigEndian.Uint32(head[at:]) }
	size := int(binary.BigEndian.Uint16(head[headerPageSize:]))
	if size == 1 {
		size = 65536
	}
	return Header{
		Valid: strings.HasPrefix(string(head), magic), PageSize: size, ChangeCounter: u(24),
		PageCount: u(headerPageCount), UserVersion: u(60), ApplicationID: u(headerAppID), VersionValidFor: u(92),
	}
}

func (n inode) String() string {
	if n == (inode{}) {
		return ""
	}
	return fmt.Sprintf("%d:%d:%d", n.major, n.minor, n.ino)
}

// Captures lists the captures beside a database, newest first. One whose process died on the way has no name of its
// own yet and is left out: see Unfinished.
func Captures(path string) ([]Capture, error) {
	dirs, err := captureDirs(path)
	var found []Capture
	for _, dir := range dirs {
		if !strings.HasSuffix(dir, partialSuffix) {
			found = append(found, FindCapture(dir))
		}
	}
	slices.SortFunc(found, func(a, b Capture) int { // names are of one second: two processes meet a loss in the same one
		return cmp.Or(b.Manifest.CapturedAt.Compare(a.Manifest.CapturedAt), strings.Compare(b.Dir, a.Dir))
	})
	return found, err
}

// Unfinished lists the directories of captures that are being made, or whose process died on the way (.partial). Nothing
// removes them: what is in one may be nowhere else.
func Unfinished(path string) ([]string, error) {
	dirs, err := captureDirs(path)
	return slices.DeleteFunc(dirs, func(dir string) bool { return !strings.HasSuffix(dir, partialSuffix) }), err
}

func captureDirs(path string) (dirs []string, err error) {
	full, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("list captures of %s: %w", path, err)
	}
	entries, err := os.ReadDir(filepath.Dir(full))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list captures of %s: %w", path, err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), filepath.Base(full)+captureWord) {
			dirs = append(dirs, filepath.Join(filepath.Dir(full), e.Name()))
		}
	}
	return dirs, nil
}

// FindCapture is ReadCapture for who lets ReplayCapture say what is wrong.
func FindCapture(dir string) Capture {
	c, _ := ReadCapture(dir)
	return c
}

// ReadCapture reads the manifest of one capture.
func ReadCapture(dir string) (Capture, error) {
	c := Capture{Dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err == nil {
		err = json.Unmarshal(data, &c.Manifest)
	}
	if err != nil {
		return Capture{Dir: dir}, fmt.Errorf("read capture %s: %w", dir, err)
	}
	return c, nil
}

// Owns reports whether the capture was taken of the very main file that is open: the same inode.
func (f *File) Owns(c Capture) bool {
	return c.Manifest.Main.Identity != "" && c.Manifest.Main.Identity == f.ident.main.String()
}

// Bytes is what the capture takes on disk.
func (c Capture) Bytes() int64 {
	n := c.Manifest.Main.Bytes
	for _, i := range []*Image{c.Manifest.WAL, c.Manifest.SHM} {
		if i != nil {
			n += i.Bytes
		}
	}
	return n
}

// same: the same rows of the same files. An empty -wal says nothing, so there the databases are compared too.
func (c Capture) same(m Manifest) bool {
	old := c.Manifest
	if old.Main.Identity != m.Main.Identity || (old.WAL == nil) != (m.WAL == nil) {
		return false
	}
	if m.WAL != nil && m.WAL.Bytes > 0 {
		return old.WAL.Identity == m.WAL.Identity && old.WAL.SHA256 == m.WAL.SHA256
	}
	return old.Main.Mode == m.Main.Mode && old.Main.SHA256 == m.Main.SHA256
}

// outlived reports that the database which got this capture's rows back is itself gone from the disk: the mark of a
// salvage says nothing about the one that lies there now, and a person would be told to throw the last copy away.
func (c Capture) outlived(m Manifest) bool {
	return c.Salvaged() && m.OnDisk.Main != m.Main.Identity
}
