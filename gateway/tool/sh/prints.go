package sh

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// Prints gives what a command writes to its standard output, where that is in the text: cat and tee of a here-document, echo, printf,
// which and its like. known is false where a part of it is known only when it runs; the text is then what can be said of it.
func (c Command) Prints() (text string, known bool) {
	if len(c.Words) == 0 {
		return "", len(c.Redirects) == 0
	}
	if slices.ContainsFunc(c.Redirects, func(r Redirect) bool { return r.Op != "2>" && r.Op != ">&" }) {
		return "", false
	}
	args := c.Words[1:]
	known = !slices.ContainsFunc(args, func(w Word) bool { return w.Open })
	switch name := path.Base(c.Words[0].Text); {
	case name == "cat" || name == "tee":
		return c.Input, c.Input != "" && len(c.From) == 0
	case name == "which", (name == "command" || name == "type") && len(args) > 1 && strings.HasPrefix(args[0].Text, "-"):
		return args[max(len(args)-1, 0)].Text, known
	case name == "echo":
		text, ok := echoed(args)
		return text, known && ok
	case name == "printf":
		text, ok := formatted(args)
		return text, known && ok
	}
	return "", false
}

func texts(words []Word) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, w.Text)
	}
	return out
}

func echoed(args []Word) (string, bool) {
	escapes := false
	for len(args) > 0 && len(args[0].Text) > 1 && args[0].Text[0] == '-' && strings.Trim(args[0].Text[1:], "neE") == "" {
		escapes = escapes || strings.Contains(args[0].Text, "e")
		args = args[1:]
	}
	text := strings.Join(texts(args), " ") + "\n"
	if !escapes && !strings.Contains(text, `\`) { // sh knows escapes without -e, too
		return text, true
	}
	text, _, err := expand.Format(nil, strings.ReplaceAll(text, "%", "%%"), nil)
	return text, err == nil
}

// formatted is printf's text: the format is used again until no argument is left.
func formatted(args []Word) (string, bool) {
	if len(args) > 0 && args[0].Text == "--" {
		args = args[1:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0].Text, "-") {
		return "", false
	}
	format, rest, out := args[0].Text, texts(args[1:]), ""
	for len(out) < maxValue {
		text, used, err := expand.Format(nil, format, rest)
		out += text
		if err != nil {
			return strings.Join(texts(args), " "), false
		}
		if rest = rest[min(used, len(rest)):]; used == 0 || len(rest) == 0 {
			return out, true
		}
	}
	return out, false
}
