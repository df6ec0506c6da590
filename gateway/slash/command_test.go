package slash

import (
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func TestWhatIsACommandAndWhatIsAText(t *testing.T) {
	for text, want := range map[string]string{
		"/status": "status", "/STATUS": "status", "  /Status  ": "status", "/stat": "status", "/reset": "new", "/compact here 3": "compress here 3",
		"/t a title": "title a title", "/new\tnow": "new now", "/queue two\nlines": "queue two\nlines", "/h": "help", "/interrupt": "stop", "/n": "new",
		// texts
		"": "", "hello": "", "/": "", "//status": "", "/etc/passwd": "", "/etc/passwd what is this?": "", "/usr is full": "", "/tmp": "", "/home": "",
		"/42": "", "say /status": "", "/status/": "", "/stauts report please": "", "/dev": "", "/new.txt": "", "/größe": "", "/x": "",
	} {
		line, ok, err := Parse(text)
		got := ""
		if ok {
			got = strings.TrimSpace(line.Command.Name + " " + line.Args)
		}
		if err != nil || got != want {
			t.Errorf("%q is %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestANameThatIsNotClearSaysWhatExists(t *testing.T) {
	for text, want := range map[string]string{
		"/s": "/status, /stop, /sessions, /steer", "/re": "/new, /retry, /resume", "/u": "/undo, /usage", "/co x": "/compress, /help", "/stauts": "/status is one",
		"/stpo": "/stop is one", "/udno": "/undo is one", "/titel": "/title is one", "/modle": "/model is one", "/retryy": "/retry is one",
	} {
		_, ok, err := Parse(text)
		if !ok || !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v; want %q", text, ok, err, want)
		}
	}
}

func TestALineThatCanOnlyBeACommand(t *testing.T) {
	if line, err := ParseLine("status"); err != nil || line.Command.Name != "status" {
		t.Errorf("without its slash: %+v %v", line, err)
	}
	for _, text := range []string{"/frobnicate", "", "/etc/passwd", "hello there"} {
		if _, err := ParseLine(text); !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), "/status") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A beginning that only one command has means that command, whatever its case, and a longer one never means another.
func TestEachCommandIsFoundByItsNamesAndUniqueBeginnings(t *testing.T) {
	for _, c := range Commands() {
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			line, ok, err := Parse("/" + strings.ToUpper(name))
			if !ok || err != nil || line.Command.Name != c.Name {
				t.Errorf("/%s: %+v %v", name, line, err)
			}
			for n := 1; n < len(name); n++ {
				line, ok, err := Parse("/" + name[:n])
				if ok && err == nil && line.Command.Name != c.Name && line.Command.Name != name[:n] {
					t.Errorf("/%s means /%s", name[:n], line.Command.Name)
				}
			}
		}
		if c.About == "" || c.Busy == "" {
			t.Errorf("/%s says too little", c.Name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"/status", "/", "//", "/s", "/\x00", "/új", "\n/new\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, ok, err := Parse(text)
		if ok && err == nil && line.Command.Name == "" {
			t.Errorf("%q is a command without a name", text)
		}
		if !ok && err != nil {
			t.Errorf("%q is a text and an error: %v", text, err)
		}
		if ok && !strings.HasPrefix(strings.TrimSpace(text), "/") {
			t.Errorf("%q is a command without a slash", text)
		}
	})
}
