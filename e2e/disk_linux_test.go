package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite/faultfs"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// A conversation and a board on one small disk: it fills up, both say so, and both go on when there is space again.
func TestAFullDiskStopsStoreAndBoardUntilThereIsSpaceAgain(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skip("NOT TESTED: no small file system can be mounted here: ", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(dir, "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lease := figureLease(t, s)
	b := figureBoard(t, filepath.Join(dir, "kanban.db"))
	say := func(i int) error {
		_, err := s.Append(t.Context(), lease, []sessiondb.NewMessage{{Role: "user", Content: fmt.Sprint(i, kilobyte)}})
		return err
	}
	add := func(i int) error {
		_, err := b.Create(t.Context(), kanban.NewTask{Title: fmt.Sprint("card ", i), Body: strings.Repeat(kilobyte, 3)})
		return err
	}
	said, added := untilFull(t, say), untilFull(t, add)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(say(said), add(added)); err != nil {
		t.Errorf("with space back: %v", err)
	}
	messages, err := s.Transcript(t.Context(), lease.Session)
	if err != nil || len(messages) != said+1 {
		t.Errorf("%d messages, %d were acknowledged: %v", len(messages), said+1, err)
	}
	cards, err := b.List(t.Context(), kanban.Filter{Limit: 10_000})
	if err != nil || len(cards) != added+1 {
		t.Errorf("%d cards, %d were acknowledged: %v", len(cards), added+1, err)
	}
}

// untilFull writes until it is refused, and gives how often it was not.
func untilFull(t *testing.T, write func(int) error) (n int) {
	t.Helper()
	for {
		err := write(n)
		if err == nil {
			n++
			continue
		}
		if !problem.Is(err, problem.Full) || !strings.Contains(err.Error(), "nothing of it was stored") {
			t.Errorf("after %d: %v", n, err)
		}
		return n
	}
}

// The whole store, from its creation on: a power cut after each change leaves one that opens and has all messages that
// were acknowledged.
func TestAPowerCutAtAnyMomentLeavesTheStoreWithEveryMessage(t *testing.T) {
	dir := t.TempDir()
	disk, unmount := faultfs.Mount(dir)
	defer unmount()
	lease := conversation(t, disk, dir)

	next := t.TempDir()
	_, unmountNext := faultfs.Mount(next) // which syncs nothing
	defer unmountNext()
	moments, known := 0, map[string]int{} // disks that are the same are opened once
	disk.Crash(func(n int, notes []string, image func(faultfs.Loss) faultfs.Image) {
		moments++
		for name, loss := range map[string]faultfs.Loss{"dropped": {}, "torn": {Sector: 512, Seed: 1}} {
			if t.Failed() {
				return
			}
			left := image(loss)
			key := fmt.Sprint(sha256.Sum256(left["state.db"]), sha256.Sum256(left["state.db-wal"]), len(left))
			got, seen := known[key]
			var err error
			if !seen {
				err = left.Lay(next)
				if err == nil {
					got, err = messagesLeft(t, next, lease)
				}
				known[key] = got
			}
			if err != nil || got < len(notes) {
				t.Errorf("power cut after change %d, %s: %d messages of %d acknowledged: %v", n, name, got, len(notes), err)
			}
		}
	})
	if moments < 50 || len(known) < 20 {
		t.Errorf("only %d changes, %d different disks", moments, len(known))
	}
	t.Logf("%d moments, %d different disks", moments, len(known))
}

// conversation writes some messages and notes each that was acknowledged.
func conversation(t *testing.T, disk *faultfs.Disk, dir string) sessiondb.Lease {
	t.Helper()
	s, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(dir, "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lease := figureLease(t, s)
	for i := range 6 {
		if err := appendOne(t.Context(), s, lease); err != nil {
			t.Fatal(err)
		}
		disk.Mark(fmt.Sprint("message ", i))
	}
	if _, err := s.File().Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(t.Context(), s, lease); err != nil {
		t.Fatal(err)
	}
	disk.Mark("last")
	return lease
}

func messagesLeft(t *testing.T, dir string, lease sessiondb.Lease) (int, error) {
	t.Helper()
	path := filepath.Join(dir, "state.db")
	defer func() {
		for _, side := range []string{"", "-wal", "-shm", "-journal"} {
			os.Remove(path + side)
		}
	}()
	s, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: path})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	messages, err := s.Transcript(t.Context(), lease.Session)
	if problem.Is(err, problem.NotFound) {
		err = nil // the cut came before it was acknowledged
	}
	return len(messages), err
}
