// Package pack is the command that makes the archive of a release from a directory. The bytes depend on the files and on Go's version only: the machine's tar
// and gzip, its clock, its users and the order of its directories have no part in them.
//
//	go run ./deploy/pack DIR SECONDS >ARCHIVE.tar.gz
//
// SECONDS is the time that every file gets, since 1970. DIR/gatewayd must be a program that needs nothing else of the machine.
package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"gatewayd/internal/mutation"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string, to io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("wants DIR and SECONDS, has %d arguments", len(args))
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	if err := static(filepath.Join(args[0], "gatewayd")); err != nil {
		return err
	}
	return pack(to, args[0], time.Unix(seconds, 0))
}

// static refuses a program that wants an interpreter or a library.
func static(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("%s is not static: it has %s", program, p.Type)
		}
	}
	return nil
}

// pack writes a directory and what is in it, below the directory's own name.
func pack(to io.Writer, dir string, at time.Time) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	base := filepath.Base(dir)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil {
			return err
		}
		return add(t, filepath.Join(dir, name), path.Join(base, name), d, at)
	})
	if err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// add writes one entry. Of the mode only this is kept: whether its owner may run it.
func add(t *tar.Writer, file, name string, d fs.DirEntry, at time.Time) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if mutation.On("release-keeps-the-times-of-files") {
		at = info.ModTime()
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o644, ModTime: at, Format: tar.FormatUSTAR}
	if info.Mode()&0o100 != 0 {
		h.Mode = 0o755
	}
	if d.IsDir() {
		h.Typeflag, h.Name, h.Size = tar.TypeDir, name+"/", 0
		return t.WriteHeader(h)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a directory", file)
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(t, f)
	return err
}
