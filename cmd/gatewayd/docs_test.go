package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatewayd/config"
)

// Whoever looks for a package finds it in docs/architecture.md, and every file that it names as proof is there.
func TestTheArchitectureNamesEveryPackage(t *testing.T) {
	raw, err := os.ReadFile("../../docs/architecture.md")
	need(t, err)
	if lines := bytes.Count(raw, []byte("\n")); lines > 200 {
		t.Errorf("docs/architecture.md has %d lines; it is for reading in one go", lines)
	}
	named := map[string]bool{}
	for i, word := range strings.Split(string(raw), "`") {
		named[word] = i%2 == 1 || named[word]
	}
	packages := 0
	need(t, filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		switch name := e.Name(); {
		case err != nil:
			return err
		case e.IsDir() && (name == "testdata" || name == "build" || name == "tools" || len(name) > 2 && name[0] == '.'):
			return filepath.SkipDir
		case e.IsDir():
			if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
				packages++
				if dir, _ := filepath.Rel("../..", path); !named[filepath.ToSlash(dir)] {
					t.Errorf("docs/architecture.md does not name %s", dir)
				}
			}
		}
		return nil
	}))
	if packages < 30 {
		t.Errorf("only %d packages were found", packages)
	}
	for word := range named {
		if strings.HasSuffix(word, ".go") {
			if files, _ := filepath.Glob("../../" + word); len(files) == 0 {
				t.Errorf("docs/architecture.md names %s, which is not there", word)
			}
		}
	}
}

// Whoever is told by a word why a card does not start finds it in docs/lanes.md.
func TestEveryReasonOfAWaitIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/lanes.md")
	need(t, err)
	files, err := filepath.Glob("../../kanban/dispatch/*.go")
	need(t, err)
	reasons := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		need(t, err)
		for _, m := range regexp.MustCompile(`Reason += "(\w+)"`).FindAllSubmatch(source, -1) {
			reasons++
			if !bytes.Contains(page, []byte("`"+string(m[1])+"`")) {
				t.Errorf("docs/lanes.md does not explain %s", m[1])
			}
		}
	}
	if reasons < 25 {
		t.Errorf("only %d reasons were found", reasons)
	}
}

// A configuration that a page shows is one that the daemon accepts, lanes included.
func TestConfigurationsOfTheDocsAreAccepted(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	need(t, err)
	tried := 0
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		need(t, err)
		for _, block := range blocks(string(raw), "yaml") {
			tried++
			home := t.TempDir()
			need(t, os.WriteFile(filepath.Join(home, "config.yaml"), []byte(block), 0o600))
			for _, name := range []string{"ops.secret", "chat.pem", "api.pem"} {
				need(t, os.WriteFile(filepath.Join(home, name), []byte("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="), 0o600))
			}
			if _, err := config.Load(config.Request{Flags: map[string]string{"home": home}, Environ: []string{"HOME=" + home, "TRACKER_TOKEN=x"}, CheckLane: checkLane}); err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(page), err, block)
			}
		}
	}
	if tried < 7 {
		t.Errorf("only %d configurations were tried", tried)
	}
}
