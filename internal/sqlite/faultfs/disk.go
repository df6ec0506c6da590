package faultfs

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/ncruces/go-sqlite3/vfs"
)

// vfsName is where internal/sqlite looks for what lies below it.
const vfsName = "gatewayd-base"

// Disk is what lies under the databases of one directory. It is safe for concurrent use.
type Disk struct {
	dir string

	mu     sync.Mutex
	log    []event
	nodes  int
	names  map[string]int // the file behind a name, for those that were opened
	faults []*Fault
}

// mounts are the disks by directory.
var mounts sync.Map

// Mount puts a disk under the databases of a directory that are opened from now on; unmount takes it away from those
// that are opened later.
func Mount(dir string) (d *Disk, unmount func()) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		panic("faultfs: " + err.Error())
	}
	vfs.Register(vfsName, base{vfs.Find("").(vfs.VFSFilename)})
	d = &Disk{dir: dir, names: map[string]int{}}
	mounts.Store(dir, d)
	return d, func() { mounts.Delete(dir) }
}

func diskOf(path string) *Disk {
	if d, ok := mounts.Load(filepath.Dir(path)); ok {
		return d.(*Disk)
	}
	return nil
}

// base is the library's file system with a look at whose file it is.
type base struct{ vfs.VFSFilename }

// OpenFilename opens a file. Temporary ones have no name and belong to no disk.
func (b base) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	d := diskOf(name.String())
	if d == nil {
		return b.VFSFilename.OpenFilename(name, flags)
	}
	return d.open(b, name, flags)
}

// Delete removes a file.
func (b base) Delete(path string, syncDir bool) error {
	if d := diskOf(path); d != nil {
		return d.delete(b, path, syncDir)
	}
	return b.VFSFilename.Delete(path, syncDir)
}

// below is the library's own file, with all that a connection may ask of it.
type below interface {
	vfs.FileLockState
	vfs.FileHasMoved
	vfs.FileSizeHint
	vfs.FilePersistWAL
	vfs.FilePowersafeOverwrite
	vfs.FileSharedMemory
	vfs.FileMemoryMapper
	Fd() uintptr
}

func (d *Disk) open(b base, name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := name.String()
	if _, err := d.strike(Open, path); err != nil {
		return nil, flags, err
	}
	opened, out, err := b.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, out, err
	}
	inner, ok := opened.(below)
	if !ok {
		panic("faultfs: the library's file cannot be wrapped")
	}
	const journals = vfs.OPEN_MAIN_JOURNAL | vfs.OPEN_SUPER_JOURNAL | vfs.OPEN_WAL
	return &file{
		below: inner, disk: d, path: path, node: d.nodeOf(path),
		syncsDir: flags&vfs.OPEN_CREATE != 0 && flags&journals != 0,
	}, out, nil
}

// nodeOf gives the number of the file behind a name. One that is new to the disk was made a moment ago if it is empty,
// and else lay there before.
func (d *Disk) nodeOf(path string) int {
	name := filepath.Base(path)
	if n, ok := d.names[name]; ok {
		return n
	}
	d.nodes++
	d.names[name] = d.nodes
	content, _ := os.ReadFile(path)
	if len(content) == 0 {
		d.log = append(d.log, event{kind: created, node: d.nodes, name: name})
	} else {
		d.log = append(d.log, event{kind: found, node: d.nodes, name: name, data: content})
	}
	return d.nodes
}

func (d *Disk) delete(b base, path string, syncDir bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.strike(Delete, path); err != nil {
		return err
	}
	if err := b.VFSFilename.Delete(path, false); err != nil {
		return err
	}
	name := filepath.Base(path)
	d.log = append(d.log, event{kind: deleted, node: d.names[name], name: name})
	delete(d.names, name)
	if !syncDir {
		return nil
	}
	return d.syncDir()
}

func (d *Disk) syncDir() error {
	if _, err := d.strike(SyncDir, d.dir); err != nil {
		return vfs.SystemError(err, ioerrDirFsync)
	}
	d.log = append(d.log, event{kind: dirSynced})
	return nil
}

// Mark writes a note between the changes: what the test knew at this moment.
func (d *Disk) Mark(note string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, event{kind: marked, name: note})
}
