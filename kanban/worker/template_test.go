package worker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTemplateRefusesWhatCouldBecomeAnOptionOrCode(t *testing.T) {
	for name, c := range map[string]struct {
		argv []string
		want string // "" = accepted
	}{
		"free text bare":              {[]string{"agent", "{title}"}, "begin with a dash"},
		"free text after a flag":      {[]string{"agent", "-m", "{title}"}, "begin with a dash"},
		"free text after dashes":      {[]string{"agent", "--", "{title}"}, ""},
		"free text behind flag=":      {[]string{"agent", "--prompt={prompt}"}, ""},
		"free text behind words":      {[]string{"agent", "please: {prompt}"}, ""},
		"letters of an option":        {[]string{"agent", "-m{title}"}, "letters of an option"},
		"two in one element":          {[]string{"agent", "{task}{title}"}, "one placeholder"},
		"unknown name":                {[]string{"agent", "{taks}"}, "unknown placeholder"},
		"program from a card":         {[]string{"{title}"}, "cannot come from a card"},
		"program from the assignee":   {[]string{"/bin/{assignee}"}, "cannot come from a card"},
		"this binary":                 {[]string{"{exe}", "worker"}, ""},
		"shell code":                  {[]string{"sh", "-c", "echo {title}"}, "code"},
		"shell code, cluster":         {[]string{"/bin/bash", "-lc", "echo {workspace}"}, "code"},
		"shell code behind env":       {[]string{"env", "bash", "-ec", "echo {task}"}, "code"},
		"python code":                 {[]string{"python3", "-c", "print('{title}')"}, "code"},
		"node code":                   {[]string{"node", "--eval", "x('{title}')"}, "code"},
		"positional after shell code": {[]string{"sh", "-c", `echo "$1"`, "x", "--", "{title}"}, ""},
		"braces that are json":        {[]string{"agent", `{"a": {"b": 1}}`}, ""},
		"open brace":                  {[]string{"agent", "a{b"}, ""},
		"empty":                       {nil, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseTemplate(c.argv)
			if c.want == "" && err != nil {
				t.Fatalf("refused: %v", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestExpandNeverSplitsAndNeverMakesAnOption(t *testing.T) {
	tpl, err := ParseTemplate([]string{"agent", "--w={workspace}", "{task}", "--", "{title}"})
	if err != nil {
		t.Fatal(err)
	}
	nasty := `-rf "$(touch /x)" {task} ` + "\n;&"
	got, err := tpl.Expand(Values{Workspace: "/a b", TaskID: "t_1", Title: nasty})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"agent", "--w=/a b", "t_1", "--", nasty}, got); diff != "" {
		t.Fatal(diff)
	}
	for name, v := range map[string]Values{
		"option":    {TaskID: "--help"},
		"zero byte": {TaskID: "t", Title: "a\x00b"},
		"too long":  {TaskID: "t", Title: strings.Repeat("x", MaxWord+1)},
	} {
		if got, err := tpl.Expand(v); err == nil {
			t.Errorf("%s: accepted as %.60q", name, got)
		}
	}
}

func FuzzExpandKeepsTheNumberOfWords(f *testing.F) {
	f.Add("--", "x", "y")
	f.Add("{title}", "-x", "{prompt}")
	f.Fuzz(func(t *testing.T, element, title, prompt string) {
		tpl, err := ParseTemplate([]string{"agent", element})
		if err != nil {
			return
		}
		argv, err := tpl.Expand(Values{Title: title, Prompt: prompt, TaskID: title})
		if err != nil {
			return
		}
		if len(argv) != 2 || argv[0] != "agent" {
			t.Fatalf("%q became %q", element, argv)
		}
		if strings.HasPrefix(argv[1], "-") && !strings.HasPrefix(element, "-") {
			t.Fatalf("%q with %q became the option %q", element, title, argv[1])
		}
	})
}
