package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatewayd/systemd"
)

// installed gives the units that are there; a unit is looked for as the user's and as the machine's.
func (h *House) installed(each func(Unit, systemd.Installed) Check) (checks []Check) {
	for _, u := range h.Units {
		is, err := systemd.ReadInstalled(u.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			checks = append(checks, wrong(Unknown, err))
			continue
		}
		checks = append(checks, each(u, is))
	}
	return unless(checks, Check{State: Skipped, Says: "it is not installed as a service"})
}

// installAgain is how a unit is made anew.
func (u Unit) installAgain() string {
	if u.System {
		return "sudo gatewayd install --system"
	}
	return "gatewayd install"
}

// lookUnit compares what is installed with what would be written now.
func lookUnit(_ context.Context, h *House) []Check {
	return h.installed(func(u Unit, is systemd.Installed) Check {
		switch {
		case !is.Ours():
			return bad(Warn, "move it away and run `"+u.installAgain()+"`, if it should be as this program wants it", "%s was not made by `gatewayd install`", u.Path)
		case program(is) != "" && missing(program(is)):
			return bad(Fail, u.installAgain()+", with the program in its place", "%s starts %s, which is not there", u.Path, program(is))
		case u.Err != nil:
			return wrong(Unknown, u.Err)
		case !slices.Contains(u.Wanted, is.Text):
			return bad(Warn, u.installAgain(), "%s is not what this program would write: %s", u.Path, firstDifference(is.Text, u.Wanted))
		}
		return good("%s is up to date%s", u.Path, withDropIns(is))
	})
}

func withDropIns(is systemd.Installed) string {
	if len(is.DropIns) == 0 {
		return ""
	}
	return ", with " + strings.Join(is.DropIns, ", ")
}

// program is what the unit starts.
func program(is systemd.Installed) string {
	text, _ := is.Setting("ExecStart")
	return strings.ReplaceAll(strings.Trim(text, `"`), "$$", "$")
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return filepath.IsAbs(path) && errors.Is(err, fs.ErrNotExist)
}

// firstDifference names the first line in which the unit is not as the likeliest of those that are wanted.
func firstDifference(is string, wanted []string) string {
	have := strings.Split(is, "\n")
	best, at := "", -1
	for _, text := range wanted {
		for i, line := range strings.Split(text, "\n") {
			if i < len(have) && have[i] == line {
				continue
			}
			if i > at {
				at, best = i, line
			}
			break
		}
	}
	if at < 0 || at >= len(have) {
		return fmt.Sprintf("it ends where %q follows", best)
	}
	return fmt.Sprintf("line %d is %q, would be %q", at+1, have[at], best)
}

// lookStop compares how long systemd waits with how long the daemon may take: a kill in the middle of a drain cuts turns off.
func lookStop(_ context.Context, h *House) []Check {
	return h.installed(func(u Unit, is systemd.Installed) Check {
		waits, err := is.StopTimeout()
		switch {
		case err != nil:
			return wrong(Unknown, err)
		case waits != 0 && waits <= h.Stop:
			return bad(Fail, u.installAgain()+", and remove TimeoutStopSec from drop-ins", "systemd kills after %v, and the daemon may take %v to end (agent.shutdown_grace and closing files)", waits, h.Stop)
		case waits == 0:
			return good("systemd waits for ever, the daemon takes %v at most", h.Stop)
		}
		return good("systemd waits %v, the daemon takes %v at most", waits, h.Stop)
	})
}

// lookLinger: a user's services end with the last login.
func lookLinger(_ context.Context, h *House) []Check {
	ours := slices.ContainsFunc(h.Units, func(u Unit) bool { return !u.System && !missing(u.Path) })
	if !ours || h.User == "" {
		return []Check{{State: Skipped, Says: "there is no service of this user"}}
	}
	if _, err := os.Stat(filepath.Join("/var/lib/systemd/linger", h.User)); err != nil {
		return []Check{bad(Warn, "loginctl enable-linger "+h.User, "the service ends when %s logs out", h.User)}
	}
	return []Check{good("the service goes on without a login of %s", h.User)}
}
