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
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/kanban"
)

// Bounds of one search. What it did not come to is said, so that a model narrows it down.
const (
	searchUsual    = 100
	searchMost     = 500
	searchFilesMax = 100_000          // looked at
	searchFileMax  = 16 << 20         // bytes of one file whose content is searched
	searchBytesMax = 512 << 20        // of all of them
	searchLine     = 300              // bytes shown of a line
	searchTime     = 30 * time.Second // a cold disk, and still a turn that goes on
)

// SearchFiles finds files by their names and lines by their content.
type SearchFiles struct{ files *Files }

// Spec tells the model about it.
func (SearchFiles) Spec() provider.ToolSpec {
	return provider.ToolSpec{
		Name: "search_files",
		Description: "Search below the working directory. With pattern (a regular expression, RE2; (?i) ignores case) the lines that match, with " +
			"file and line number; without, the files themselves. glob limits both by name (*.go) or path (src/*/*.go). Offset and limit page.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"pattern":{"type":"string"},"glob":{"type":"string"},` +
			`"path":{"type":"string","description":"directory or file; the working directory if left out"},` +
			`"offset":{"type":"integer","description":"results to pass over"},"limit":{"type":"integer"}}}`),
	}
}

// ReadOnly is true.
func (SearchFiles) ReadOnly(json.RawMessage) bool { return true }

// Run searches.
func (t SearchFiles) Run(ctx context.Context, call Call) Result {
	var args struct {
		Pattern, Glob, Path string
		Offset, Limit       int
	}
	if err := decode(call.Args, &args); err != nil {
		return Refuse("%v", err)
	}
	s := &search{files: t.files, call: call, glob: args.Glob, skip: max(args.Offset, 0), limit: searchUsual}
	if args.Limit > 0 {
		s.limit = min(args.Limit, searchMost)
	}
	if _, err := path.Match(args.Glob, ""); err != nil {
		return Refuse("glob %q is none: %v", args.Glob, err)
	}
	if args.Pattern != "" {
		re, err := regexp.Compile(args.Pattern)
		if err != nil {
			return Refuse("pattern is no regular expression of the RE2 kind: %v", err)
		}
		s.pattern = re
	}
	text, err := s.run(ctx, firstOf(args.Path, "."))
	if err != nil {
		return Refuse("%v", err)
	}
	return Result{Content: text, Effect: EffectNone}
}

// search is one search under way.
type search struct {
	files   *Files
	call    Call
	pattern *regexp.Regexp // nil: names only
	glob    string
	skip    int
	limit   int

	place       *place
	prefix      string // of results, so that they can be given to read_file
	single      bool   // one file is searched
	out         strings.Builder
	found       int
	looked      int
	bytes       int64
	passed      int // files that were too large or no text
	stopped     string
	unreachable int
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

func (s *search) run(ctx context.Context, where string) (string, error) {
	p, err := s.files.toRead(s.call, where)
	if err != nil {
		return "", err
	}
	defer p.close()
	info, err := p.root.Stat(p.name)
	if err != nil {
		return "", fmt.Errorf("there is no file or directory %s", where)
	}
	s.place, s.single = p, !info.IsDir()
	if s.prefix = filepath.Clean(where) + "/"; s.prefix == "./" {
		s.prefix = ""
	}
	inTime, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	err = fs.WalkDir(p.root.FS(), filepath.ToSlash(p.name), func(name string, e fs.DirEntry, err error) error { return s.visit(inTime, name, e, err) })
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("search: %w", context.Cause(ctx))
	case inTime.Err() != nil:
		s.stopped = fmt.Sprintf("after %v", searchTime)
	case err != nil && !errors.Is(err, errEnough):
		return "", fmt.Errorf("search %s: %w", where, err)
	}
	return s.report(), nil
}

// visit is called for every file and directory, in the order of names, so that pages of one search follow each other.
func (s *search) visit(ctx context.Context, name string, e fs.DirEntry, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.unreachable++
		if e != nil && e.IsDir() {
			return fs.SkipDir
		}
		return nil
	case e.IsDir():
		return s.enter(name, e)
	case !e.Type().IsRegular() || !s.named(name) || s.hidden(name):
		return nil
	}
	if s.looked++; s.looked > searchFilesMax {
		s.stopped = fmt.Sprintf("after %d files", searchFilesMax)
		return errEnough
	}
	if s.pattern == nil {
		return s.result(s.shown(name))
	}
	return s.content(ctx, name, e)
}

// enter decides whether a directory is looked into.
func (s *search) enter(name string, e fs.DirEntry) error {
	if name != s.place.name && (slices.Contains([]string{".git", ".hg", ".svn", "node_modules"}, e.Name()) || s.hidden(name)) {
		return fs.SkipDir
	}
	return nil
}

// hidden reports what must not be read; a search would read it.
func (s *search) hidden(name string) bool {
	full := filepath.Join(s.place.root.Name(), name)
	return s.files.closedPath(s.call, full, s.place.root.Name(), false) != ""
}

// named compares the glob with a name, or with the whole path where it has a slash.
func (s *search) named(name string) bool {
	if s.glob == "" {
		return true
	}
	of := path.Base(name)
	if strings.Contains(s.glob, "/") {
		of = s.below(name)
	}
	ok, _ := path.Match(s.glob, of)
	return ok
}

// shown is a file's path as the model can give it to read_file.
func (s *search) shown(name string) string {
	if s.single {
		return s.place.said
	}
	return s.prefix + s.below(name)
}

// below is a name relative to the directory that is searched.
func (s *search) below(name string) string {
	return strings.TrimPrefix(name, filepath.ToSlash(s.place.name)+"/")
}

func (s *search) content(ctx context.Context, name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil || info.Size() > searchFileMax {
		s.passed++
		return nil
	}
	if s.bytes += info.Size(); s.bytes > searchBytesMax {
		s.stopped = fmt.Sprintf("after %d MB", searchBytesMax>>20)
		return errEnough
	}
	file, err := s.place.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		s.unreachable++
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || stillAt(file, filepath.Join(s.place.root.Name(), name), name) != nil {
		return nil
	}
	in := bufio.NewReaderSize(io.LimitReader(file, searchFileMax), binaryProbe)
	if probe, _ := in.Peek(binaryProbe); isText(name, probe, info.Size()) != nil {
		s.passed++
		return nil
	}
	return s.lines(ctx, name, in)
}

func (s *search) lines(ctx context.Context, name string, in *bufio.Reader) error {
	for number := 1; ; number++ {
		line, err := in.ReadString('\n') // the file's own bound bounds it
		line = strings.TrimRight(line, "\r\n")
		if at := s.pattern.FindStringIndex(line); at != nil && !(line == "" && errors.Is(err, io.EOF)) {
			if err := s.result(fmt.Sprintf("%s:%d: %s", s.shown(name), number, cutLine(line, at[0]))); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			s.unreachable++
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// cutLine gives the part of a long line that begins a little before what was found.
func cutLine(line string, at int) string {
	before, after := "", ""
	if from := at - searchLine/3; len(line) > searchLine && from > 0 {
		line, before = trimStart(line[from:]), "…"
	}
	if len(line) > searchLine {
		line, after = trimEnd(line[:searchLine]), "…"
	}
	return before + line + after
}

// result takes one result, and ends the search with the first one too many.
func (s *search) result(line string) error {
	if s.found++; s.found <= s.skip {
		return nil
	}
	if s.found > s.skip+s.limit || s.out.Len() > readFileMaxBytes {
		s.found--
		s.stopped = "more"
		return errEnough
	}
	s.out.WriteString(line + "\n")
	return nil
}

// report is the page with what a reader has to know of it.
func (s *search) report() string {
	text := valid(kanban.RedactIssued(s.out.String()))
	switch {
	case s.stopped == "more":
		text += fmt.Sprintf("[more follow; go on with offset %d]\n", s.found)
	case s.stopped != "":
		text += fmt.Sprintf("[the search was stopped %s; narrow it down by path or glob]\n", s.stopped)
	case text == "":
		text = fmt.Sprintf("[nothing was found in %d files]\n", s.looked)
	}
	if s.passed > 0 {
		text += fmt.Sprintf("[%d files were passed over: no text, or larger than %d MB]\n", s.passed, searchFileMax>>20)
	}
	if s.unreachable > 0 {
		text += fmt.Sprintf("[%d files or directories could not be read]\n", s.unreachable)
	}
	return text
}
