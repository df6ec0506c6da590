package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gatewayd/internal/problem"
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// between wants so many arguments and names the one that is missing as the usage line writes it.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("%s is missing; usage: %s", argument(cmd, len(args)), cmd.UseLine())
		case most >= 0 && len(args) > most:
			return usagef("%q is one argument too many; usage: %s", args[most], cmd.UseLine())
		}
		return nil
	}
}

func exactly(n int) cobra.PositionalArgs { return between(n, n) }

func atLeast(n int) cobra.PositionalArgs { return between(n, -1) }

// argument is the n-th word after the verb in the usage line, such as CARD.
func argument(cmd *cobra.Command, n int) string {
	words := strings.Fields(cmd.Use)[1:]
	return strings.Trim(words[min(n, len(words)-1)], "[]….")
}

// verbs is the check of a command that only has verbs below it.
func verbs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see `" + cmd.CommandPath() + " --help`"
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return usagef("unknown command %q for %q; %s", args[0], cmd.CommandPath(), hint)
}

// help is what a command does that only has verbs below it.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// helpVerb is cobra's, except that a topic that does not exist is a mistake.
func helpVerb(root *cobra.Command) *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "Help about any command", RunE: func(_ *cobra.Command, args []string) error {
		cmd, rest, err := root.Find(args)
		if err == nil {
			err = verbs(cmd, rest)
		}
		if err != nil {
			return err
		}
		return cmd.Help()
	}}
}

// flagError says what a flag wants in words; the parser's own names functions of the Go library.
func flagError(cmd *cobra.Command, err error) error {
	hint := "see `" + cmd.CommandPath() + " --help`"
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want := map[string]string{"int": "a whole number", "int64": "a whole number", "duration": "a duration such as 90s or 15m", "bool": "true or false"}
		flag := bad.GetFlag()
		if kind, ok := want[flag.Value.Type()]; ok {
			return usagef("--%s must be %s, not %q; %s", flag.Name, kind, bad.GetValue(), hint)
		}
	}
	return usagef("%w; %s", err, hint)
}

// checkLimit checks a --limit.
func checkLimit(limit int) error {
	if limit < 1 {
		return usagef("--limit must be 1 or more, not %d", limit)
	}
	return nil
}

// message is the line that a person reads: a problem's own sentence, without the names of those who passed it on. A
// join keeps all of its lines, which is why each link of the chain is looked at by hand.
func message(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if p, ok := e.(*problem.Error); ok {
			return p.Error()
		}
	}
	return err.Error()
}

// unsaid keeps a cause recognisable in a problem that has said everything already.
type unsaid struct{ error }

func (unsaid) Error() string   { return "" }
func (u unsaid) Unwrap() error { return u.error }
