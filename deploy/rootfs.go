package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Stage is the machine that stands in for the build stage. Everything of it is a path on this machine.
type Stage struct {
	Out     string                                         // stands for /out
	Program string                                         // what is built to /out/gatewayd: building it is the caller's
	GoRoot  string                                         // stands for /usr/local/go
	Shell   func(ctx context.Context, script string) error // runs what a RUN says
}

// at gives the place on this machine of a path in the build stage.
func (s Stage) at(path string) string {
	for name, place := range map[string]string{"/out": s.Out, "/usr/local/go": s.GoRoot} {
		if rest, ok := strings.CutPrefix(path, name+"/"); ok {
			return filepath.Join(place, rest)
		}
	}
	return path
}

// Build makes the root file system of the image below dir. What a missing file of the build stage would be in it is the error.
func (i Image) Build(ctx context.Context, s Stage, dir string) error {
	for _, script := range i.Runs {
		if strings.Contains(script, "go build") || strings.HasPrefix(script, "go mod") {
			continue // the caller has built it
		}
		if err := s.Shell(ctx, strings.ReplaceAll(script, "/out", s.Out)); err != nil {
			return fmt.Errorf("run %q: %w", script, err)
		}
	}
	if err := copyFile(s.Program, filepath.Join(s.Out, "gatewayd"), 0o755); err != nil {
		return err
	}
	for _, c := range i.Copies {
		if err := c.into(dir, s.at(c.From)); err != nil {
			return fmt.Errorf("copy %s to %s: %w", c.From, c.To, err)
		}
	}
	return nil
}

// into copies one file, or what is in one directory, as COPY does. Owners are not set: whoever plays the container decides who is whom.
func (c Copy) into(dir, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	to := filepath.Join(dir, c.To)
	if !info.IsDir() {
		if strings.HasSuffix(c.To, "/") {
			to = filepath.Join(to, filepath.Base(from))
		}
		return copyFile(from, to, info.Mode().Perm())
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return copyTree(from, to)
}

// copyTree copies what is below a directory with its rights, and nothing of the directory itself: an engine makes that one open to all.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == from {
			return err
		}
		rel, rerr := filepath.Rel(from, path)
		info, err := entry.Info()
		if err := errors.Join(rerr, err); err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if !entry.IsDir() {
			return copyFile(path, target, info.Mode().Perm())
		}
		return errors.Join(os.MkdirAll(target, 0o755), os.Chmod(target, info.Mode().Perm()|info.Mode()&fs.ModeSticky))
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	made, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(made, source)
	return errors.Join(err, made.Chmod(mode), made.Close())
}
