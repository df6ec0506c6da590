// Package sh reads a command as a shell would, far enough to say which programs it would start, with which words, where each of
// them reads from and writes to.
//
// It runs nothing, looks nothing up and never fails: what it cannot follow is marked. Quotes, escapes, comments, here-documents,
// subshells, substitutions, loops, brace expansion, $IFS and variables that the text itself sets are followed. A word whose value is
// only known when it runs is Open. It owns no rule about what is dangerous.
package sh

// MaxDepth bounds how deep substitutions and subshells are followed; nobody who means well nests deeper.
const MaxDepth = 24

// maxCommands bounds what one text may cost.
const maxCommands = 2_000

// Script is what a text would run, every substitution and subshell included, in the order of the text.
type Script struct {
	Commands []Command
	Broken   bool // a quote or a bracket is not closed, or it is nested too deeply: a shell may read it another way
}

// Command is one program with its words.
type Command struct {
	Assigned  []string // NAME=VALUE before it
	Words     []Word   // the first is the program; none when there are only assignments or redirections
	Redirects []Redirect
	Input     string // text of a here-document or here-string
	From      []int  // commands of the script whose output it reads: through a pipe, or as <(…)
}

// Word is one word after quotes and escapes were taken out.
type Word struct {
	Text string // what is open in it stays as it was written: $NAME
	Open bool   // a part is known only when it runs
	Glob bool   // holds an unquoted *, ? or [
	Subs []int  // commands of the script whose output becomes a part of it
}

// Redirect is where a command reads from or writes to.
type Redirect struct {
	Op     string // one of < > >> >| <> &> &>> >&
	Target Word
}

// Writes reports whether the target is written to.
func (r Redirect) Writes() bool { return r.Op != "<" }

// Text gives the words of a command with single spaces between them.
func (c Command) Text() string {
	text := ""
	for i, w := range c.Words {
		if i > 0 {
			text += " "
		}
		text += w.Text
	}
	return text
}

// Parse reads a text. vars are variables whose values are known, HOME for one; they are not changed.
func Parse(text string, vars map[string]string) Script {
	p := &parser{src: text, out: &Script{}, vars: map[string]string{}}
	for name, value := range vars {
		p.vars[name] = value
	}
	p.list("", 0)
	return *p.out
}

// parser walks a text once. Parsers of nested texts share out and vars.
type parser struct {
	src   string
	pos   int
	out   *Script
	vars  map[string]string
	depth int
	docs  []pendingDoc // here-documents whose text begins after the next line's end
}

type pendingDoc struct {
	command  int
	end      string
	dashed   bool // <<-: tabs before a line do not count
	expanded bool // the end was not quoted: substitutions in the text are run
}

// nested reads a text inside this one and gives the range of its commands.
func (p *parser) nested(text string) []int {
	start := len(p.out.Commands)
	if p.depth >= MaxDepth {
		p.out.Broken = true
		return nil
	}
	inner := &parser{src: text, out: p.out, vars: p.vars, depth: p.depth + 1}
	inner.list("", 0)
	return span(start, len(p.out.Commands))
}

func span(from, to int) []int {
	out := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

func (p *parser) full() bool {
	if len(p.out.Commands) >= maxCommands {
		p.out.Broken = true
		return true
	}
	return false
}
