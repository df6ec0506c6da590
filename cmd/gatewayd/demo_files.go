package main

import (
	"context"
	"path/filepath"

	"gatewayd/internal/sqlite"
)

// checkFiles reads the databases once more, with nobody else at them.
func (d *demo) checkFiles(ctx context.Context) error {
	for name, path := range map[string]string{
		"state.db": filepath.Join(d.home, "state.db"), "the board": filepath.Join(d.home, "kanban", "boards", demoBoard, "kanban.db"),
	} {
		verdict, err := integrity(ctx, path)
		if err != nil {
			return err
		}
		d.claim(verdict == "ok", "%s is whole (integrity check: %s)", name, verdict)
	}
	return nil
}

// integrity is SQLite's own verdict on a file.
func integrity(ctx context.Context, path string) (verdict string, err error) {
	f, err := sqlite.Open(ctx, sqlite.Options{Path: path, Label: filepath.Base(path)})
	if err != nil {
		return "", err
	}
	defer f.Close()
	err = f.Read(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row("PRAGMA integrity_check(1)", nil, &verdict)
		return err
	})
	return verdict, err
}
