package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// docsHome is the configuration that the pages take for granted.
const docsHome = `
tools: {terminal: ask}
kanban:
  lanes:
    chores: {argv: ["true"]}
    coder: {argv: ["true"]}
    critic: {argv: ["true"]}
  notify:
    commands: {bell: {argv: ["true"]}}
    webhooks: {ops: {url: "https://hooks.example.org/gatewayd", secret_file: ops.secret}}
`

// taken is what the pages take for granted; these make it, where a page does not make it itself.
var taken = []string{"kanban boards create default", "kanban boards create work", "chat --session chat-1 hello"}

var (
	docBlock = regexp.MustCompile("(?s)(?:<!-- not run: ([^\n]*?) -->\n+)?```sh\n(.*?)```")
	aCard    = regexp.MustCompile(`\bt_1234abcd\b`)
)

// Every command that a page shows ends well in a home as the pages take it for granted, or its block says above it why no test runs it.
// docs/first-ten-minutes.md has a test of its own.
func TestCommandsInTheDocsRun(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "../README.md") {
		raw, err := os.ReadFile(page)
		need(t, err)
		if name := filepath.Base(page); name != "first-ten-minutes.md" && strings.Contains(string(raw), "```sh\n") {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				playPage(t, string(raw))
			})
		}
	}
}

func playPage(t *testing.T, page string) {
	var r *reader
	for _, m := range docBlock.FindAllStringSubmatch(page, -1) {
		if m[1] != "" {
			t.Logf("not run (%s):\n%s", m[1], m[2])
			continue
		}
		if r == nil {
			r = newReader(t, page)
		}
		for line := range strings.Lines(m[2]) {
			r.tries(strings.TrimSpace(line))
		}
	}
}

// reader is who tries what a page shows, beside a running daemon.
type reader struct {
	*scene
	dir string // where the commands are typed
}

func newReader(t *testing.T, page string) *reader {
	t.Helper()
	user := t.TempDir()
	s := &scene{model: fakellm.Start(fakellm.Options{Each: script(fakellm.Text{Text: "Hello."})}), proxy: newStrangers(t)}
	t.Cleanup(s.model.Close)
	home := filepath.Join(user, ".gatewayd")
	r := &reader{scene: s, dir: filepath.Join(user, "here")}
	need(t, os.Mkdir(home, 0o700))
	need(t, os.Mkdir(r.dir, 0o700))
	need(t, os.WriteFile(filepath.Join(home, "config.yaml"), []byte("model: {base_url: "+s.model.URL()+", name: fake-model}\n"+docsHome), 0o600))
	need(t, os.WriteFile(filepath.Join(home, "ops.secret"), []byte("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="), 0o600))
	need(t, os.WriteFile(filepath.Join(r.dir, "report.pdf"), []byte("%PDF-1.4"), 0o600))
	s.daemon = launchIn(t, r.dir, home, s.proxy.env())
	s.ready()
	for _, line := range taken {
		if strings.Contains(page, line) {
			continue
		}
		if _, err := r.shell("gatewayd " + line); err != nil {
			t.Fatal(line)
		}
	}
	return r
}

// shell types a line as a person does; a program among temporary files is as good as any other here.
func (r *reader) shell(line string) (string, error) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = r.dir
	cmd.Env = append(homeEnv(filepath.Dir(r.home)), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "TMPDIR="+r.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tries types one line of a page. Wherever it names the card of the examples it gets one of its own.
func (r *reader) tries(line string) {
	r.t.Helper()
	if line == "" {
		return
	}
	line = strings.ReplaceAll(line, "go run ./cmd/gatewayd", "gatewayd")
	if aCard.MatchString(line) {
		out, err := r.shell(`gatewayd kanban create "An example"`)
		card := regexp.MustCompile(`t_[0-9a-f]+`).FindString(out)
		if err != nil || card == "" {
			r.t.Fatalf("no card was made: %v\n%s", err, out)
		}
		line = aCard.ReplaceAllString(line, card)
	}
	if out, err := r.shell(line); err != nil {
		r.t.Errorf("%s\n%v: %s", line, err, out)
	}
}

// A link of a page leads to a file of the tree, and to a heading of it where it names one.
func TestLinksOfTheDocsLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	need(t, err)
	links := 0
	for _, page := range append(pages, "../README.md") {
		raw, err := os.ReadFile(page)
		need(t, err)
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(string(raw), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if to, heading, _ := strings.Cut(m[1], "#"); !leads(page, to, heading) {
				t.Errorf("%s: %s leads nowhere", filepath.Base(page), m[1])
			}
		}
	}
	if links < 30 {
		t.Errorf("only %d links were looked at", links)
	}
}

func leads(page, to, heading string) bool {
	at := page
	if to != "" {
		at = filepath.Join(filepath.Dir(page), to)
	}
	raw, err := os.ReadFile(at)
	if err != nil {
		info, err := os.Stat(at)
		return err == nil && info.IsDir() && heading == ""
	}
	if heading == "" {
		return true
	}
	for line := range strings.Lines(string(raw)) {
		if title, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") && anchor(title) == heading {
			return true
		}
	}
	return false
}

// anchor is what a forge makes of a heading.
func anchor(title string) string {
	title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
	return strings.ReplaceAll(title, " ", "-")
}
