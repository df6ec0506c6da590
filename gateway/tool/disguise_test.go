package tool

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// commandsOf reads a list of commands that are only ever read and never run.
func commandsOf(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n%%\n")
}

func TestNoDisguiseGetsACatastropheByTheFloor(t *testing.T) {
	for _, command := range commandsOf(t, "refused.txt") {
		if fatal(command, tester, standing{dir: "/proj"}) == "" {
			t.Errorf("not refused: %q, only asked about: %v", command, rulesOf(Dangers(command, tester, "/proj")))
		}
	}
}

func TestWhatCannotBeReadIsAskedAbout(t *testing.T) {
	for _, command := range commandsOf(t, "asked.txt") {
		if len(Dangers(command, tester, "/proj")) == 0 {
			t.Errorf("taken for harmless: %q", command)
		}
	}
}

func TestScriptsOfOrdinaryWorkAreNotAskedAbout(t *testing.T) {
	for _, command := range commandsOf(t, "ordinary.txt") {
		if what := fatal(command, tester, standing{dir: "/proj"}); what != "" {
			t.Errorf("refused: %q would %s", command, what)
		}
		if found := Dangers(command, tester, "/proj"); len(found) > 0 {
			t.Errorf("asked about %q: %+v", command, found)
		}
	}
}

func TestAFunctionOfAnEarlierCommandIsReadWhereItIsCalled(t *testing.T) {
	at := standing{dir: "/proj", functions: "clear_up () \n{ \n    rm \"$@\"\n}\nshow () \n{ \n    echo \"$@\"\n}"}
	if fatal("clear_up -rf /", tester, at) == "" {
		t.Error("not refused")
	}
	if found := rulesOf(dangers("clear_up -r build", tester, "/proj", at)); !slices.Contains(found, "recursive-delete") {
		t.Errorf("taken for harmless: %v", found)
	}
	for _, command := range []string{"show -rf /", "ls", "clear_up x"} {
		if found := dangers(command, tester, "/proj", at); len(found) > 0 || fatal(command, tester, at) != "" {
			t.Errorf("asked about %q: %v", command, found)
		}
	}
}

func TestAVariableThatNothingSetsIsNoText(t *testing.T) {
	at := standing{dir: "/proj", env: []string{"BUILD=/proj/build"}}
	for command, refused := range map[string]bool{
		`rm -rf "$STEAMROOT/"*`: true, `rm -rf $A/$B`: true, `rm -rf "/$A"`: true, `cd x; rm -rf ${A}/*`: true,
		`rm -rf "$BUILD/"*`: false, `A=x; rm -rf "$A/"*`: false, `read A; rm -rf "$A/"*`: false, `. ./env; rm -rf "$A/"*`: false, `for A in *; do rm -rf "$A/"; done`: false,
		`rm -rf "$PWD/"*`: false, `bash -c 'rm -rf "$A/"*'`: false, `rm -rf "$(pwd)/"*`: false, `f() { rm -rf "$1/"; }; f x`: false, `[ -n "$A" ] && rm -rf "${A:?}/"*`: false,
	} {
		if what := fatal(command, tester, at); (what != "") != refused {
			t.Errorf("%q: refused because it would %q", command, what)
		}
	}
}
