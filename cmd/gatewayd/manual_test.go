package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
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

// What bash is given is what bash can run: it asks the program, and shows what it answers.
func TestBashCompletesVerbs(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIPPED: bash is not installed")
	}
	g := newGround(t)
	need(t, exec.Command(g.bin, "manual", g.out).Run())
	cmd := exec.CommandContext(t.Context(), bash, "--norc", "-c", `
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
source "$1/completions/gatewayd"
COMP_WORDS=(gatewayd insi); COMP_CWORD=1; COMP_LINE='gatewayd insi'; COMP_POINT=13; COMP_TYPE=9
$(complete -p gatewayd | sed 's/.*-F \([^ ]*\).*/\1/')
printf '%s\n' "${COMPREPLY[@]}"`, "bash", g.out)
	cmd.Env, cmd.Dir = g.env, g.cwd
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("insights")) {
		t.Errorf("%v: %s", err, out)
	}
}
