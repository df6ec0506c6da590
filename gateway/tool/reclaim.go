package tool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

// A command's keeper, and that of an MCP server, is named after the process that started it, so that a later one knows which keepers belong to nobody any more
// and leaves those of its living neighbours (the workers of cards) alone.
var keeperID = regexp.MustCompile(`^(?:term|mcp)-(\d+)-(\d+)-[a-z0-9]+$`)

func newKeeperID() (string, error) {
	self, err := procfs.Self()
	if err != nil {
		return "", fmt.Errorf("identify this process: %w", err)
	}
	return fmt.Sprintf("term-%d-%d-%s", self.PID, self.Start, strings.ToLower(rand.Text()[:16])), nil
}

// abandoned reports a record of a command whose process is gone.
func abandoned(r reaper.Record) bool { return ownerGone(r.ID, r.Keeper.Boot) }

// ownerGone reports whether an id names a process that is gone; boot is that of the id's time, empty when nobody knows.
func ownerGone(id, boot string) bool {
	parts := keeperID.FindStringSubmatch(id)
	if parts == nil {
		return false
	}
	pid, err1 := strconv.Atoi(parts[1])
	start, err2 := strconv.ParseUint(parts[2], 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	owner := procfs.Identity{Boot: firstOf(boot, procfs.BootID()), PID: pid, Start: start}
	return !owner.Alive()
}

// Reclaim waits until the commands that a dead process left behind have ended, and removes their records. Their keepers end them by
// themselves; until then a new turn could meet them at work.
func (t *Terminal) Reclaim(ctx context.Context) error {
	if t.opts.Reaper == nil {
		return nil
	}
	records, err := t.opts.Reaper.Records()
	for _, r := range records {
		if abandoned(r) {
			err = errors.Join(err, t.reclaim(ctx, r.ID))
		}
	}
	return errors.Join(err, t.reclaimShells())
}

// reclaimShells removes what the shells of a dead process began with, or left.
func (t *Terminal) reclaimShells() error {
	entries, err := os.ReadDir(t.opts.State)
	if t.opts.State == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if id := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())); ownerGone(id, "") {
			err = errors.Join(err, os.Remove(filepath.Join(t.opts.State, e.Name())))
		}
	}
	return err
}

func (t *Terminal) reclaim(ctx context.Context, id string) error {
	p, err := t.opts.Reaper.Adopt(id)
	if errors.Is(err, reaper.ErrNoRecord) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("adopt command %s: %w", id, err)
	}
	select {
	case <-p.Done():
		return t.opts.Reaper.Forget(id)
	case <-ctx.Done():
		return fmt.Errorf("wait for command %s of an earlier life: %w", id, context.Cause(ctx))
	}
}

// Reclaim lets every tool end what an earlier process left behind.
func (s *Set) Reclaim(ctx context.Context) error {
	var err error
	for _, t := range s.list() {
		if r, ok := t.(interface{ Reclaim(context.Context) error }); ok {
			err = errors.Join(err, r.Reclaim(ctx))
		}
	}
	return err
}
