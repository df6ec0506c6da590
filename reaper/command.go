package reaper

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gatewayd/internal/problem"
)

// command is a Spec as a keeper needs it: resolved, complete, absolute. It travels as one JSON message.
type command struct {
	ID       string        `json:"id"`
	Records  string        `json:"records"`
	Path     string        `json:"path"`
	Argv     []string      `json:"argv"`
	Dir      string        `json:"dir"`
	Env      []string      `json:"env"`
	Lifetime Lifetime      `json:"lifetime"`
	LogPath  string        `json:"log_path,omitempty"`
	LogMax   int64         `json:"log_max,omitempty"`
	Deadline time.Duration `json:"deadline,omitempty"`
	Grace    time.Duration `json:"grace"`
	Piped    bool          `json:"piped,omitempty"` // its input and errors are pipes of the daemon
	Sync     bool          `json:"sync"`            // the record is for later daemons too, so it is made durable
}

// StartError says that a program could not be started. Err is a *problem.Error that names the remedy.
type StartError struct {
	Argv0 string
	Err   error
}

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap gives the problem, and through it the cause.
func (e *StartError) Unwrap() error { return e.Err }

// newCommand checks everything that can be checked without a process, so that the usual mistakes cost none.
func newCommand(spec Spec, records string) (command, error) {
	if err := checkID(spec.ID); err != nil {
		return command{}, err
	}
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return command{}, startError("", &problem.Error{
			Kind: problem.Config, Thing: "command of " + quote(spec.ID), What: "is empty",
			Fate: "nothing was started", Remedy: "give it a program to run",
		})
	}
	c := command{
		ID: spec.ID, Records: records, Argv: spec.Argv, Dir: cmp.Or(spec.Dir, "/"), Lifetime: spec.Lifetime,
		LogPath: spec.LogPath, LogMax: cmp.Or(spec.LogMax, DefaultLogMax), Deadline: spec.Deadline,
		Grace: cmp.Or(spec.Grace, DefaultGrace), Sync: true,
	}
	if err := c.place(); err != nil {
		return command{}, startError(spec.Argv[0], err)
	}
	if err := c.look(spec.Env); err != nil {
		return command{}, startError(spec.Argv[0], err)
	}
	c.Env = tagged(spec.Env, spec.ID)
	return c, nil
}

func startError(argv0 string, err error) error { return &StartError{Argv0: argv0, Err: err} }

// place makes the paths absolute, because a keeper lives in / and holds no mount busy.
func (c *command) place() error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("resolve working directory: %w", err)
	}
	c.Dir = dir
	if c.LogPath != "" {
		if c.LogPath, err = filepath.Abs(c.LogPath); err != nil {
			return fmt.Errorf("resolve log: %w", err)
		}
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return dirProblem(dir, err)
	}
	return nil
}

func dirProblem(dir string, err error) error {
	return &problem.Error{
		Kind: problem.Config, Thing: "working directory " + dir, What: "cannot be used", Err: cause(err),
		Fate: "nothing was started", Remedy: "create it or configure another one",
	}
}

// defaultPath is what the C library searches when PATH is not set.
const defaultPath = "/bin:/usr/bin"

// look finds the program as execvp would: a name with a slash is relative to the working directory, another one is
// searched in the PATH that the child itself gets.
func (c *command) look(env []string) error {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		c.Path = name
		if !filepath.IsAbs(name) {
			c.Path = filepath.Join(c.Dir, name)
		}
		return programProblem(name, "", executable(c.Path))
	}
	search, ok := lookup(env, "PATH")
	if !ok {
		search = defaultPath
	}
	found := error(syscall.ENOENT)
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.Dir, dir)
		}
		err := executable(filepath.Join(dir, name))
		if err == nil {
			c.Path = filepath.Join(dir, name)
			return nil
		}
		if errors.Is(err, syscall.EACCES) {
			found = err
		}
	}
	return programProblem(name, search, found)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case info.Mode()&0o111 == 0:
		return syscall.EACCES
	}
	return nil
}

// programProblem tells a failed start as the person who wrote the configuration must hear it.
func programProblem(name, search string, err error) error {
	if err == nil {
		return nil
	}
	p := &problem.Error{Kind: problem.Config, Thing: "program " + quote(name), Fate: "nothing was started", Err: cause(err)}
	switch {
	case errors.Is(err, fs.ErrNotExist) && search != "":
		p.What, p.Remedy = "is not in PATH "+quote(search), "install it, or give its full path"
	case errors.Is(err, fs.ErrNotExist):
		p.What, p.Remedy = "does not exist, or its interpreter does not", "install it, or correct its path or its #! line"
	case errors.Is(err, syscall.ENOEXEC):
		p.What, p.Remedy = "is not in a format that the kernel runs", "begin a script with a #! line, or use a program built for this machine"
	case errors.Is(err, fs.ErrPermission):
		p.What, p.Remedy = "may not be executed", "chmod +x it, and look at the mount option noexec"
	case errors.Is(err, syscall.EISDIR):
		p.What, p.Remedy = "is a directory", "give the path of the program in it"
	case errors.Is(err, syscall.E2BIG):
		p.What, p.Remedy = "gets more arguments or environment than the kernel takes", "pass long text in a file"
	default:
		p.Kind, p.What, p.Remedy = problem.Unavailable, "could not be started", "look at the limits of processes and memory"
	}
	return p
}

// cause takes the bare error number out of the wrapping that os puts around it, which would say the path twice.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// tagged is the child's environment: what the Spec says and the tag, and no other tag.
func tagged(env []string, id string) []string {
	out := make([]string, 0, len(env)+1)
	for _, entry := range env {
		if !strings.HasPrefix(entry, TagKey+"=") {
			out = append(out, entry)
		}
	}
	return append(out, TagKey+"="+id)
}

// lookup takes the last entry, as programs started through os/exec see it.
func lookup(env []string, key string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], key+"="); ok {
			return value, true
		}
	}
	return "", false
}

func quote(s string) string { return strconv.Quote(s) }
