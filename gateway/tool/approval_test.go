package tool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// person answers every question with the same choice, and remembers them.
type person struct {
	choice Choice
	words  string
	asked  []Request
}

func (p *person) Approve(_ context.Context, r Request) Decision {
	p.asked = append(p.asked, r)
	return Decision{ID: "a1", Choice: p.choice, By: "test", Words: p.words}
}

// shellTool is a tool whose command is in its arguments, as the terminal's is.
type shellTool struct{ probe }

func (shellTool) Permission() Permission { return NeedsTerminal }
func (shellTool) Command(call Call) string {
	var args struct{ Command string }
	_ = json.Unmarshal(call.Args, &args)
	return args.Command
}

// try runs a command through the gate.
func try(t *testing.T, policy Policy, args map[string]any) (ran bool, r Result) {
	t.Helper()
	n := 0
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r = NewSet(shellTool{probe{name: "terminal", ran: &n}}).Run(t.Context(), Call{Session: "s", Turn: "t", ID: "c", Name: "terminal", Args: raw, Dir: "/proj", Policy: policy})
	if n == 0 && (!r.Err || r.Effect != EffectNone) {
		t.Errorf("a call that was not run must be an error without effect: %+v", r)
	}
	return n == 1, r
}

func shellCall(text string) map[string]any { return map[string]any{"command": text} }

func TestHarmlessCommandsRunAndDangerousOnesAreAsked(t *testing.T) {
	for _, c := range []struct {
		name, command string
		mode          Mode
		choice        Choice
		asks, runs    bool
	}{
		{"harmless", "git status", Ask, ChoiceDeny, false, true},
		{"dangerous, once", "rm -rf build", Ask, ChoiceOnce, true, true},
		{"dangerous, for the session", "rm -rf build", Ask, ChoiceSession, true, true},
		{"dangerous, always", "rm -rf build", Ask, ChoiceAlways, true, true},
		{"dangerous, denied", "rm -rf build", Ask, ChoiceDeny, true, false},
		{"an answer that is none", "rm -rf build", Ask, "yes", true, false},
		{"no answer", "rm -rf build", Ask, "", true, false},
		{"everything is asked", "git status", AskAll, ChoiceOnce, true, true},
		{"everything is asked, and denied", "git status", AskAll, ChoiceDeny, true, false},
		{"nobody is asked", "rm -rf build", Allow, ChoiceDeny, false, true},
		{"switched off", "git status", Deny, ChoiceAlways, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &person{choice: c.choice}
			ran, r := try(t, Policy{Context: "api", Terminal: c.mode, Approver: p}, shellCall(c.command))
			if ran != c.runs || (len(p.asked) == 1) != c.asks {
				t.Errorf("ran %v, asked %d times: %s", ran, len(p.asked), r.Content)
			}
		})
	}
}

func TestAQuestionSaysWhatIsDoneAndWhy(t *testing.T) {
	p := &person{choice: ChoiceDeny, words: "the user denied it (approval a1)"}
	_, r := try(t, Policy{Context: "cli", Terminal: Ask, Approver: p}, shellCall("cd x && sudo rm -rf build\x1b[2J\u202e"))
	if len(p.asked) != 1 {
		t.Fatalf("asked %d times", len(p.asked))
	}
	q := p.asked[0]
	if !slices.Equal(q.Rules, []string{"as-root", "recursive-delete"}) || q.Session != "s" || q.Turn != "t" || q.CallID != "c" || q.Tool != "terminal" {
		t.Errorf("%+v", q)
	}
	if !strings.Contains(q.Reason, "rm -rf build") || strings.ContainsAny(q.Effect+q.Reason, "\x1b\u202e") || !strings.Contains(q.Effect, `\u001b`) || !strings.Contains(q.Effect, `\u202e`) {
		t.Errorf("effect %q, reason %q", q.Effect, q.Reason)
	}
	if !strings.Contains(r.Content, "the user denied it") || !strings.Contains(r.Content, "not run") {
		t.Errorf("the model is told %q", r.Content)
	}
}

func TestACommandInTheBackgroundIsGatedLikeAnyOther(t *testing.T) {
	for _, args := range []map[string]any{
		{"command": "rm -rf build", "background": true}, {"command": "rm -rf build &"}, {"command": "nohup rm -rf build > x 2>&1 &"}, {"command": "rm -rf build", "background": false},
	} {
		p := &person{choice: ChoiceDeny}
		if ran, _ := try(t, Policy{Context: "web", Terminal: Ask, Approver: p}, args); ran || len(p.asked) != 1 {
			t.Errorf("%v: ran %v, asked %d times", args, ran, len(p.asked))
		}
	}
}

func TestNothingOverridesTheFloor(t *testing.T) {
	for _, mode := range []Mode{Ask, AskAll, Allow} {
		for _, command := range []string{"rm -rf /", "sudo rm -rf /*", ":(){ :|:& };:", "kill 4242", "echo x > /dev/sda"} {
			p := &person{choice: ChoiceAlways}
			ran, r := try(t, Policy{Context: "cli", Terminal: mode, Approver: p, Allow: []string{"*", "recursive-delete", "terminal"}, Self: tester}, map[string]any{"command": command, "background": true})
			if ran || len(p.asked) != 0 || !strings.Contains(r.Content, "under every setting") {
				t.Errorf("%s, %q: ran %v, asked %d times: %s", mode, command, ran, len(p.asked), r.Content)
			}
		}
	}
}

func TestNobodyIsWaitedForWhereNobodyIs(t *testing.T) {
	for _, context := range []string{"worker", "notify", "cron", ""} {
		p := &person{choice: ChoiceAlways}
		ran, r := try(t, Policy{Context: context, Terminal: Ask, Approver: p}, shellCall("rm -rf build"))
		if ran || len(p.asked) != 0 {
			t.Errorf("%s: ran %v, asked %d times: %s", context, ran, len(p.asked), r.Content)
		}
	}
	if ran, r := try(t, Policy{Context: "worker", Terminal: Ask}, shellCall("make test")); !ran {
		t.Errorf("harmless work of a worker: %s", r.Content)
	}
	if _, r := try(t, Policy{Context: "worker", Terminal: Ask}, shellCall("rm -rf build")); !strings.Contains(r.Content, "tools.allow: [recursive-delete]") {
		t.Errorf("it does not say what would help: %s", r.Content)
	}
	if ran, r := try(t, Policy{Context: "worker", Terminal: Ask, Allow: []string{"recursive-delete"}}, shellCall("rm -rf build")); !ran {
		t.Errorf("the user's own list holds for workers: %s", r.Content)
	}
	if ran, r := try(t, Policy{Context: "api", Terminal: Ask}, shellCall("rm -rf build")); ran || !strings.Contains(r.Content, "nobody can be asked here") {
		t.Errorf("without an approver: ran %v: %s", ran, r.Content)
	}
}

func TestTheUsersListSettlesWhatItNamesAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		allow   string
		command string
		asks    bool
	}{
		{"recursive-delete", "rm -rf build", false},
		{"recursive-delete", "sudo rm -rf build", true},
		{"rm -rf build", "rm -rf build", false},
		{"rm -rf build", "rm  -rf   build", false},
		{"rm -rf build", "rm -rf build2", true},
		{"rm -rf build*", "rm -rf build2", false},
		{"git push --force *", "git push --force origin x", false},
		{"git push --force *", "git push --force origin $(rm -rf x)", true},
		{"git push --force *", "git push --force origin x; rm -rf y", true},
		{"git push --force * main", "git push --force origin dev", true},
		{"terminal", "rm -rf build", false},
		{"/home/me/*", "echo x > /home/me/y", false},
		{"/home/me/*", "echo x > /home/you/y", true},
	} {
		p := &person{choice: ChoiceDeny}
		try(t, Policy{Context: "api", Terminal: Ask, Approver: p, Allow: []string{c.allow}, Self: tester}, shellCall(c.command))
		if (len(p.asked) == 1) != c.asks {
			t.Errorf("%q with %q allowed: asked %d times", c.command, c.allow, len(p.asked))
		}
	}
}

func TestAFileOutsideIsAskedAbout(t *testing.T) {
	for path, asks := range map[string]bool{"/proj/x": false, "/proj/a/b": false, "/tmp/x": false, "/proj2/x": true, "/proj/../x": true, "/etc/x": true, "/proj/.ssh/x": true} {
		ran := 0
		p := &person{choice: ChoiceDeny}
		tool := writing{effectful{probe{name: "x", need: NeedsFiles, ran: &ran}}, path}
		NewSet(tool).Run(t.Context(), Call{Name: "x", Args: args(map[string]any{}), Dir: "/proj", Policy: Policy{Context: "cli", Files: Ask, Approver: p}})
		if (len(p.asked) == 1) != asks || (ran == 1) == asks {
			t.Errorf("%s: asked %d times, ran %d times", path, len(p.asked), ran)
		}
	}
}

// standingTool begins where an earlier command has left it.
type standingTool struct {
	shellTool
	at standing
}

func (s standingTool) Stands(Call) standing { return s.at }

func TestACommandIsReadWhereItsShellStands(t *testing.T) {
	for _, c := range []struct {
		at      standing
		command string
		rule    string
	}{
		{standing{dir: "/proj"}, "echo x > hosts", ""},
		{standing{dir: "/etc"}, "echo x > hosts", ruleSystem},
		{standing{dir: "/home/me"}, "echo x > .bashrc", ruleAccount},
		{standing{dir: "/proj", env: []string{"D=/etc"}}, "echo x > $D/hosts", ruleSystem},
		{standing{dir: "/proj", env: []string{"C=rm -rf"}}, "$C build", "recursive-delete"},
	} {
		n, p := 0, &person{choice: ChoiceDeny}
		tool := standingTool{shellTool{probe{name: "terminal", ran: &n}}, c.at}
		NewSet(tool).Run(t.Context(), Call{Name: "terminal", Args: args(shellCall(c.command)), Dir: "/proj", Policy: Policy{Context: "api", Terminal: Ask, Approver: p}})
		if asked := len(p.asked) == 1; asked != (c.rule != "") || asked && !slices.Contains(p.asked[0].Rules, c.rule) {
			t.Errorf("%+v, %q: asked %+v", c.at, c.command, p.asked)
		}
	}
	if n := 0; true {
		tool := standingTool{shellTool{probe{name: "terminal", ran: &n}}, standing{dir: tester.Home}}
		r := NewSet(tool).Run(t.Context(), Call{Name: "terminal", Args: args(shellCall("rm state.db")), Dir: "/proj", Policy: Policy{Context: "api", Terminal: Allow, Self: tester}})
		if n != 0 || !strings.Contains(r.Content, "gatewayd's own files") {
			t.Errorf("ran %d times: %s", n, r.Content)
		}
	}
}

func TestTheTerminalSaysWhereItsCommandsBegin(t *testing.T) {
	dir := t.TempDir()
	terminal := NewTerminal(TerminalOptions{Reaper: newReaper(t), Dir: dir})
	call := func(v map[string]any) Call {
		return Call{Session: "s", Name: "terminal", Args: args(v), Dir: dir, Policy: Policy{Context: "api", Terminal: Allow}}
	}
	if at := terminal.Stands(call(map[string]any{"command": "x"})); at.dir != dir {
		t.Errorf("it begins in %q", at.dir)
	}
	if at := terminal.Stands(call(map[string]any{"command": "x", "workdir": "sub"})); at.dir != dir+"/sub" {
		t.Errorf("with a directory of its own it begins in %q", at.dir)
	}
}
