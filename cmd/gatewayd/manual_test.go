package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/internal/vigil"
)

func TestEachCommandHasAPageThatIsTheSameEachTime(t *testing.T) {
	root := (&cli{}).root()
	one, err := manual(root)
	need(t, err)
	two, err := manual((&cli{}).root())
	need(t, err)
	for _, verb := range append(everyVerb(root), "") {
		cmd, _, err := root.Find(strings.Fields(verb))
		need(t, err)
		if cmd.Hidden {
			continue
		}
		name := "man1/" + pageName(cmd) + ".1"
		if text := one[name]; !bytes.Contains(text, []byte(".SH SYNOPSIS")) || !bytes.Equal(text, two[name]) {
			t.Errorf("%s: %d bytes, %d the second time", name, len(text), len(two[name]))
		}
	}
}

// What bash is given is what bash can run: it asks the program, and shows what it answers. Without a daemon there are no cards and no
// conversations to offer, and nothing is said of that.
func TestBashCompletesVerbsBoardsCardsLanesAndConversations(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIPPED: bash is not installed")
	}
	g := newGround(t)
	need(t, exec.Command(g.bin, "manual", g.out).Run())
	g.env = append(g.env, "GATEWAYD_HOME="+g.home)
	press := func(line string) string { // the tabulator at the end of a line
		t.Helper()
		cmd := exec.CommandContext(t.Context(), bash, "--norc", "-c", `
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
compopt() { :; } # wants to be called by a key
source "$1/completions/gatewayd"
COMP_LINE=$2; COMP_POINT=${#2}; COMP_TYPE=9
read -ra COMP_WORDS <<<"$2"; [[ $2 != *' ' ]] || COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
$(complete -p gatewayd | sed 's/.*-F \([^ ]*\).*/\1/')
printf '%s\n' "${COMPREPLY[@]}"`, "bash", g.out, line)
		cmd.Env, cmd.Dir = g.env, g.cwd
		out, err := cmd.CombinedOutput()
		need(t, err)
		return string(out)
	}
	_, stop := g.serve()
	defer stop()
	g.fill()
	need(t, os.WriteFile(g.home+"/config.yaml", []byte("model: {provider: offline}\nkanban: {lanes: {deft: {preset: command, argv: [make]}}}\n"), 0o600))
	g.must("kanban", "boards", "create", "other")
	g.must("kanban", "create", "elsewhere", "--board", "other")
	for line, want := range map[string]string{
		"gatewayd insi": "insights", "gatewayd kanban boards switch de": "demo", "gatewayd kanban list --board de": "demo",
		"gatewayd kanban show ": g.card, "gatewayd kanban assign " + g.card + " de": "deft", "gatewayd kanban create x --assignee de": "deft",
		"gatewayd sessions show ": g.session, "gatewayd chat --session ": g.session,
	} {
		got := "" // on a busy machine the answer may come later than a person is kept waiting, who then presses once more
		if !vigil.Until(20*time.Second, nil, func() bool { got = press(line); return strings.Contains(got, want) }) {
			t.Fatalf("%q: %q is not offered: %q", line, want, got)
		}
	}
	if got := press("gatewayd kanban show "); strings.Contains(got, "elsewhere") {
		t.Errorf("a card of another board is offered: %q", got)
	}
	stop()
	for _, line := range []string{"gatewayd kanban show ", "gatewayd sessions show "} {
		if got := strings.TrimSpace(press(line)); got != "" {
			t.Errorf("%q without a daemon: %q", line, got)
		}
	}
}

func TestAPersonWhoTypesIsNotKeptWaitingForWhatHangs(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	cmd := (&cli{}).root()
	cmd.SetContext(t.Context())
	all, _ := offered(cmd, func(context.Context, *cobra.Command) []string { <-release; return []string{"late"} }, false, "")
	if len(all) > 0 {
		t.Errorf("offered: %q", all)
	}
}
