package kanban

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gatewayd/internal/enclosure"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// An exported board is a tar.gz with one directory: manifest.json first, board.json, kanban.db, and as far as they were
// asked for attachments/<card>/<file> and logs/<file>. Hermes reads and writes the same format.
const (
	exportFormat  = "hermes-kanban-board"
	exportVersion = 1
	manifestName  = "manifest.json"
	metaName      = "board.json"
	fileNameDB    = "kanban.db"
	rawName       = "raw.db" // before it was scrubbed
)

// Manifest says what an exported board holds.
type Manifest struct {
	Format     string           `json:"format"`
	Version    int              `json:"format_version"`
	Board      string           `json:"board"`
	Name       string           `json:"board_name"`
	ExportedAt int64            `json:"exported_at"`
	Hermes     string           `json:"hermes_version"`
	Includes   Includes         `json:"includes"`
	Counts     map[string]int64 `json:"counts"`
}

// Includes are the parts of a board beside its cards.
type Includes struct {
	Attachments bool `json:"attachments"`
	Logs        bool `json:"logs"`
}

// ExportOptions say what of a board is exported beside its cards.
type ExportOptions struct {
	Includes
	Version string // of this program, for the manifest
}

// Exported says what was written.
type Exported struct {
	Manifest Manifest `json:"manifest"`
	Missing  []string `json:"missing,omitempty"` // attachments whose file is not there
}

// Export writes a board as one archive. The database is a verified copy of one moment, from which claims, sessions,
// subscriptions and everything else that is about this machine was taken out. It runs beside whoever works on the board, and
// needs room for one copy in the exports directory while it does.
func (r *Root) Export(ctx context.Context, b *Board, w io.Writer, o ExportOptions) (Exported, error) {
	stage, err := r.stage(r.ExportsDir())
	if err != nil {
		return Exported{}, err
	}
	defer stage.drop()
	e := exporter{root: r, board: b, options: o, dir: stage.path}
	err = e.prepare(ctx)
	if err == nil {
		err = e.write(ctx, w)
	}
	if err != nil {
		return Exported{}, diskProblem(BoardLabel(b.slug), "cannot be exported", "the board is as it was; there is no whole archive", err)
	}
	return e.done, nil
}

type exporter struct {
	root    *Root
	board   *Board
	options ExportOptions
	dir     string
	done    Exported
	blobs   []stagedBlob
}

// stagedBlob is a file of a card and its name in the archive.
type stagedBlob struct{ name, path string }

// prepare makes the scrubbed copy and reads from it what goes into the archive.
func (e *exporter) prepare(ctx context.Context) error {
	raw := filepath.Join(e.dir, rawName)
	if err := e.board.file.Snapshot(ctx, raw, counted...); err != nil {
		return err
	}
	copied, err := Open(ctx, Options{Path: raw, Slug: e.board.slug})
	if err != nil {
		return err
	}
	defer copied.Close()
	if err := copied.scrub(ctx); err != nil {
		return err
	}
	if e.options.Attachments {
		if err := e.listBlobs(ctx, copied); err != nil {
			return err
		}
	}
	info := e.root.info(e.board.slug)
	e.done.Manifest = Manifest{
		Format: exportFormat, Version: exportVersion, Board: string(e.board.slug), Name: info.Name, ExportedAt: time.Now().Unix(),
		Hermes: "gatewayd " + e.options.Version, Includes: e.options.Includes,
	}
	if e.done.Manifest.Counts, err = copied.count(ctx); err != nil {
		return err
	}
	return copied.file.Snapshot(ctx, filepath.Join(e.dir, fileNameDB), counted...)
}

// listBlobs finds the files that rows name, those that lie where files of this board belong.
func (e *exporter) listBlobs(ctx context.Context, copied *Board) error {
	dir, err := e.board.attachmentsDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	rows, err := copied.allAttachments(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		f, err := e.board.openBlob(row.path)
		if err != nil {
			e.done.Missing = append(e.done.Missing, row.path)
			continue
		}
		_ = f.Close()
		e.blobs = append(e.blobs, stagedBlob{name: "attachments/" + fileName(row.task) + "/" + filepath.Base(row.path), path: row.path})
	}
	return nil
}

func (e *exporter) write(ctx context.Context, w io.Writer) error {
	zip := gzip.NewWriter(w)
	out := &archive{tar: tar.NewWriter(zip), top: string(e.board.slug), at: time.Unix(e.done.Manifest.ExportedAt, 0), seen: map[string]bool{}}
	manifest, err := json.MarshalIndent(e.done.Manifest, "", "  ")
	if err != nil {
		return err
	}
	meta, err := e.meta()
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return out.bytes(manifestName, append(manifest, '\n')) },
		func() error { return out.bytes(metaName, meta) },
		func() error { return out.path(fileNameDB, filepath.Join(e.dir, fileNameDB)) },
		func() error { return e.writeBlobs(ctx, out) },
		func() error { return e.writeLogs(ctx, out) },
		out.tar.Close,
		zip.Close,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// meta is board.json without what is about this machine.
func (e *exporter) meta() ([]byte, error) {
	doc, err := e.root.readDoc(e.board.slug)
	if err != nil {
		doc = newBoardDoc(e.board.slug, time.Now().Unix())
	}
	doc.apply(MetaChange{DefaultWorkdir: new(""), ProjectID: new("")})
	return doc.text(e.board.slug)
}

func (e *exporter) writeBlobs(ctx context.Context, out *archive) error {
	for _, blob := range e.blobs {
		if out.seen[blob.name] {
			continue // two rows of one card may name one file
		}
		f, err := e.board.openBlob(blob.path)
		if err == nil {
			err = out.file(blob.name, f)
			_ = f.Close()
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeLogs takes the logs as long as they are now; workers go on writing.
func (e *exporter) writeLogs(ctx context.Context, out *archive) error {
	dir, err := enclosure.Open(e.root.LogsDir(e.board.slug))
	if !e.options.Logs || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := e.root.readDir(filepath.Join(workDir(e.board.slug), "logs"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !isLog(entry.Name()) {
			continue
		}
		f, err := dir.Root().OpenFile(entry.Name(), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			err = out.file("logs/"+entry.Name(), f)
			_ = f.Close()
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func isLog(name string) bool {
	base, rest, ok := strings.Cut(name, ".log")
	return ok && base != "" && (rest == "" || rest[0] == '.')
}

// archive writes regular files below one directory.
type archive struct {
	tar  *tar.Writer
	top  string
	at   time.Time
	seen map[string]bool
}

func (a *archive) header(name string, size int64) error {
	a.seen[name] = true
	return a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: a.top + "/" + name, Size: size, Mode: fileMode, ModTime: a.at, Format: tar.FormatPAX})
}

func (a *archive) bytes(name string, text []byte) error {
	err := a.header(name, int64(len(text)))
	if err == nil {
		_, err = a.tar.Write(text)
	}
	return err
}

func (a *archive) path(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return a.file(name, f)
}

// file takes as much of a file as it has now. One that shrinks meanwhile is an error.
func (a *archive) file(name string, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := a.header(name, st.Size()); err != nil {
		return err
	}
	if _, err := io.CopyN(a.tar, f, st.Size()); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// WriteExport is Export into a file. It gets its name when it is whole; "" is a name in the exports directory that tells the
// board and the time.
func (r *Root) WriteExport(ctx context.Context, b *Board, path string, o ExportOptions) (Exported, string, error) {
	if path == "" {
		path = filepath.Join(r.ExportsDir(), fmt.Sprintf("%s-%s.tar.gz", b.slug, time.Now().Format("20060102-150405")))
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return Exported{}, path, diskProblem("archive "+path, "cannot be written", "nothing was exported", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return Exported{}, path, &problem.Error{Kind: problem.Conflict, Thing: "archive " + path, What: "exists already", Fate: "it was left as it is", Remedy: "name another file"}
	}
	dir := filepath.Dir(path)
	if mutation.On("export-is-made-in-tmp") {
		dir = os.TempDir()
	}
	f, err := os.CreateTemp(dir, ".exporting-*")
	if err != nil {
		return Exported{}, path, diskProblem("archive "+path, "cannot be written", "nothing was exported", err)
	}
	defer os.Remove(f.Name())
	done, err := r.Export(ctx, b, f, o)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path) // unlike a rename it takes no file's place
	}
	if err != nil {
		return Exported{}, path, diskProblem("archive "+path, "cannot be written", "nothing was exported", err)
	}
	return done, path, nil
}
