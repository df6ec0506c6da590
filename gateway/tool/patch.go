package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatewayd/gateway/provider"
)

const (
	maxEdits = 100
	hintMax  = 5 // places that a message names
)

// Patch changes parts of a file. It never guesses: a text that is not there exactly, or more than once, changes nothing.
type Patch struct{ files *Files }

// Spec tells the model about it.
func (Patch) Spec() provider.ToolSpec {
	return provider.ToolSpec{
		Name: "patch",
		Description: "Change parts of a text file, all of the changes or none. Either edits, each replacing old (exact, and found once unless replace_all) " +
			"by new, in their order; or diff, a unified diff of this one file whose context lines match exactly.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},` +
			`"edits":{"type":"array","items":{"type":"object","properties":{"old":{"type":"string"},"new":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["old","new"]}},` +
			`"diff":{"type":"string"}},"required":["path"]}`),
	}
}

// ReadOnly is false.
func (Patch) ReadOnly(json.RawMessage) bool { return false }

// Permission says that policy decides.
func (Patch) Permission() Permission { return NeedsFiles }

// Writes gives the gate the file's full path.
func (t Patch) Writes(call Call) []string { return t.files.written(call) }

type edit struct {
	Old, New   string
	ReplaceAll bool `json:"replace_all"`
}

type patchArgs struct {
	Path  string
	Edits []edit
	Diff  string
	edit  // a single one may be given without a list
}

// Run patches.
func (t Patch) Run(ctx context.Context, call Call) Result {
	var args patchArgs
	if err := cmp.Or(decode(call.Args, &args), wholeEdits(call.Args)); err != nil {
		return Refuse("%v", err)
	}
	said, err := t.files.change(ctx, call, args.Path, func(old *existing) (string, string, error) {
		if old == nil {
			return "", "", fmt.Errorf("there is no file %s; write_file makes one", args.Path)
		}
		text, report, err := args.apply(old.text)
		if err == nil && text == old.text {
			err = errors.New("the changes leave the file as it is")
		}
		if err == nil && old.stale {
			report += "\n[WARNING: somebody else changed the file since this conversation last read it; the places that were patched matched exactly, others may be new to you]"
		}
		return text, report, err
	})
	if err != nil {
		return Refuse("%v", err)
	}
	return Result{Content: said, Effect: EffectDone}
}

// wholeEdits refuses an edit of which a half is missing: without new it would delete what it names.
func wholeEdits(raw json.RawMessage) error {
	type shape struct{ Old, New *string }
	var args struct {
		Edits []shape
		shape
	}
	if err := decode(raw, &args); err != nil {
		return err
	}
	half := func(s shape) bool { return (s.Old == nil) != (s.New == nil) }
	if half(args.shape) || slices.ContainsFunc(args.Edits, func(s shape) bool { return s.Old == nil || s.New == nil }) {
		return errors.New("every edit needs old and new; nothing was written. To delete a text give new as \"\"")
	}
	return nil
}

// apply gives the patched text. It is pure.
func (a patchArgs) apply(text string) (patched, report string, err error) {
	edits := a.Edits
	if a.Old != "" || a.New != "" {
		edits = append(edits, a.edit)
	}
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return "", "", fmt.Errorf("%s is a binary file", a.Path)
	case a.Diff != "" && len(edits) > 0:
		return "", "", errors.New("give edits or diff, not both")
	case a.Diff == "" && len(edits) == 0:
		return "", "", errors.New("there is nothing to change: give edits or diff")
	case len(edits) > maxEdits:
		return "", "", fmt.Errorf("%d edits are too many for one call; at most %d", len(edits), maxEdits)
	case a.Diff != "":
		return applyDiff(text, a.Diff, a.Path)
	}
	crlf := wholeCRLF(text)
	places := 0
	for i, e := range edits {
		if crlf {
			e.Old, e.New = toCRLF(e.Old), toCRLF(e.New)
		}
		n, err := e.count(text)
		if err != nil {
			return "", "", fmt.Errorf("edit %d: %w", i+1, err)
		}
		text = strings.ReplaceAll(text, e.Old, e.New)
		places += n
	}
	return text, fmt.Sprintf("[%s patched: %d edits in %d places, %d lines now]", a.Path, len(edits), places, countLines(text)), nil
}

// count says in how many places an edit would change a text, or why it must not.
func (e edit) count(text string) (int, error) {
	if e.Old == "" {
		return 0, errors.New("old is empty, which is everywhere")
	}
	n := strings.Count(text, e.Old)
	if at := strings.Index(text, e.Old); n == 1 && strings.Contains(text[at+1:], e.Old) && !e.ReplaceAll {
		n = 2 // the places overlap
	}
	switch {
	case n == 0:
		return 0, fmt.Errorf("old is not in the file%s", nearby(text, e.Old))
	case n > 1 && !e.ReplaceAll:
		return 0, fmt.Errorf("old is in the file %d times (lines %s); give more of the text around the one that is meant, or replace_all", n, lineList(text, e.Old))
	}
	return n, nil
}

// nearby helps to find what was meant, and leaves it to the model to say so.
func nearby(text, old string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(old), "\n")
	if first = strings.TrimSpace(first); first == "" || !strings.Contains(text, first) {
		return ". Read the file again: text is compared to the letter, with its spaces and tabs"
	}
	return fmt.Sprintf("; its first line is in line %s, so what follows or the spaces differ. Read these lines again", lineList(text, first))
}

// lineList names the lines in which a text begins.
func lineList(text, part string) string {
	var lines []string
	for at, line := 0, 1; len(lines) < hintMax; {
		i := strings.Index(text[at:], part)
		if i < 0 {
			break
		}
		line += strings.Count(text[at:at+i], "\n")
		lines = append(lines, fmt.Sprint(line))
		line += strings.Count(text[at+i:at+i+1], "\n")
		at += i + 1
	}
	return strings.Join(lines, ", ")
}

// wholeCRLF reports whether every line of a text ends as on Windows; read_file shows such lines without their ends, so what a model
// writes for them has none either. A text of mixed ends is taken to the letter.
func wholeCRLF(text string) bool {
	n := strings.Count(text, "\n")
	return n > 0 && n == strings.Count(text, "\r\n")
}

func toCRLF(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}
