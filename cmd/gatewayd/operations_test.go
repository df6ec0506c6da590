package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// operations gives the first cells of the tables under a heading of docs/operations.md, each `word` of a cell by itself.
func operations(t *testing.T, heading string) (rows []string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(raw), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/operations.md has no part %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cell, isRow := strings.CutPrefix(line, "| ")
		cell, _, _ = strings.Cut(cell, " |")
		if !isRow {
			continue
		}
		quoted := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1)
		for _, m := range quoted {
			rows = append(rows, m[1])
		}
		if len(quoted) == 0 {
			rows = append(rows, cell)
		}
	}
	return rows
}

// The exit codes that people read about are those of exit.go.
func TestEveryExitCodeIsExplained(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && strings.HasPrefix(spec.Names[0].Name, "exit") && len(spec.Values) == 1 {
			if value, is := spec.Values[0].(*ast.BasicLit); is {
				codes[value.Value] = true
			}
		}
		return true
	})
	for _, row := range operations(t, "Exit codes") {
		if _, err := strconv.Atoi(row); err == nil && !codes[row] {
			t.Errorf("docs/operations.md explains code %s, which nothing exits with", row)
		}
		delete(codes, row)
	}
	if len(codes) > 0 {
		t.Errorf("exit codes without a row in docs/operations.md: %v", slices.Sorted(maps.Keys(codes)))
	}
}

// A message that people look up is one that the program says, letter for letter.
func TestEveryWarningOfThePageIsSaid(t *testing.T) {
	var source strings.Builder
	err := filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		source.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Warnings in the log\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		message, isRow := strings.CutPrefix(line, "| ")
		message, _, _ = strings.Cut(message, " |")
		if !isRow || message == "message" {
			continue
		}
		rows++
		if !strings.Contains(source.String(), `"`+message+`"`) {
			t.Errorf("docs/operations.md explains %q, which nothing says", message)
		}
	}
	if rows < 20 {
		t.Errorf("only %d warnings are explained", rows)
	}
}

// Whatever the health page names has a row that says what to do about it.
func TestEveryCheckIsExplained(t *testing.T) {
	for heading, files := range map[string][]string{
		"Checks of `/health/detailed`": {"*.go"},
	} {
		rows := operations(t, heading)
		named := checkNames(t, heading, files)
		for name := range named {
			if !slices.Contains(rows, name) {
				t.Errorf("%s: the check %q has no row in docs/operations.md", heading, name)
			}
		}
		if len(named) < 6 {
			t.Errorf("%s: only %d checks were found in the code: %v", heading, len(named), named)
		}
	}
}

// checkNames are the names that checks are made with, as the code writes them; a part that is filled in is a star.
func checkNames(t *testing.T, heading string, patterns []string) map[string]bool {
	t.Helper()
	made := regexp.MustCompile(`(?:\b(?:ok|warning|failed)\(|\bcheck\{Name: )((?:"[^"]*"|[\w.]+\([^)]*\)|\w+)(?: ?\+ ?(?:"[^"]*"|[\w.]+(?:\([^)]*\))?))*)`)
	if strings.Contains(heading, "health") {
		made = regexp.MustCompile(`api\.Check\{Name: ("[^,]*)`)
	}
	names := map[string]bool{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range made.FindAllStringSubmatch(string(raw), -1) {
				if strings.HasPrefix(m[1], `"`) {
					names[filledIn(m[1])] = true
				}
			}
		}
	}
	return names
}

// filledIn turns `"board " + slug` into "board *".
func filledIn(expression string) string {
	literal, rest, _ := strings.Cut(strings.TrimPrefix(expression, `"`), `"`)
	if strings.Contains(rest, "+") {
		literal += "*"
	}
	return literal
}
