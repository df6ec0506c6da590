package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatewayd/config"
)

func readme(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// block gives the fenced blocks of one language.
func blocks(text, language string) []string {
	var found []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// Every command that the README shows is one that the program understands.
func TestREADMECommandsAreUnderstood(t *testing.T) {
	commands := 0
	for _, block := range blocks(readme(t), "sh") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, "#")
			args, ok := strings.CutPrefix(strings.TrimSpace(line), "go run ./cmd/gatewayd ")
			if !ok {
				continue
			}
			commands++
			understands(t, shellWords(args))
		}
	}
	if commands < 5 {
		t.Errorf("only %d commands of the README were tried", commands)
	}
}

// So is every command in docs.
func TestCommandsOfTheDocsAreUnderstood(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 2 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	commands := 0
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks(string(raw), "sh") {
			for line := range strings.Lines(block) {
				line, _, _ = strings.Cut(line, "#")
				line, _, _ = strings.Cut(line, " > ")
				if args, ok := strings.CutPrefix(strings.TrimSpace(line), "gatewayd "); ok {
					commands++
					understands(t, shellWords(args))
				}
			}
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands of the docs were tried", commands)
	}
}

func understands(t *testing.T, args []string) {
	t.Helper()
	root := (&cli{}).root()
	cmd, rest, err := root.Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("gatewayd %q: %v", args, err)
	}
}

// shellWords splits a line with double quotes, which is all that the README uses.
func shellWords(line string) (words []string) {
	for _, m := range regexp.MustCompile(`"([^"]*)"|\S+`).FindAllStringSubmatch(line, -1) {
		words = append(words, strings.Trim(m[0], `"`))
	}
	return words
}

// The configuration that the README shows is one that the daemon accepts, lanes included.
func TestREADMEConfigurationIsAccepted(t *testing.T) {
	for _, block := range blocks(readme(t), "yaml") {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := config.Load(config.Request{Flags: map[string]string{"home": home}, Environ: []string{"HOME=" + home}})
		if err != nil {
			t.Fatal(err)
		}
		if len(loaded.Kanban.Lanes) != 2 {
			t.Errorf("%d lanes", len(loaded.Kanban.Lanes))
		}
	}
}

// The picture of the actors is one picture: what serve.go draws is what the README shows.
func TestREADMEShowsTheActorsOfServe(t *testing.T) {
	source, err := os.ReadFile("serve.go")
	if err != nil {
		t.Fatal(err)
	}
	drawn := 0
	for line := range strings.Lines(string(source)) {
		if line, ok := strings.CutPrefix(line, "//\t"); ok {
			drawn++
			if !strings.Contains(readme(t), strings.TrimRight(line, " \n")) {
				t.Errorf("the README does not show: %s", line)
			}
		}
	}
	if drawn < 10 {
		t.Errorf("serve.go draws %d lines", drawn)
	}
	for _, m := range regexp.MustCompile(`\{name: "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if !strings.Contains(readme(t), m[1]) {
			t.Errorf("the picture lacks the actor %s", m[1])
		}
	}
}
