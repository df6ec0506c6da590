package enclosure

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Contents is what a tree holds.
type Contents struct {
	Bytes  int64
	Files  int
	Sample []string // the first few names, relative to the tree
}

// sampled is how many names a person needs to recognise what it was.
const sampled = 10

// Measure adds up the regular files below a relative name that skip does not want passed over; skip is given names relative
// to the tree. Links are neither followed nor counted. What cannot be read is not counted.
func (d *Dir) Measure(name string, skip func(file string) bool) Contents {
	var c Contents
	d.walk(name, "", func(file string, info fs.FileInfo) {
		if skip != nil && skip(file) {
			return
		}
		c.Files++
		c.Bytes += info.Size()
		if len(c.Sample) < sampled {
			c.Sample = append(c.Sample, file)
		}
	})
	return c
}

func (d *Dir) walk(tree, below string, visit func(file string, info fs.FileInfo)) {
	dir, err := d.root.OpenFile(filepath.Join(tree, below), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	entries, _ := dir.ReadDir(-1)
	_ = dir.Close()
	for _, e := range entries {
		file := filepath.Join(below, e.Name())
		if e.IsDir() {
			d.walk(tree, file, visit)
			continue
		}
		if info, err := d.root.Lstat(filepath.Join(tree, file)); err == nil && info.Mode().IsRegular() {
			visit(file, info)
		}
	}
}
