package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
)

// maxWritten bounds a file that is written or patched, in bytes: what a model writes is text of its own.
const maxWritten = 8 << 20

// WriteFile writes a whole file, so that there is either the old one or the new one at any moment.
type WriteFile struct{ files *Files }

// Spec tells the model about it.
func (WriteFile) Spec() provider.ToolSpec {
	return provider.ToolSpec{
		Name: "write_file",
		Description: "Write a text file whole; missing directories are made. To change part of a file use patch. A file that somebody changed since " +
			"it was read here is left alone unless overwrite says otherwise.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},` +
			`"overwrite":{"type":"boolean","description":"also over somebody else's changes"}},"required":["path","content"]}`),
	}
}

// ReadOnly is false.
func (WriteFile) ReadOnly(json.RawMessage) bool { return false }

// Permission says that policy decides.
func (WriteFile) Permission() Permission { return NeedsFiles }

// Writes gives the gate the file's full path.
func (w WriteFile) Writes(call Call) []string { return w.files.written(call) }

// Run writes.
func (w WriteFile) Run(ctx context.Context, call Call) Result {
	var args struct {
		Path      string
		Content   *string
		Overwrite bool
	}
	if err := decode(call.Args, &args); err != nil {
		return Refuse("%v", err)
	}
	if args.Content == nil {
		return Refuse("content is missing; nothing was written. An empty file has the content \"\"")
	}
	said, err := w.files.change(ctx, call, args.Path, func(old *existing) (string, string, error) {
		if old != nil && old.stale && !args.Overwrite {
			return "", "", fmt.Errorf("%s was changed by somebody else since this conversation last read it (it has %d bytes now). Read it again, or give overwrite: true",
				args.Path, len(old.text))
		}
		return *args.Content, wrote(args.Path, *args.Content, old), nil
	})
	if err != nil {
		return Refuse("%v", err)
	}
	return Result{Content: said, Effect: EffectDone}
}

func wrote(path, content string, old *existing) string {
	what := fmt.Sprintf("[%s written: %d lines, %d bytes", path, countLines(content), len(content))
	switch {
	case old == nil:
		return what + "; the file is new]"
	case old.stale:
		return what + fmt.Sprintf("; WARNING: %d bytes were replaced that somebody else wrote since this conversation last read the file]", len(old.text))
	}
	return what + fmt.Sprintf("; it replaced %d bytes]", len(old.text))
}

func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// written is the full path that a call would write, with its links followed.
func (f *Files) written(call Call) []string {
	var args struct{ Path string }
	if decode(call.Args, &args) != nil || args.Path == "" {
		return nil
	}
	path := args.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.base(call), path)
	}
	return []string{real(filepath.Clean(path))}
}

// existing is a file that is about to be changed.
type existing struct {
	text  string
	info  fs.FileInfo
	stale bool // somebody changed it since the conversation read it
}

// change gives the old file (nil: there is none) to make, which says the new text and what to tell, and puts the new one in its
// place. One call at a time changes a path. An error means that nothing was changed.
func (f *Files) change(ctx context.Context, call Call, path string, rewrite func(old *existing) (text, said string, err error)) (string, error) {
	p, err := f.toWrite(call, path)
	if err != nil {
		return "", err
	}
	defer p.close()
	release, err := f.locks.take(ctx, p.real)
	if err != nil {
		return "", fmt.Errorf("%s: another call is changing it: %w; nothing was written", path, err)
	}
	defer release()
	old, err := f.existing(call, p)
	if err != nil {
		return "", fmt.Errorf("%w; nothing was written", err)
	}
	text, said, err := rewrite(old)
	if err == nil {
		err = fit(path, text, old)
	}
	if err != nil {
		return "", fmt.Errorf("%w; nothing was written", err)
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: %w; nothing was written", path, context.Cause(ctx))
	}
	info, err := p.replace(text, old)
	if err != nil {
		return "", fmt.Errorf("%w; nothing was changed", err)
	}
	f.reads.wrote(call.Session, p.real, info)
	return said, nil
}

// existing reads the file as it is, under its lock.
func (f *Files) existing(call Call, p *place) (*existing, error) {
	if _, err := p.root.Lstat(p.name); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	file, info, err := p.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := mine(p.said, info); err != nil {
		return nil, err
	}
	text, err := readAll(file, info, p.said)
	if err != nil {
		return nil, err
	}
	return &existing{text: text, info: info, stale: f.reads.stale(call.Session, p.real, info) && !mutation.On("stale-write-goes-through")}, nil
}

// fit refuses a text that must not be put into a file.
func fit(path, text string, old *existing) error {
	const mark = "[redacted]"
	switch {
	case len(text) > maxWritten:
		return fmt.Errorf("%s would have %d bytes; at most %d are written", path, len(text), maxWritten)
	case strings.Contains(text, mark) && (old == nil || strings.Count(old.text, mark) < strings.Count(text, mark)):
		return fmt.Errorf("the text holds %s, which stands for a secret that you were not shown; writing it into %s would destroy the secret. "+
			"Change the lines around it with patch", mark, filepath.Base(path))
	}
	return nil
}
