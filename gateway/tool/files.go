package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

// FilesOptions say where the file tools may work. Every zero value works.
type FilesOptions struct {
	Dir       string   // where they work unless the call says otherwise
	WriteRoot string   // files are written only below it, and may be read there; empty: below the call's directory
	Homes     []string // directories of gatewayd itself, closed but for the working directory inside them
	Denied    []string // files that are never opened, whatever they are called
	Spill     *Spill   // its files may be read by their own session
}

// Files is what the file tools share: where they may work, what each conversation has read, and a lock for each path. It is safe
// for concurrent use.
type Files struct {
	opts   FilesOptions
	homes  [][2]string // as they were given, and without links
	denied []string    // both spellings
	locks  pathLocks
	reads  sightings
}

// NewFiles makes what read_file, write_file, patch and search_files share.
func NewFiles(opts FilesOptions) *Files {
	f := &Files{opts: opts}
	for _, home := range opts.Homes {
		f.homes = append(f.homes, [2]string{home, real(home)})
	}
	for _, file := range opts.Denied {
		f.denied = append(f.denied, file, real(file))
	}
	return f
}

// Tools gives the four.
func (f *Files) Tools() []Tool {
	return []Tool{ReadFile{Files: f}, WriteFile{f}, Patch{f}, SearchFiles{f}}
}

// drop forgets what a conversation has read and removes what is kept of it.
func (f *Files) drop(session string) error {
	f.reads.drop(session)
	if f.opts.Spill == nil {
		return nil
	}
	return f.opts.Spill.Drop(session)
}

// place is a path that was found to lie below a directory where a call may work: the open directory, and the name in it, with
// every link followed. What is done through it stays inside, whatever becomes of the names meanwhile.
type place struct {
	root *os.Root
	name string // in root
	real string // the whole path without links
	said string // as the model wrote it
}

func (p *place) close() { _ = p.root.Close() }

// base is the directory that relative paths of a call mean.
func (f *Files) base(call Call) string { return firstOf(call.Dir, f.opts.Dir) }

// toRead finds a path that may be read: below the working directory, below the root for writing, or a kept result of this session.
func (f *Files) toRead(call Call, said string) (*place, error) {
	roots := []string{f.base(call)}
	if f.opts.WriteRoot != "" {
		roots = append(roots, f.opts.WriteRoot)
	}
	if f.opts.Spill != nil {
		roots = append(roots, filepath.Join(f.opts.Spill.Dir, fileName(call.Session)))
	}
	p, err := find(f.base(call), said, roots)
	if err != nil {
		return nil, err
	}
	if why := f.closed(call, p, false); why != "" {
		p.close()
		return nil, fmt.Errorf("%s %s; it is not read for a model", said, why)
	}
	return p, nil
}

// toWrite finds a path that may be written.
func (f *Files) toWrite(call Call, said string) (*place, error) {
	p, err := find(f.base(call), said, []string{firstOf(f.opts.WriteRoot, f.base(call))})
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was written", err)
	}
	if why := f.closed(call, p, true); why != "" {
		p.close()
		return nil, fmt.Errorf("%s %s; nothing was written", said, why)
	}
	return p, nil
}

// find resolves a path and opens the first of the roots that it lies below.
func find(base, said string, roots []string) (*place, error) {
	switch {
	case said == "":
		return nil, errors.New("path is empty")
	case strings.ContainsRune(said, 0):
		return nil, errors.New("path holds a zero byte")
	case said == "~" || strings.HasPrefix(said, "~/"):
		return nil, fmt.Errorf("%s: a path here begins with / or in the working directory; ~ means nothing", said)
	}
	path := filepath.Clean(said)
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	real, err := resolved(path)
	if err != nil {
		return nil, err
	}
	for _, dir := range roots {
		if p, err := openBelow(dir, real, said); p != nil || err != nil {
			return p, err
		}
	}
	return nil, fmt.Errorf("%s is outside of the working directory %s", said, strings.Join(roots[:1], ""))
}

// openBelow gives nothing where the path is elsewhere, or the directory is not there.
func openBelow(dir, real, said string) (*place, error) {
	top, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // a directory that is not there holds nothing
	}
	if mutation.On("the-whole-disk-is-below-the-root") {
		top = "/"
	}
	rel, err := filepath.Rel(top, real)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, nil //nolint:nilerr // it lies elsewhere
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return &place{root: root, name: rel, real: real, said: said}, nil
}

// resolved follows every link of a path, as far as the path exists; what is missing at its end stays as it is written.
func resolved(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("follow %s: %w", path, err)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a link to something that does not exist", path)
	}
	parent := filepath.Dir(path)
	if parent == path {
		return "", fmt.Errorf("follow %s: %w", path, fs.ErrNotExist)
	}
	if parent, err = resolved(parent); err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(path)), nil
}

// open opens a regular file for reading. It looks before it opens, because opening alone does something to some devices.
func (p *place) open() (*os.File, fs.FileInfo, error) {
	info, err := p.root.Stat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("there is no file %s below %s", p.said, p.root.Name())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look at %s: %w", p.said, err)
	}
	if err := regular(p.said, info); err != nil {
		return nil, nil, err
	}
	file, err := p.root.OpenFile(p.name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO that came meanwhile must not hold the call
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", p.said, err)
	}
	if info, err = file.Stat(); err == nil {
		err = cmp.Or(regular(p.said, info), stillAt(file, p.real, p.said))
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// stillAt refuses a file that was opened at another place than was looked at: a name on the way to it was made a link meanwhile, and
// that place was not judged. Where the system does not say, the root alone holds.
func stillAt(file *os.File, real, said string) error {
	at, err := os.Readlink(procfs.FDPath(file.Fd()))
	if err != nil || strings.TrimSuffix(at, " (deleted)") == real || mutation.On("links-made-meanwhile-are-followed") {
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("%s was made a link to another place while it was opened", said)
}

func regular(said string, info fs.FileInfo) error {
	what := ""
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a directory; search_files lists what is in it"
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	default:
		what = "a special file"
	}
	return fmt.Errorf("%s is not a regular file: it is %s", said, what)
}

// pathLocks lets one call at a time change a file.
type pathLocks struct {
	mu   sync.Mutex
	held map[string]*pathLock
}

type pathLock struct {
	turn chan struct{}
	want int
}

// take waits for a path's turn; the function that it gives ends it.
func (l *pathLocks) take(ctx context.Context, path string) (release func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*pathLock{}
	}
	lock := l.held[path]
	if lock == nil {
		lock = &pathLock{turn: make(chan struct{}, 1)}
		l.held[path] = lock
	}
	lock.want++
	l.mu.Unlock()
	select {
	case lock.turn <- struct{}{}:
		return func() { <-lock.turn; l.drop(path, lock) }, nil
	case <-ctx.Done():
		l.drop(path, lock)
		return nil, context.Cause(ctx)
	}
}

func (l *pathLocks) drop(path string, lock *pathLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.want--; lock.want == 0 {
		delete(l.held, path)
	}
}
