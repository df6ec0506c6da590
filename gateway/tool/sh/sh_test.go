package sh

import (
	"fmt"
	"strings"
	"testing"
)

// shown is what a script would run, one command after another.
func shown(s Script) string {
	var out []string
	for _, c := range s.Commands {
		text := strings.Join(append(append([]string{}, c.Assigned...), c.Text()), " ")
		for _, r := range c.Redirects {
			text += " " + r.Op + r.Target.Text
		}
		if c.Input != "" {
			text += fmt.Sprintf(" <<%q", c.Input)
		}
		if len(c.From) > 0 {
			text += fmt.Sprint(" ", c.From)
		}
		out = append(out, strings.TrimSpace(text))
	}
	return strings.Join(out, "; ")
}

func TestEveryCommandOfATextIsListedWithItsWords(t *testing.T) {
	for text, want := range map[string]string{
		`"r"'m' $'\x2drf' \/`:                                "rm -rf /",
		"rm$IFS-rf${IFS}/":                                   "rm -rf /",
		"a='rm -rf x'; $a; \"$a\"":                           "a=rm -rf x; rm -rf x; rm -rf x",
		"IFS= read x; a='rm -f'; $a; IFS=,; b=rm,-f; $b":     "IFS= read x; a=rm -f; rm -f; IFS=,; b=rm,-f; rm -f",
		"a=(rm -rf); a+=(x); \"${a[@]}\"":                    "a=rm -rf; a=x; rm -rf x",
		"x=rm; ${x:-y} ${y:-a b} ${HOME:+z} ~/f":             "x=rm; rm a b z /home/me/f",
		"{rm,-{r,f}} f{1..9999} {a..c}":                      "rm -r -f f{1..9999} a b c",
		"a $(b `c`) <(d) \"$(e)\" $((1+$(f)))":               "a $(b `c`) <(d) $(e) $((1+$(f))); b `c`; c; d; e; f",
		"$(echo rm) -rf x":                                   "rm -rf x; echo rm",
		"a | b | c && d |& e":                                "a; b [0]; c [1]; d; e [3]",
		"a | { b; (c); }":                                    "a; b [0]; c [0]",
		"if a; then b; else c; fi > x; f() { d; }":           "a; b; c; >x; d",
		"for i in p q; do e $i; done; case x in *) g;; esac": "e p q; g",
		"[[ -n $(a) ]]; ((x=$(b))); export C=$(c) # d":       "a; b; export C=$(c); c",
		"v=1; a <<E; b <<-'E'\n$v $(c)\nE\n\t$v\nE":          "v=1; a <<\"1 $(c)\\n\"; c; b <<\"$v\\n\"",
		"a <<< x 2>&1 >>y &>z <w":                            "a >>y &>z <w <<\"x\\n\"",
	} {
		s := Parse(text, map[string]string{"HOME": "/home/me"}, "")
		if got := shown(s); got != want || s.Broken {
			t.Errorf("%q: broken %v\n got %s\nwant %s", text, s.Broken, got, want)
		}
	}
}

func TestAWordIsOpenWhereItsValueIsKnownOnlyWhenItRuns(t *testing.T) {
	for text, open := range map[string]bool{
		"a $x": true, "a x${y}z": true, "a `b`": true, "a <(b)": true, "a $((1+1))": true, "a ${x:-y}": true, "a ${HOME:0:1}": true, "a ${HOME#/}": true, "a ${HOME/a/b}": true, "a ${!HOME}": true, "a \"$1\"": true, "v='$x'; a $v": true,
		"a x": false, "a '$x'": false, "a \\$x": false, "a $HOME": false, "v=x; a $v": false, "a $(echo x)": false, "a ~nobody": false, "a *": false,
	} {
		s := Parse(text, map[string]string{"HOME": "/home/me"}, "")
		at := strings.Count(text, ";")
		if words := s.Commands[at].Words; len(words) != 2 || words[1].Open != open {
			t.Errorf("%q: %+v", text, words)
		}
	}
}

func TestWhatIsNoScriptIsBrokenAndStillRead(t *testing.T) {
	for _, text := range []string{
		"rm -rf /\necho 'x", "echo $(rm -rf /", "'rm' -rf \"/\" ; )", "echo `x; rm -rf /", "if true; then rm -rf /", "cat <<EOF\n$(rm -rf /)\n", "r\\m -rf '/", "case x in\nrm -rf /",
		strings.Repeat("x", maxText) + "\nrm -rf /", strings.Repeat("(", 1000) + "rm -rf /", "rm -rf / " + strings.Repeat("{a,b}", 1000),
	} {
		s := Parse(text, nil, "")
		if !s.Broken || !strings.Contains("; "+shown(s), "; rm -rf /") {
			t.Errorf("%.80q: broken %v, %.200s", text, s.Broken, shown(s))
		}
	}
}

func TestATextIsReadWithinBounds(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a;", maxCommands+1), strings.Repeat("{ ", MaxDepth+1) + "a" + strings.Repeat("; }", MaxDepth+1),
		"x=" + strings.Repeat("y", 100) + strings.Repeat("; x=\"$x$x\"", 100), strings.Repeat("{a,b}", 16) + strings.Repeat(" {a,b}{c,d}", 9000),
	} {
		if s := Parse(text, nil, ""); !s.Broken || len(s.Commands) > maxCommands {
			t.Errorf("%.80q: broken %v, %d commands", text, s.Broken, len(s.Commands))
		}
	}
}
