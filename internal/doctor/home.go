package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/config"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

func lookConfig(_ context.Context, h *House) (checks []Check) {
	if h.Broken != nil {
		return []Check{wrong(Fail, h.Broken)}
	}
	for _, w := range h.Loaded.Warnings {
		checks = append(checks, bad(Warn, "", "%s", w))
	}
	return unless(checks, good("%s", h.Loaded.Path))
}

func lookHome(_ context.Context, h *House) []Check {
	info, err := os.Stat(h.Home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Check{bad(Warn, "start `gatewayd` or run `gatewayd init`", "%s does not exist yet", h.Home)}
	case err != nil:
		return []Check{wrong(Fail, err)}
	case !info.IsDir():
		return []Check{bad(Fail, "name a directory with --home, or move that away", "home %s is not a directory: it is %s", h.Home, kindOf(info.Mode()))}
	}
	if err := unix.Access(h.Home, unix.W_OK|unix.X_OK); err != nil {
		return []Check{bad(Fail, "mount it writable, change its owner, or give another --home", "%s cannot be written by this user: %v", h.Home, err)}
	}
	return []Check{good("%s", h.Home)}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	}
	return "a special file (" + mode.Type().String() + ")"
}

// usable: what is no directory has been said to be none, and nothing else can be said of it.
func (h *House) usable() bool {
	info, err := os.Stat(h.Home)
	return err == nil && info.IsDir()
}

func lookVolumes(_ context.Context, h *House) (checks []Check) {
	for _, v := range h.Volumes {
		if what, remedy := v.Trouble(); what != "" {
			checks = append(checks, bad(Warn, remedy, "%s", what))
			continue
		}
		checks = append(checks, good("%s on %s, mounted at %s", v.Dir, v.FSType, v.Point))
	}
	return checks
}

// secretFiles of a home are nobody else's business even where the home is open.
var secretFiles = []string{"api.key", "keys.json", "runs.secret", ".env"}

// lookModes looks at what must be closed to others. What lies in the home may be closed by Fix; a key file elsewhere is its owner's.
func lookModes(_ context.Context, h *House) (checks []Check) {
	if !h.usable() {
		return nil
	}
	closed := func(path string, ours bool) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 == 0 || mutation.On("open-keys-are-fine") {
			return
		}
		c := bad(Warn, fmt.Sprintf("chmod go-rwx %s", path), "%s is open to other users (mode %04o)", path, info.Mode().Perm())
		if ours {
			c.Fix = func(context.Context) (string, error) { return closeToOthers(path) }
		}
		checks = append(checks, c)
	}
	closed(h.Home, true)
	for _, name := range secretFiles {
		closed(filepath.Join(h.Home, name), true)
	}
	if file := h.Loaded.Model.APIKeyFile; file != "" && filepath.Dir(file) != h.Home {
		closed(file, false)
	}
	return unless(checks, good("the home and its keys are closed to others"))
}

// closeToOthers follows no link: what it leads to is not of this home.
func closeToOthers(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is %s", path, kindOf(info.Mode()))
	}
	mode := info.Mode().Perm() &^ 0o077
	if err := os.Chmod(path, mode); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s has mode %04o", path, mode), nil
}

func lookSecrets(_ context.Context, h *House) []Check {
	model := h.Loaded.Model
	if file := model.APIKeyFile; file != "" {
		if _, err := os.Stat(file); err != nil {
			return []Check{wrong(Fail, &problem.Error{Kind: problem.Config, Thing: "model.api_key_file", What: "cannot be read", Remedy: "put the key there, or correct the path", Err: err})}
		}
	}
	switch at := h.Loaded.Origins["model.api_key"].Place; {
	case model.APIKey.Reveal() != "" && at != "":
		return []Check{good("the model's key comes from %s", at)}
	case model.APIKey.Reveal() != "":
		return []Check{good("the model's key is there")}
	case model.BaseURL == "" || local(model.BaseURL):
		return []Check{good("no key is needed")}
	}
	return []Check{bad(Warn, "set GATEWAYD_MODEL_API_KEY or model.api_key_file, if that server wants a key", "there is no key for the model at %s", model.BaseURL)}
}

// What is too little free space: below the first writes fail soon, below the second a WAL and a checkpoint may not fit.
const (
	spaceFails = 32 << 20
	spaceWarns = 256 << 20
	inodesWarn = 1000
)

func lookDisk(_ context.Context, h *House) (checks []Check) {
	seen := map[unix.Fsid]bool{}
	for _, dir := range []string{h.Home, h.Loaded.Kanban.Root, h.Backups, os.TempDir()} {
		if dir == "" {
			continue
		}
		var disk unix.Statfs_t
		if err := unix.Statfs(nearest(dir), &disk); err != nil {
			checks = append(checks, wrong(Unknown, fmt.Errorf("%s: %w", dir, err)))
			continue
		}
		if seen[disk.Fsid] {
			continue
		}
		seen[disk.Fsid] = true
		checks = append(checks, spaceOn(dir, int64(disk.Bavail)*int64(disk.Bsize), int64(disk.Files), int64(disk.Ffree)))
	}
	return checks
}

// lookTemporary: without it the databases use the home, and what else needs a temporary file is refused.
func lookTemporary(context.Context, *House) []Check {
	dir, err := config.Temporary()
	if err != nil {
		return []Check{wrong(Warn, err)}
	}
	return []Check{good("%s", dir)}
}

func spaceOn(dir string, free, inodes, unused int64) Check {
	const remedy = "free some space: nothing is lost when it is full, and nothing new is taken"
	switch {
	case free < spaceFails:
		return bad(Fail, remedy, "%d MiB free for %s", free>>20, dir)
	case free < spaceWarns:
		return bad(Warn, remedy, "%d MiB free for %s", free>>20, dir)
	case inodes > 0 && unused < inodesWarn: // some file systems have no such bound
		return bad(Warn, "remove files that are not needed: there are too many of them", "only %d more files fit where %s is", unused, dir)
	}
	return good("%d MiB free for %s", free>>20, dir)
}

// nearest is the nearest directory that is there.
func nearest(path string) string {
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	return path
}

// The years in which this program can run: a machine without a battery begins at 1970, or when its image was made.
const firstYear, lastYear = 2026, 2100

func lookClock(_ context.Context, h *House) []Check {
	if y := h.Now.UTC().Year(); y < firstYear || y >= lastYear {
		return []Check{bad(Fail, "set the clock (timedatectl set-ntp true): leases, schedules and the order of rows go by it", "it is %s by this machine's clock", h.Now.Format(time.DateTime))}
	}
	if booted := procfs.HostStart(); booted.After(h.Now) {
		return []Check{bad(Warn, "have the clock kept (timedatectl set-ntp true)", "the clock went back: the machine was started at %s", booted.Format(time.DateTime))}
	}
	return []Check{good("%s", h.Now.Format("2006-01-02 15:04:05 -07:00"))}
}
