package tool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/kanban"
)

const (
	readFileName     = "read_file"
	readFileLines    = 500      // lines in one answer unless asked otherwise
	readFileMaxLines = 2_000    // and at most
	readFileMaxBytes = 60_000   // below MaxResult, with room for line numbers
	readFileMaxScan  = 64 << 20 // bytes that are passed over to come to a page; beyond it another tool is better
	binaryProbe      = 8_192
	worthNoticing    = 400 // bytes: a shorter page is cheaper than the words that replace it
)

// ReadFile reads text below the working directory, a page at a time. No link and no ".." leads out of it; files that hold secrets
// or are databases of ours are refused by name.
type ReadFile struct {
	Dir   string // where Files is nil
	Files *Files
}

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
func (r ReadFile) Run(ctx context.Context, call Call) Result {
	var args struct {
		Path          string
		Offset, Limit int
	}
	if err := decode(call.Args, &args); err != nil {
		return Refuse("%v", err)
	}
	files := r.Files
	if files == nil {
		files = NewFiles(FilesOptions{Dir: r.Dir})
	}
	text, err := files.read(ctx, call, args.Path, max(args.Offset, 1), args.Limit)
	if err != nil {
		return Refuse("%v", err)
	}
	return Result{Content: text, Effect: EffectNone}
}

// DropSession forgets a conversation that is deleted.
func (r ReadFile) DropSession(_ context.Context, session string) error {
	if r.Files == nil {
		return nil
	}
	return r.Files.drop(session)
}

func (f *Files) read(ctx context.Context, call Call, path string, offset, limit int) (string, error) {
	p, err := f.toRead(call, path)
	if err != nil {
		return "", err
	}
	defer p.close()
	file, info, err := p.open()
	if err != nil {
		return "", err
	}
	defer file.Close()
	pg := pager{name: path, offset: offset, lines: readFileLines, bytes: readFileMaxBytes}
	if limit > 0 {
		pg.lines = min(limit, readFileMaxLines)
	}
	if call.Room > 0 {
		pg.bytes = min(pg.bytes, max(call.Room-maxLine, previewSize))
	}
	text, err := pg.page(ctx, file, info)
	if err != nil {
		return "", err
	}
	text = valid(kanban.RedactIssued(text)) // as it will stand in the row, so that it can be found there again
	if f.reads.again(call, p.real, info, offset, limit, text) && len(text) > worthNoticing {
		return fmt.Sprintf("[%s is unchanged since this conversation read these lines; the text of that earlier result still holds. Asking once more gives it again]", path), nil
	}
	return text, nil
}

// pager cuts one page out of a file.
type pager struct {
	name         string
	offset       int
	lines, bytes int
	scanned      int
}

func (p *pager) page(ctx context.Context, f io.Reader, info fs.FileInfo) (string, error) {
	in := bufio.NewReaderSize(f, binaryProbe)
	probe, _ := in.Peek(binaryProbe)
	if err := isText(p.name, probe, info.Size()); err != nil {
		return "", err
	}
	var b strings.Builder
	for number := 1; ; number++ {
		line, size, err := readLine(in)
		switch {
		case errors.Is(err, io.EOF) && line == "":
			if number <= p.offset {
				return fmt.Sprintf("[%s has %d lines]", p.name, number-1), nil
			}
			return b.String(), nil
		case err != nil && !errors.Is(err, io.EOF):
			return "", fmt.Errorf("read %s: %w", p.name, err)
		case ctx.Err() != nil:
			return "", fmt.Errorf("read %s: %w", p.name, context.Cause(ctx))
		}
		if p.scanned += size; p.scanned > readFileMaxScan {
			fmt.Fprintf(&b, "[%s has %d bytes; this tool reads the first %d of a file. In the terminal: sed -n '%d,%dp']\n", p.name, info.Size(), readFileMaxScan, p.offset, p.offset+p.lines)
			return b.String(), nil
		}
		if number < p.offset {
			continue
		}
		if number >= p.offset+p.lines || b.Len() > p.bytes {
			fmt.Fprintf(&b, "[… more lines follow; go on with offset %d]\n", number)
			return b.String(), nil
		}
		fmt.Fprintf(&b, "%6d\t%s\n", number, strings.TrimRight(line, "\r\n"))
	}
}

// isText refuses what a page of lines cannot show.
func isText(name string, probe []byte, size int64) error {
	kind := http.DetectContentType(probe)
	switch {
	case strings.HasPrefix(kind, "image/"), strings.HasPrefix(kind, "video/"), strings.HasPrefix(kind, "audio/"), kind == "application/pdf":
		what, _, _ := strings.Cut(kind, "/")
		return fmt.Errorf("%s is no text: it is a file of the kind %s (%s), %d bytes, which this tool cannot show. Another program can tell what is in it", name, kind, what, size)
	case strings.IndexByte(string(probe), 0) >= 0:
		return fmt.Errorf("%s is a binary file of %d bytes (%s); only text is read", name, size, kind)
	}
	return nil
}

// readLine reads one line, keeps its first maxLine bytes and says how long it was; the error is io.EOF at the end of the file.
func readLine(in *bufio.Reader) (text string, size int, err error) {
	var line []byte
	cut := 0
	for {
		part, err := in.ReadSlice('\n')
		size += len(part)
		room := max(maxLine-len(line), 0)
		line = append(line, part[:min(room, len(part))]...)
		cut += max(len(part)-room, 0)
		if errors.Is(err, bufio.ErrBufferFull) && size <= readFileMaxScan {
			continue
		}
		text := string(line)
		if cut > 1 { // one byte may be the line's end
			text = trimEnd(text) + fmt.Sprintf(" [… %d bytes of this line left out]", cut)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
		return text, size, err
	}
}
