// Package lastrun owns run.json: what a daemon writes of its own life into its home, and what the next one reads in it. A life
// that ended in order says so itself; of the others the file knows how far they came, and the next start finds out the rest.
package lastrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"gatewayd/internal/procfs"
)

// How a run ended.
const (
	Stopped = "stopped" // it was asked to, by a signal
	Restart = "restart" // it was asked to be started again
	Failed  = "failed"  // a part of it could not go on
	Crashed = "crashed" // a bug: the Go runtime ended it
	Killed  = "killed"  // without a word: kill -9, out of memory, or its container went away
	Power   = "power"   // the machine was restarted, or lost its power
	Unknown = "unknown" // its file cannot be read
)

// Run is one life of a daemon.
type Run struct {
	PID     int        `json:"pid"`
	Start   uint64     `json:"start"` // ticks since boot
	Boot    string     `json:"boot"`
	Version string     `json:"version,omitempty"`
	Began   time.Time  `json:"began"`
	Seen    time.Time  `json:"seen"` // the file's own age: the last thing that it wrote
	Ended   *time.Time `json:"ended,omitempty"`
	How     string     `json:"how,omitempty"`
	Signal  string     `json:"signal,omitempty"` // that asked it to stop, or killed it where that is known
	Code    int        `json:"code"`             // its exit code, when it ended in order
	Detail  string     `json:"detail,omitempty"`
	Phase   string     `json:"phase,omitempty"` // running, or stopping: how far it came

	OOM []procfs.OOMCount `json:"oom,omitempty"` // what the kernel had counted when it began
}

// Known reports whether there was a run at all.
func (r Run) Known() bool { return r.PID != 0 || r.How == Unknown }

// Orderly reports that it ended because somebody asked.
func (r Run) Orderly() bool { return r.How == Stopped || r.How == Restart }

// String is a sentence for people.
func (r Run) String() string {
	if !r.Known() {
		return "there was none before this one"
	}
	text := map[string]string{
		Stopped: "was stopped", Restart: "was restarted", Failed: "ended by itself", Crashed: "crashed, a bug of gatewayd",
		Killed: "was killed without a chance to say why", Power: "ended with the machine: a restart or a power cut",
	}[r.How]
	if text == "" {
		text = "ended in an unknown way"
	}
	if r.Signal != "" {
		text += " (" + r.Signal + ")"
	}
	if r.Phase == phaseStopping && !r.Orderly() {
		text += ", while it was stopping"
	}
	if r.How == Failed {
		text += fmt.Sprintf(", exit code %d", r.Code)
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

const (
	fileName      = "run.json"
	crashName     = "crash.log"
	phaseRunning  = "running"
	phaseStopping = "stopping"
	crashMost     = 64 << 10
)

// Diary is the record of this life.
type Diary struct {
	dir string
	run Run
}

// Open begins the record of this run, in place of the last one's. The caller holds the home. Without a record a daemon goes on.
func Open(dir, version string) (*Diary, error) {
	self, err := procfs.Self()
	if err != nil {
		return nil, fmt.Errorf("identify this process: %w", err)
	}
	d := &Diary{dir: dir, run: Run{PID: self.PID, Start: self.Start, Boot: self.Boot, Version: version, Began: time.Now().UTC(), Phase: phaseRunning, OOM: procfs.OOMCounts()}}
	if err := d.write(); err != nil {
		return nil, err
	}
	return d, d.catch()
}

// catch has the runtime write what a crash says beside its usual place: standard error is often nowhere.
func (d *Diary) catch() error {
	file, err := os.OpenFile(filepath.Join(d.dir, crashName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make crash log: %w", err)
	}
	defer file.Close() // the runtime keeps a descriptor of its own
	if err := debug.SetCrashOutput(file, debug.CrashOptions{}); err != nil {
		return fmt.Errorf("set crash log: %w", err)
	}
	return nil
}

// Stopping notes that this run was asked to end, before it waits for anybody.
func (d *Diary) Stopping(signal string) error {
	if d == nil {
		return nil
	}
	d.run.Phase, d.run.Signal = phaseStopping, signal
	return d.write()
}

// End notes how this run ends; it is one of the last things that a daemon does.
func (d *Diary) End(how string, code int, detail string) error {
	if d == nil {
		return nil
	}
	now := time.Now().UTC()
	d.run.Ended, d.run.How, d.run.Code, d.run.Detail = &now, how, code, detail
	return d.write()
}

// write replaces the file; a reader sees the old one or the new one.
func (d *Diary) write() error {
	d.run.Seen = time.Now().UTC()
	text, err := json.Marshal(d.run)
	if err != nil {
		return fmt.Errorf("encode run: %w", err)
	}
	path := filepath.Join(d.dir, fileName)
	if err := replace(path, append(text, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func replace(path string, text []byte) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Read tells how the last run in a home ended, from what it wrote and from what can be seen now. The caller holds the home, so
// nobody is writing it.
func Read(dir string) Run {
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return Run{}
	}
	var last Run
	if err != nil || json.Unmarshal(text, &last) != nil || last.PID == 0 {
		return Run{How: Unknown, Detail: "its record cannot be read"}
	}
	crash, _ := os.ReadFile(filepath.Join(dir, crashName))
	return last.judge(string(crash[:min(len(crash), crashMost)]), procfs.BootID(), procfs.OOMCounts())
}

// judge is the rule: what the run said itself counts; else a crash that the runtime wrote down; else another boot; else it was
// killed.
func (r Run) judge(crash, boot string, oom []procfs.OOMCount) Run {
	switch {
	case r.Ended != nil && r.How != "":
	case strings.TrimSpace(crash) != "":
		r.How, r.Detail = Crashed, firstLine(crash)
	case r.Boot != "" && boot != "" && r.Boot != boot:
		r.How = Power
	default:
		r.How, r.Detail = Killed, outOfMemory(r.OOM, oom)
	}
	return r
}

// outOfMemory says what the kernel counted between two starts: of the run's own control group it is as good as certain that it was
// this run, of one above it may have been a neighbour. Nothing where nothing was counted, or the group is another one.
func outOfMemory(then, now []procfs.OOMCount) string {
	for i, before := range then {
		for _, after := range now {
			if before.Group != after.Group || after.Kills <= before.Kills {
				continue
			}
			if i == 0 && before.Group != "" {
				return "by SIGKILL; its control group " + before.Group + " counted a process that the kernel ended for want of memory"
			}
			return "probably by SIGKILL for want of memory: " + groupName(before.Group) + " counted such an end since it began, of it or of a neighbour"
		}
	}
	return ""
}

func groupName(group string) string {
	if group == "" {
		return "the machine"
	}
	return "the control group " + group + " above it"
}

// firstLine is what a crash is called.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "SIG") {
			return line[:min(len(line), 200)]
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 200)]
}
