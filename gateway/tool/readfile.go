package tool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gatewayd/gateway/provider"
)

const (
	readFileName     = "read_file"
	readFileLines    = 500    // lines in one answer unless asked otherwise
	readFileMaxLines = 2_000  // and at most
	readFileMaxBytes = 60_000 // below MaxResult, with room for line numbers
	binaryProbe      = 8_192
)

// ReadFile reads text below one directory, a page at a time. Paths are resolved inside an os.Root, so no link and no ".." leads
// out of it; files that hold secrets or are databases of ours are refused by name.
type ReadFile struct{ Dir string }

// Spec tells the model about it.
func (ReadFile) Spec() provider.ToolSpec {
	return provider.ToolSpec{
		Name:        readFileName,
		Description: "Read a text file below the working directory, with line numbers. Use offset and limit to page through a long one.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},` +
			`"offset":{"type":"integer","description":"first line, from 1"},"limit":{"type":"integer"}},"required":["path"]}`),
	}
}

// ReadOnly is true.
func (ReadFile) ReadOnly(json.RawMessage) bool { return true }

// Run reads one page.
func (r ReadFile) Run(_ context.Context, call Call) Result {
	var args struct {
		Path          string
		Offset, Limit int
	}
	if err := decode(call.Args, &args); err != nil {
		return Refuse("%v", err)
	}
	dir := r.Dir
	if call.Dir != "" {
		dir = call.Dir
	}
	text, err := readPage(dir, args.Path, max(args.Offset, 1), args.Limit)
	if err != nil {
		return Refuse("%v", err)
	}
	return Result{Content: text, Effect: EffectNone}
}

func readPage(dir, name string, offset, limit int) (string, error) {
	name, err := below(dir, name)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("open working directory: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hold the call
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no file %s below %s", name, dir)
	}
	if err != nil {
		return "", fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	return page(f, name, offset, limit)
}

// below gives the path relative to dir, or says why it may not be read.
func below(dir, name string) (string, error) {
	if name == "" {
		return "", errors.New("path is empty")
	}
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(dir, name)
		if err != nil || !filepath.IsLocal(rel) {
			return "", fmt.Errorf("%s is outside of the working directory %s", name, dir)
		}
		name = rel
	}
	if anySecret(name) || anySecret(target(dir, name)) {
		return "", fmt.Errorf("%s may hold secrets or is a live database; it is not read for a model", name)
	}
	return name, nil
}

// target is what name leads to through links, as far as that can be known; os.Root decides whether it may be opened.
func target(dir, name string) string {
	resolved, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return filepath.Base(resolved)
}

func anySecret(name string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(name), "/"), secret)
}

// secret knows names whose content must not go to a model.
func secret(part string) bool {
	part = strings.ToLower(part)
	for _, pattern := range []string{
		".env", ".env.*", "api.key", ".netrc", ".ssh", ".gnupg", ".aws", "id_rsa*", "id_ed25519*", "id_ecdsa*", "*.pem", "*.p12",
		"credentials.json", "state.db*", "kanban.db*",
	} {
		if ok, _ := filepath.Match(pattern, part); ok {
			return true
		}
	}
	return false
}

func page(f io.Reader, name string, offset, limit int) (string, error) {
	if limit <= 0 {
		limit = readFileLines
	}
	limit = min(limit, readFileMaxLines)
	in := bufio.NewReaderSize(f, binaryProbe)
	if probe, _ := in.Peek(binaryProbe); strings.IndexByte(string(probe), 0) >= 0 {
		return "", fmt.Errorf("%s is a binary file", name)
	}
	var b strings.Builder
	for number := 1; ; number++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) && line == "" {
			if number <= offset {
				return fmt.Sprintf("[%s has %d lines]", name, number-1), nil
			}
			return b.String(), nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		if number < offset {
			continue
		}
		if number >= offset+limit || b.Len() > readFileMaxBytes {
			fmt.Fprintf(&b, "[… more lines follow; go on with offset %d]\n", number)
			return b.String(), nil
		}
		fmt.Fprintf(&b, "%6d\t%s\n", number, strings.TrimRight(line, "\r\n"))
	}
}

// readLine reads one line and keeps its first maxLine bytes; the error is io.EOF at the end of the file.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	cut := 0
	for {
		part, err := in.ReadSlice('\n')
		room := max(maxLine-len(line), 0)
		line = append(line, part[:min(room, len(part))]...)
		cut += max(len(part)-room, 0)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		text := string(line)
		if cut > 1 { // one byte may be the line's end
			text = trimEnd(text) + fmt.Sprintf(" [… %d bytes of this line left out]", cut)
		}
		return text, err
	}
}
