package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gatewayd/internal/mutation"
)

// Bounds of what one command leaves for the next.
const (
	maxShells    = 128       // conversations that are remembered; the one longest unused goes
	maxVariable  = 16 << 10  // bytes of one exported variable
	maxVariables = 64 << 10  // bytes of all
	maxFunctions = 64 << 10  // bytes of all functions
	maxLeft      = 256 << 10 // bytes that are read of what a command left
)

// shells is where each conversation's last command has left it. Nothing of it is on disk while no command runs, and all of it ends
// with the process.
type shells struct {
	mu        sync.Mutex
	bySession map[string]*stand
}

// stand is one conversation's: the directory of its turn, and what its last command left.
type stand struct {
	base, dir string
	env       []string // nil: nothing was left yet
	functions string
	running   int
	mixed     bool // two ran at a time, so nobody can say which one's end is the next one's start
	used      time.Time
}

// footing is what one command starts with, and its way to leave something.
type footing struct {
	of        *shells
	stand     *stand
	dir       string
	env       []string
	functions string
	carries   bool
	left      string // the file that its shell writes at its end; empty: none
	given     string // the file that its shell begins with
}

func newShells() *shells { return &shells{bySession: map[string]*stand{}} }

// enter gives a command of a conversation its start, and words for the model where the directory is gone. Waited is whether the
// turn waits for it: only such a command leaves something for the next.
func (s *shells) enter(session, base string, waited bool) (sh *footing, gone string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.bySession[session]
	if p == nil || p.base != base && p.running == 0 {
		s.makeRoom()
		p = &stand{base: base, dir: base}
		s.bySession[session] = p
	}
	p.used = time.Now()
	sh = &footing{of: s, stand: p, dir: p.dir, env: p.env, functions: p.functions, carries: waited}
	if _, err := os.Stat(sh.dir); errors.Is(err, fs.ErrNotExist) && sh.dir != base {
		gone = fmt.Sprintf("[the directory %s is gone; this ran in %s]\n", sh.dir, base)
		sh.dir = base
	}
	if waited {
		p.running++
		p.mixed = p.mixed || p.running > 1
	}
	return sh, gone
}

// makeRoom forgets the conversation that was idle for longest.
func (s *shells) makeRoom() {
	if len(s.bySession) < maxShells {
		return
	}
	oldest := ""
	for session, p := range s.bySession {
		if p.running == 0 && (oldest == "" || p.used.Before(s.bySession[oldest].used)) {
			oldest = session
		}
	}
	delete(s.bySession, oldest)
}

// leave ends a command that was entered as waited for.
func (s *shells) leave(sh *footing) {
	sh.discard()
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh.stand.running--; sh.stand.running == 0 {
		sh.stand.mixed = false
	}
}

func (s *shells) drop(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bySession, session)
}

// prepare gives the variables by which a bash begins with the functions and leaves what it has at its end. Other shells have no
// such way and carry nothing.
func (sh *footing) prepare(dir, id, program string) (env []string, err error) {
	if dir == "" || filepath.Base(program) != "bash" {
		sh.carries = false
		return nil, nil
	}
	if !sh.carries && sh.functions == "" {
		return nil, nil
	}
	sh.given = filepath.Join(dir, id+".in")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of shells: %w", err)
	}
	begin := "unset BASH_ENV\n" + sh.functions
	if sh.carries {
		sh.left = filepath.Join(dir, id+".out")
		begin += "\n" + fmt.Sprintf(leaving, quoted(quoted(sh.left)))
	}
	if err := os.WriteFile(sh.given, []byte(begin), 0o600); err != nil {
		return nil, fmt.Errorf("write what a shell begins with: %w", err)
	}
	return []string{"BASH_ENV=" + sh.given}, nil
}

// leaving is what bash does when it exits: it writes its directory, its exported variables and its functions, each text ended by a
// zero byte, and a last word that says that all of it is there. A command that sets an EXIT trap of its own, or becomes another
// program, leaves nothing.
const leaving = `trap '{ set +x; IFS=$'"'\n'"'; pwd -P; printf "\0"; for __gatewayd in $(compgen -e); do printf "%%s=%%s\0" "$__gatewayd" "${!__gatewayd-}"; done; ` +
	`printf "\0"; declare -f; printf "\0end"; } 2>/dev/null >|'%s' || :' EXIT
`

// quoted is a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// take reads what the command has left, for the next one. What was left by one of two at a time is not taken: which of them the
// model would mean is anybody's guess.
func (sh *footing) take() {
	if !sh.carries || sh.left == "" {
		return
	}
	dir, env, functions, ok := readLeft(sh.left)
	sh.of.mu.Lock()
	defer sh.of.mu.Unlock()
	if ok && !sh.stand.mixed {
		sh.stand.dir, sh.stand.env, sh.stand.functions = dir, env, functions
	}
}

// discard removes its files.
func (sh *footing) discard() {
	for _, file := range []string{sh.given, sh.left} {
		if file != "" {
			_ = os.Remove(file)
		}
	}
}

// readLeft reads what a shell wrote at its end.
func readLeft(file string) (dir string, env []string, functions string, ok bool) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLeft {
		return "", nil, "", false
	}
	raw, err := os.ReadFile(file)
	whole, found := bytes.CutSuffix(raw, []byte("\x00end"))
	if err != nil || !found {
		return "", nil, "", false
	}
	parts := strings.Split(string(whole), "\x00")
	dir = strings.TrimSuffix(parts[0], "\n")
	if len(parts) < 3 || !filepath.IsAbs(dir) {
		return "", nil, "", false
	}
	return dir, carried(parts[1 : len(parts)-2]), carriedFunctions(parts[len(parts)-1]), true
}

// ownVariables are those that each shell makes for itself, and those that every command is given anew.
var ownVariables = []string{"PWD", "OLDPWD", "SHLVL", "_", "TERM", "PAGER", "GIT_TERMINAL_PROMPT"}

// carried is the variables that go to the next command: none that looks like a secret, by its name or by its value.
func carried(exported []string) []string {
	env, size := []string{}, 0
	for _, kv := range exported {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(ownVariables, name) || strings.HasPrefix(name, "BASH") || ours(kv) || !mutation.On("secrets-are-carried") && (looksSecret(kv) || clean(kv) != kv) {
			continue
		}
		if len(kv) > maxVariable || size+len(kv) > maxVariables {
			continue
		}
		env, size = append(env, kv), size+len(kv)
	}
	return env
}

func carriedFunctions(text string) string {
	if len(text) > maxFunctions || clean(text) != text {
		return ""
	}
	return text
}
