package tool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parlour is one conversation with a terminal that carries.
func parlour(t *testing.T, opts TerminalOptions) (say func(session, command string) string, state string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "it's here") // a path that a shell would take apart
	opts.State = state
	if opts.Reaper == nil {
		opts.Reaper = newReaper(t)
	}
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	set := NewSet(NewTerminal(opts))
	return func(session, command string) string {
		t.Helper()
		return set.Run(soon(t), Call{Name: "terminal", Session: session, ID: "c", Policy: cli, Args: args(map[string]any{"command": command})}).Content
	}, state
}

func TestACommandBeginsWhereTheOneBeforeItEnded(t *testing.T) {
	dir := t.TempDir()
	say, state := parlour(t, TerminalOptions{Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}})
	for _, step := range []struct{ session, command, want string }{
		{"a", "mkdir -p 'in side' && cd 'in side' && export COLOUR='dark blue' LINES2=$'one\\ntwo' && hum() { echo \"hums $COLOUR\"; }", "(no output)\n[exit 0]"},
		{"a", "pwd; hum; echo \"$LINES2\"", dir + "/in side\nhums dark blue\none\ntwo\n[exit 0]"},
		{"a", "cd ..; unset COLOUR; exit 3", "(no output)\n[exit 3]"},
		{"a", "pwd; hum", dir + "\nhums \n[exit 0]"},
		{"b", "pwd; hum", dir + "\nbash: line 1: hum: command not found\n[exit 127]"},
		{"a", "set -eu; cd 'in side'; false", "(no output)\n[exit 1]"},
		{"a", "pwd", dir + "/in side\n[exit 0]"},
		{"a", "(cd /; export X=1); cd / & wait; pwd; set -o noclobber", dir + "/in side\n[exit 0]"},
		{"a", "echo $0 $# ${X-unset} ${BASH_ENV-none}; trap", "bash 0 unset none\n"},
		{"a", "rmdir \"$PWD\"", "(no output)\n[exit 0]"},
		{"a", "pwd", "[the directory " + dir + "/in side is gone; this ran in " + dir + "]\n" + dir + "\n[exit 0]"},
	} {
		got := say(step.session, step.command)
		got = strings.ReplaceAll(got, "/bin/bash", "bash")
		if !strings.HasPrefix(got, step.want) {
			t.Errorf("%s: %q\n got %q\nwant %q", step.session, step.command, got, step.want)
		}
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
		t.Errorf("on the disk between calls: %v, %v", left, err)
	}
}

func TestNoSecretIsCarriedFromOneCommandToTheNext(t *testing.T) {
	say, _ := parlour(t, TerminalOptions{})
	say("a", "export MY_TOKEN=abc API_KEY=def HARMLESS=ghp_"+strings.Repeat("a", 36)+" PLAIN=yes GATEWAYD_HOME=/elsewhere; login() { curl -H 'Authorization: Bearer abcdefgh'; }")
	got := say("a", "env; declare -f")
	for _, bad := range []string{"MY_TOKEN", "API_KEY", "HARMLESS", "elsewhere", "login"} {
		if strings.Contains(got, bad) {
			t.Errorf("%s was carried:\n%s", bad, got)
		}
	}
	if !strings.Contains(got, "PLAIN=yes") {
		t.Errorf("PLAIN was not carried:\n%s", got)
	}
}

func TestWhatACommandLeavesIsBounded(t *testing.T) {
	say, _ := parlour(t, TerminalOptions{})
	say("a", "export SMALL=1 BIG=$(head -c 20000 /dev/zero | tr '\\0' x)")
	if got := say("a", "echo ${SMALL-none} ${#BIG}"); got != "1 0\n[exit 0]" {
		t.Errorf("a large variable: %q", got)
	}
	say("a", "for i in $(seq 40); do export V$i=$(head -c 15000 /dev/zero | tr '\\0' x); done; cd /")
	if got := say("a", "echo ${V1-none} ${SMALL-none}"); got != "none 1\n[exit 0]" {
		t.Errorf("a very large environment: %.100q", got)
	}
}

// What two commands at a time leave is not carried: the next one's start must not depend on which of them was slower.
func TestCommandsBesideEachOtherCarryNothing(t *testing.T) {
	dir := t.TempDir()
	set := NewSet(NewTerminal(TerminalOptions{Reaper: newReaper(t), Dir: dir, State: t.TempDir()}))
	run := func(id, command string) string {
		return set.Run(soon(t), Call{Name: "terminal", Session: "a", ID: id, Policy: cli, Args: args(map[string]any{"command": command})}).Content
	}
	first := make(chan string)
	go func() {
		first <- run("c1", "cd /; touch '"+dir+"/one'; while [ ! -e '"+dir+"/two' ]; do sleep 0.02; done")
	}()
	run("c2", "while [ ! -e one ]; do sleep 0.02; done; cd /usr; touch '"+dir+"/two'")
	<-first
	if got := run("c3", "pwd"); got != dir+"\n[exit 0]" {
		t.Errorf("began in %q", got)
	}
}
