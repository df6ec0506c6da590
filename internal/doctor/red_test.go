package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
	"gatewayd/internal/volume"
)

// red is a home in which one thing is really wrong, and what the doctor must say of it.
type red struct {
	check string
	state State
	says  string
	at    func(t *testing.T) []Check
}

// reds has at least one row for each check that can find something; those that other tests show are named in shownElsewhere.
var reds = []red{
	{"config", Fail, "no_such_key", house(func(_ *testing.T, h *House) { h.Broken = errors.New("config.yaml:1: no_such_key") }, lookConfig)},
	{"home", Fail, "is not a directory", house(func(t *testing.T, h *House) {
		h.Home = filepath.Join(h.Home, "file")
		need(t, os.WriteFile(h.Home, nil, 0o600))
	}, lookHome)},
	{"home", Warn, "does not exist", house(func(_ *testing.T, h *House) { h.Home += "/none" }, lookHome)},
	{"volume", Warn, "memory", house(func(t *testing.T, h *House) {
		v, err := volume.Of("/dev/shm")
		if err != nil || v.FSType != "tmpfs" {
			t.Skipf("SKIPPED: /dev/shm is no memory here: %+v, %v", v, err)
		}
		h.Volumes = []volume.Volume{v}
	}, lookVolumes)},
	{"secrets", Fail, "model.api_key_file", house(func(_ *testing.T, h *House) { h.Loaded.Model.APIKeyFile = h.Home + "/gone.key" }, lookSecrets)},
	{"secrets", Warn, "there is no key", house(func(_ *testing.T, h *House) { h.Loaded.Model.BaseURL = "https://models.example/v1" }, lookSecrets)},
	{"disk", Fail, "MiB free", func(*testing.T) []Check { return []Check{spaceOn("/d", 8<<20, 0, 0)} }},
	{"disk", Warn, "more files fit", func(*testing.T) []Check { return []Check{spaceOn("/d", 1<<40, 1e6, 10)} }},
	{"temporary", Warn, "takes no temporary files", house(func(t *testing.T, h *House) { t.Setenv("TMPDIR", h.Home+"/gone") }, lookTemporary)},
	{"daemon", Warn, "is not running", house(func(*testing.T, *House) {}, lookDaemon)},
	{"daemon", Fail, "none runs", house(held, lookDaemon)},
	{"daemon", Warn, "model is degraded", house(func(t *testing.T, h *House) {
		held(t, h)
		h.Daemon = func(context.Context) (Running, error) { return Running{Troubles: []string{"model is degraded"}}, nil }
	}, lookDaemon)},
	{"version", Warn, "replaced or removed", house(replaced, lookVersion)},
	{"version", Warn, "the daemon is v1", house(func(t *testing.T, h *House) {
		held(t, h)
		h.Version, h.Daemon = "v2", func(context.Context) (Running, error) { return Running{Version: "v1"}, nil }
	}, lookVersion)},
	{"handles", Warn, "could not close a handle of /h/state.db", house(func(t *testing.T, h *House) {
		held(t, h)
		h.Daemon = func(context.Context) (Running, error) { return Running{Stranded: []string{"/h/state.db"}}, nil }
	}, lookHandles)},
	{"linger", Warn, "when nobody-here logs out", house(func(t *testing.T, h *House) {
		h.User, h.Units = "nobody-here", []Unit{{Path: filepath.Join(h.Home, "gatewayd.service")}}
		need(t, os.WriteFile(h.Units[0].Path, []byte("[Service]\n"), 0o600))
	}, lookLinger)},
	{"model", Fail, "refused", house(func(_ *testing.T, h *House) {
		h.Model = func(context.Context) (Model, error) { return Model{}, errors.New("connection refused") }
	}, lookModel)},
	{"model", Warn, "does not list the model m", house(func(_ *testing.T, h *House) {
		h.Model = func(context.Context) (Model, error) { return Model{Name: "m", URL: "http://u", Asked: true}, nil }
	}, lookModel)},
	{"lane", Fail, "no such program", house(func(_ *testing.T, h *House) {
		h.Lanes = func() ([]Lane, error) {
			return []Lane{{Name: "l", Missing: "no such program", MissingRemedy: "install it"}}, nil
		}
	}, lookLanes)},
	{"backups", Fail, "no space left", house(func(_ *testing.T, h *House) { h.Round = "no space left" }, lookBackups)},
	{"boards", Fail, "permission denied", house(func(_ *testing.T, h *House) { h.Listing = fs.ErrPermission }, lookBoards)},

	{"size", Warn, "above a gigabyte", database(store, func(t *testing.T, path string) { need(t, os.Truncate(path, largeFile+1<<20)) })},
	{"wal", Warn, "it is not emptied", database(board, func(t *testing.T, path string) { grow(t, path+"-wal", largeWAL+1) })},
	{"journal", Fail, "does not say how it is journalled", database(board, func(t *testing.T, path string) { overwrite(t, path, 18, []byte{9, 9}) })},
	{"holders", Fail, "lies here no more", withLostHolder},
	{"pages", Fail, "kanban.db", database(board, func(t *testing.T, path string) { overwrite(t, path, 100, bytes.Repeat([]byte{0x5a}, 3000)) })},
	{"schema", Warn, "newer than this program's", database(store, script(`PRAGMA user_version = 77`))},
	{"schema", Warn, "this program writes", database(store, script(`PRAGMA user_version = 2`))},
	{"schema", Fail, "another program changed it", database(store, script(`DROP TABLE approvals`))},
	{"schema", Warn, "of an older program", database(board, script(`ALTER TABLE tasks DROP COLUMN completion_contract`))},
	{"write", Fail, "nobody writes here", database(board, script(`CREATE TRIGGER no BEFORE INSERT ON tasks BEGIN SELECT raise(ABORT, 'nobody writes here'); END`))},
	{"write", Fail, "nobody writes here", database(store, script(`CREATE TRIGGER no BEFORE INSERT ON messages BEGIN SELECT raise(ABORT, 'nobody writes here'); END`))},
	{"repairs", Warn, "a repair failed", database(board, failedRepairs(1))},
	{"repairs", Fail, "is not tried again", database(board, failedRepairs(3))},
	{"spool", Warn, "rows that the store could not take", database(store, spooled("rows.jsonl"))},
	{"spool", Warn, "batches could not be stored", database(store, spooled("kept.jsonl"))},
	{"capture", Warn, "copies of a damaged file", database(board, func(t *testing.T, path string) { need(t, os.WriteFile(path+".corrupt.0123.bak", nil, 0o600)) })},
}

// shownElsewhere are the checks whose trouble has tests of its own here and in cmd/gatewayd; rows finds nothing wrong by itself.
var shownElsewhere = []string{"modes", "clock", "lock", "port", "unit", "stop timeout", "sqlite3", "file", "indexes", "newest row", "rows"}

func TestEachCheckIsRedWhereSomethingIsWrong(t *testing.T) {
	shown := slices.Clone(shownElsewhere)
	for _, r := range reds {
		shown = append(shown, r.check)
		t.Run(r.check+"/"+r.says, func(t *testing.T) {
			var said []string
			for _, c := range r.at(t) {
				if c.Name == "" {
					c.Name = r.check // a look alone
				}
				if c.Name == r.check && c.State == r.state && strings.Contains(c.Says, r.says) {
					if c.Remedy == "" && r.check != "config" {
						t.Errorf("it says nothing of what to do: %+v", c)
					}
					return
				}
				said = append(said, fmt.Sprintf("%s %s: %s", c.Name, c.State, c.Says))
			}
			t.Errorf("no %s of %s says %q:\n%s", r.state, r.check, r.says, strings.Join(said, "\n"))
		})
	}
	for _, name := range Names() {
		if !slices.Contains(shown, name) {
			t.Errorf("nothing shows that %s can be red", name)
		}
	}
}

func house(spoil func(*testing.T, *House), look func(context.Context, *House) []Check) func(*testing.T) []Check {
	return func(t *testing.T) []Check {
		h := houseOf(t.TempDir())
		spoil(t, h)
		return look(t.Context(), h)
	}
}

// database examines one that was made well and then spoilt.
func database(make func(*testing.T) (Database, string), spoil func(t *testing.T, path string)) func(*testing.T) []Check {
	return func(t *testing.T) []Check {
		db, home := make(t)
		if info, err := os.Stat(db.Path + "-wal"); err == nil && info.Size() > 0 {
			_, err := sqlite.CheckpointAlone(t.Context(), db.Path, db.Label) // what is spoilt is the file that is read
			need(t, err)
		}
		spoil(t, db.Path)
		return Examine(t.Context(), houseOf(home, db))
	}
}

// script changes a database as another program does.
func script(sql string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		c, err := sqlite.OpenBare(path)
		need(t, err)
		need(t, errors.Join(c.Exec(sql), c.Close()))
	}
}

func overwrite(t *testing.T, path string, at int64, with []byte) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	need(t, err)
	_, err = f.WriteAt(with, at)
	need(t, errors.Join(err, f.Close()))
}

// grow makes a file that long; what is added is a hole.
func grow(t *testing.T, path string, size int64) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	need(t, err)
	need(t, errors.Join(f.Truncate(size), f.Close()))
}

func spooled(name string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		need(t, os.Mkdir(path+".spool", 0o700))
		need(t, os.WriteFile(filepath.Join(path+".spool", name), []byte("a line of rows that nobody can read\n"), 0o600))
	}
}

// failedRepairs damages a file beyond repair and has it tried so often.
func failedRepairs(times int) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		overwrite(t, path, 100, bytes.Repeat([]byte{0x5a}, 3000))
		for range times {
			if _, err := sqlite.Repair(t.Context(), sqlite.RepairOptions{Path: path, Label: "board default", Tables: []string{"tasks"}}); err == nil {
				t.Fatal("it was repaired, so nothing is tried here")
			}
		}
	}
}

// held has the home held by this process, as a daemon would.
func held(t *testing.T, h *House) {
	self, err := config.Self()
	need(t, err)
	lock, err := config.HoldHome(h.Home, self)
	need(t, err)
	t.Cleanup(func() { _ = lock.Release() })
}

// replaced has it held in the name of a process whose program is not on disk any more.
func replaced(t *testing.T, h *House) {
	sleep, err := exec.LookPath("sleep")
	need(t, err)
	text, err := os.ReadFile(sleep)
	need(t, err)
	old := filepath.Join(t.TempDir(), "gatewayd")
	need(t, os.WriteFile(old, text, 0o700))
	cmd := exec.CommandContext(t.Context(), old, "60")
	need(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	need(t, os.Remove(old))
	stat, err := procfs.ReadStat(cmd.Process.Pid)
	need(t, err)
	self, err := config.Self()
	need(t, err)
	self.PID, self.Start, self.Since = cmd.Process.Pid, stat.Start, time.Now()
	lock, err := config.HoldHome(h.Home, self)
	need(t, err)
	t.Cleanup(func() { _ = lock.Release() })
}

// withLostHolder puts another log in the place of the one that a program writes to.
func withLostHolder(t *testing.T) []Check {
	db, home := board(t)
	closed := python(t, db.Path)
	need(t, os.Rename(db.Path+"-wal", db.Path+"-wal.gone"))
	need(t, os.WriteFile(db.Path+"-wal", nil, 0o600))
	checks := Examine(t.Context(), houseOf(home, db))
	closed()
	return checks
}
