package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gatewayd/config"
	"gatewayd/internal/lastrun"
	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

// lookLock asks who holds the home. A pid alone proves nothing: the kernel gives it to another process.
func lookLock(_ context.Context, h *House) []Check {
	if !h.usable() {
		return nil
	}
	holder, held, err := config.HolderOf(h.Home)
	switch {
	case err != nil:
		return []Check{wrong(Fail, err)}
	case !held:
		return []Check{freeLock(lastrun.Read(h.Home))}
	case holder.PID == 0:
		return []Check{bad(Warn, "wait for the start that is under way; else `fuser -v "+filepath.Join(h.Home, "gatewayd.lock")+"` names who has it", "the home is held, and not signed")}
	case elsewhere(holder):
		return []Check{good("held by %v", holder)}
	}
	who := procfs.Identity{Boot: holder.Boot, PID: holder.PID, Start: holder.Start}
	if who.Alive() || mutation.On("pid-alone-is-identity") && alive(holder.PID) {
		return []Check{good("held by %v", holder)}
	}
	return []Check{bad(Fail, "stop the process that has it open, then start the daemon", "the home is held, but not by who signed it: %s; it is open in %s", about(holder.PID), openIn(filepath.Join(h.Home, "gatewayd.lock")))}
}

// elsewhere: its pid says nothing here.
func elsewhere(h config.Holder) bool { return h.PIDNS != "" && h.PIDNS != procfs.PIDNamespace() }

func alive(pid int) bool {
	stat, err := procfs.ReadStat(pid)
	return err == nil && !stat.Dead()
}

// freeLock tells the process of the last run from another one that has its pid now.
func freeLock(last lastrun.Run) Check {
	who := procfs.Identity{Boot: last.Boot, PID: last.PID, Start: last.Start}
	switch {
	case !last.Known() || last.PID == 0:
		return good("free")
	case who.Alive() && last.Ended == nil:
		return bad(Warn, fmt.Sprintf("look at it; `kill %d` if it does not end", last.PID), "free, but the process of the last run, %d, still lives", last.PID)
	case !who.Alive() && alive(last.PID):
		return good("free; pid %d of the last run is another process now (%s)", last.PID, commandOf(last.PID))
	}
	return good("free")
}

func about(pid int) string {
	if !alive(pid) {
		return fmt.Sprintf("process %d is gone", pid)
	}
	return fmt.Sprintf("pid %d is another process now (%s)", pid, commandOf(pid))
}

func commandOf(pid int) string {
	command, err := procfs.Command(pid)
	if err != nil || command == "" {
		return "its command cannot be read"
	}
	if r := []rune(command); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return command
}

func openIn(path string) string {
	found, err := procfs.OpenFiles(func(target string) bool { return target == path })
	if err != nil || len(found) == 0 {
		return "a process that may not be looked at"
	}
	var who []string
	for _, fd := range found {
		who = append(who, fmt.Sprintf("process %d (%s)", fd.PID, commandOf(fd.PID)))
	}
	return strings.Join(slices.Compact(who), ", ")
}

// held reports that a daemon of this home runs, as far as can be told.
func (h *House) held() (config.Holder, bool) {
	holder, held, err := config.HolderOf(h.Home)
	return holder, held && err == nil
}

func lookDaemon(ctx context.Context, h *House) []Check {
	if _, held := h.held(); !held {
		last := ""
		if run := lastrun.Read(h.Home); run.Known() {
			last = "; the last one " + run.String()
		}
		return []Check{bad(Warn, "gatewayd --foreground", "is not running%s", last)}
	}
	says, err := h.Daemon(ctx)
	if err != nil {
		c := wrong(Fail, err)
		c.Remedy = cmp.Or(c.Remedy, "`gatewayd logs` says what it was doing; restart it")
		return []Check{c}
	}
	var checks []Check
	for _, t := range says.Troubles {
		checks = append(checks, bad(Warn, "`gatewayd status` says more", "%s", t))
	}
	return unless(checks, good("answers, pid %d, version %s", says.PID, says.Version))
}

// lookVersion finds a daemon that goes on with what is not on disk any more: whoever upgraded thinks that it is the new one.
func lookVersion(ctx context.Context, h *House) []Check {
	this := strings.TrimSpace(h.Version + " " + h.Revision)
	holder, held := h.held()
	if !held {
		return []Check{good("%s", this)}
	}
	const remedy = "restart the daemon: `systemctl --user restart gatewayd`, or `kill -TERM` it and start it again; workers stay at work"
	if program, replaced, err := procfs.Program(holder.PID); err == nil && replaced && !elsewhere(holder) {
		return []Check{bad(Warn, remedy, "the daemon runs a program that was replaced or removed since: %s", program)}
	}
	says, err := h.Daemon(ctx)
	if err != nil {
		return []Check{bad(Unknown, "", "this program is %s; the daemon does not say what it is", this)}
	}
	if runs := strings.TrimSpace(says.Version + " " + says.Revision); runs != this {
		return []Check{bad(Warn, remedy, "the daemon is %s, this program is %s", runs, this)}
	}
	return []Check{good("%s, the daemon too", this)}
}

func lookPort(_ context.Context, h *House) []Check {
	addr := h.Loaded.API.Addr
	_, text, err := net.SplitHostPort(addr)
	port, notNumber := strconv.Atoi(text)
	if err != nil || notNumber != nil || port == 0 {
		return []Check{{State: Skipped, Says: fmt.Sprintf("api.addr is %s: any free port", addr)}}
	}
	listeners, err := procfs.Listeners(port)
	if err != nil {
		return []Check{wrong(Unknown, err)}
	}
	holder, held := h.held()
	for _, l := range listeners {
		if !meets(addr, l.Addr) {
			continue
		}
		if held && (l.PID == holder.PID || elsewhere(holder)) {
			return []Check{good("%s is the daemon's", addr)}
		}
		who := "a process that may not be looked at"
		if l.PID != 0 {
			who = fmt.Sprintf("process %d (%s)", l.PID, commandOf(l.PID))
		}
		state := Fail // a start would be refused
		if held {
			state = Warn
		}
		return []Check{bad(state, "stop that, or choose another address with api.addr", "%s is taken by %s", addr, who)}
	}
	if held {
		return []Check{good("the daemon listens on %s", holder.Addr)}
	}
	return []Check{good("%s is free", addr)}
}

// meets reports that nobody can listen on addr while somebody does on taken.
func meets(addr string, taken netip.AddrPort) bool {
	want, err := netip.ParseAddrPort(addr)
	if err != nil { // a name, as localhost
		return true
	}
	return want.Addr() == taken.Addr() || want.Addr().IsUnspecified() || taken.Addr().IsUnspecified()
}

// local reports an address on this machine.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

func lookHandles(ctx context.Context, h *House) (checks []Check) {
	if _, held := h.held(); !held {
		return []Check{{State: Skipped, Says: "the daemon does not run"}}
	}
	says, err := h.Daemon(ctx)
	if err != nil {
		return []Check{bad(Unknown, "", "the daemon does not say which handles it could not close")}
	}
	for _, path := range says.Stranded {
		checks = append(checks, bad(Warn, "it is tried again by itself; restart the daemon if this stays", "the daemon could not close a handle of %s", path))
	}
	return unless(checks, good("none is stranded"))
}
