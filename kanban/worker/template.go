package worker

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// MaxWord bounds one argv element. Linux refuses a word above 128 KiB with "argument list too long", which
// tells nobody that a card's body was the cause.
const MaxWord = 100 << 10

// Values are what a template's placeholders stand for.
type Values map[Placeholder]string

// Placeholder is one name that may stand in braces in an argv element.
type Placeholder string

// The placeholders. The first group are words that gatewayd makes itself; the second is what people write.
const (
	TaskID     Placeholder = "task"
	RunID      Placeholder = "run"
	BoardSlug  Placeholder = "board"
	BoardDir   Placeholder = "board_dir"
	Workspace  Placeholder = "workspace"
	RunDir     Placeholder = "run_dir"
	PromptFile Placeholder = "prompt_file"
	MCPConfig  Placeholder = "mcp_config"
	Exe        Placeholder = "exe"
	Home       Placeholder = "home"
	Assignee   Placeholder = "assignee"

	Title  Placeholder = "title"
	Prompt Placeholder = "prompt"
)

// freeText reports whether a person or a model wrote the value, so that it may hold anything.
func (p Placeholder) freeText() bool { return p == Title || p == Prompt }

func placeholders() []Placeholder {
	return []Placeholder{TaskID, RunID, BoardSlug, BoardDir, Workspace, RunDir, PromptFile, MCPConfig, Exe, Home, Assignee, Title, Prompt}
}

// Template is an argv whose elements hold at most one placeholder each.
type Template struct{ words []word }

type word struct {
	prefix, suffix string
	hole           Placeholder // "" for a literal
	afterDashes    bool        // a `--` stands before it, so no value can be an option
}

// ParseTemplate checks an argv template once, when the configuration is read, so that no card can surprise it later.
func ParseTemplate(argv []string) (Template, error) {
	if len(argv) == 0 || argv[0] == "" {
		return Template{}, errors.New("argv is empty: name the program first")
	}
	var t Template
	for i, element := range argv {
		w, err := parseWord(element)
		if err != nil {
			return Template{}, fmt.Errorf("argv[%d]: %w", i, err)
		}
		w.afterDashes = slices.Contains(argv[:i], "--")
		if err := w.check(i, argv); err != nil {
			return Template{}, fmt.Errorf("argv[%d] %q: %w", i, element, err)
		}
		t.words = append(t.words, w)
	}
	return t, nil
}

// parseWord finds the placeholder. Braces around anything that is not lower-case letters are text: JSON is common in argv.
func parseWord(element string) (word, error) {
	w := word{prefix: element}
	for rest, at := element, 0; ; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			return w, nil
		}
		end := strings.IndexByte(rest[open:], '}')
		if end < 0 {
			return w, nil
		}
		name := rest[open+1 : open+end]
		start := at + open
		at, rest = start+1, element[start+1:]
		if !nameLike(name) {
			continue
		}
		if !slices.Contains(placeholders(), Placeholder(name)) {
			return w, fmt.Errorf("unknown placeholder {%s}; there are %s", name, knownNames())
		}
		if w.hole != "" {
			return w, fmt.Errorf("holds {%s} and {%s}; one placeholder to an element", w.hole, name)
		}
		w = word{prefix: element[:start], hole: Placeholder(name), suffix: element[start+len(name)+2:]}
	}
}

func nameLike(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == ""
}

func knownNames() string {
	var names []string
	for _, p := range placeholders() {
		names = append(names, "{"+string(p)+"}")
	}
	return strings.Join(names, " ")
}

// check refuses the places where a value could become an option, a program or code.
func (w word) check(i int, argv []string) error {
	switch {
	case w.hole == "":
		return nil
	case i == 0 && w.hole != Exe:
		return errors.New("the program's name cannot come from a card")
	case i > 0 && takesCode(argv, i):
		return errors.New("this element is code for an interpreter, and a value inside it would be run; " +
			"read GATEWAYD_TASK_FILE in the script, or pass the value as a further element")
	case w.afterDashes || !w.hole.freeText():
		return nil
	case w.prefix == "":
		return fmt.Errorf("{%s} may begin with a dash; put an element -- before it, write --flag={%s}, or use {prompt_file}", w.hole, w.hole)
	case strings.HasPrefix(w.prefix, "-") && !strings.Contains(w.prefix, "="):
		return fmt.Errorf("{%s} would be read as letters of an option; write --flag={%s}", w.hole, w.hole)
	}
	return nil
}

// interpreters take code behind a short option; a shell's value may even be a cluster of letters (bash -lc).
var interpreters = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "python", "python3", "perl", "ruby", "node", "lua", "php", "awk", "osascript"}

func takesCode(argv []string, i int) bool {
	flag := argv[i-1]
	if !slices.ContainsFunc(argv[:i], func(s string) bool { return slices.Contains(interpreters, path.Base(s)) }) {
		return flag == "eval"
	}
	if flag == "--command" || flag == "--eval" || flag == "--execute" || flag == "eval" || path.Base(flag) == "awk" {
		return true
	}
	short := strings.HasPrefix(flag, "-") && !strings.HasPrefix(flag, "--")
	return short && strings.ContainsAny(flag[len(flag)-1:], "cer")
}

// Program is the first element, before any value is known; "" means this binary.
func (t Template) Program() string {
	if t.words[0].hole == Exe {
		return ""
	}
	return t.words[0].prefix
}

// Expand fills the template. Each element stays one element, whatever the value holds.
func (t Template) Expand(values Values) ([]string, error) {
	argv := make([]string, 0, len(t.words))
	for _, w := range t.words {
		element, err := w.fill(values)
		if err != nil {
			return nil, err
		}
		argv = append(argv, element)
	}
	return argv, nil
}

func (w word) fill(values Values) (string, error) {
	if w.hole == "" {
		return w.prefix, nil
	}
	value := values[w.hole]
	if w.prefix == "" && !w.afterDashes && strings.HasPrefix(value, "-") {
		return "", fmt.Errorf("fill {%s}: the value %.40q would be read as an option", w.hole, value)
	}
	if strings.ContainsRune(value, 0) {
		return "", fmt.Errorf("fill {%s}: the value holds a zero byte, which no argument can", w.hole)
	}
	element := w.prefix + value + w.suffix
	if len(element) > MaxWord {
		return "", fmt.Errorf("fill {%s}: %d bytes are more than one argument may hold; use {prompt_file}", w.hole, len(element))
	}
	return element, nil
}
