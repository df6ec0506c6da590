package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"gatewayd/config"
)

// service is gatewayd as a machine's systemd runs it.
type service struct {
	*machine
	unit, home string
}

// step is one line of what install says.
type installStep struct{ What, Remedy string }

// install makes the daemon a service of the machine and then does, in its order, what install says is left to do. With a configuration it
// lies in the home before.
func (m *machine) install(yaml string, options ...string) *service {
	m.t.Helper()
	s := &service{m, "gatewayd.service", "/var/lib/gatewayd"}
	var said struct {
		Unit  string
		Steps []installStep
	}
	out := m.run(append([]string{"gatewayd", "install", "--system", "--json"}, options...)...)
	if err := json.Unmarshal([]byte(out), &said); err != nil || said.Unit != s.unit {
		m.t.Fatalf("install: %v\n%s", err, out)
	}
	for _, step := range said.Steps {
		if strings.HasPrefix(step.Remedy, "systemctl start ") && yaml != "" {
			m.types("install -d -o gatewayd -g gatewayd -m 700 " + s.home)
			m.write(s.home+"/config.yaml", yaml)
		}
		if step.Remedy != "" {
			m.types(step.Remedy)
		}
	}
	return s
}

// dropIn is a change of the unit as `systemctl edit` writes it.
func (s *service) dropIn(text string) {
	s.t.Helper()
	s.write("/etc/systemd/system/"+s.unit+".d/override.conf", text)
	s.run("systemctl", "daemon-reload")
}

// call speaks to the API with the first key.
func (s *service) call(method, path string, body, out any) {
	s.t.Helper()
	if err := s.ask(method, path, body, out); err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
}

func (s *service) ask(method, path string, body, out any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	key, err := config.ReadAPIKey(s.file(s.home))
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://127.0.0.1:8642"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key.Reveal())
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s %w", resp.Status, answer, err)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// say runs one turn and gives the answer.
func (s *service) say(text string) string {
	s.t.Helper()
	var out struct {
		Choices []struct{ Message struct{ Content string } }
	}
	s.call(http.MethodPost, "/v1/chat/completions", turn(text), &out)
	if len(out.Choices) != 1 {
		s.t.Fatalf("%d answers", len(out.Choices))
	}
	return out.Choices[0].Message.Content
}

// card gives a lane one card and its id.
func (s *service) card(lane string) string {
	s.t.Helper()
	var made struct{ Task card }
	s.call(http.MethodPost, "/api/boards/b/tasks", map[string]string{"title": "for " + lane, "assignee": lane}, &made)
	return made.Task.ID
}

func (s *service) statusOf(id string) string {
	s.t.Helper()
	var detail struct{ Task card }
	s.call(http.MethodGet, "/api/boards/b/tasks/"+id, nil, &detail)
	return detail.Task.Status
}

// becomes waits for a property of the unit.
func (s *service) becomes(property, want string) {
	s.t.Helper()
	s.until(property+" becomes "+want, func() bool { return s.show(s.unit, property) == want })
}

// journal gives what the journal has of the unit, each line with its priority in front.
func (s *service) journal() string {
	s.t.Helper()
	var text strings.Builder
	for line := range strings.Lines(s.run("journalctl", "--no-pager", "-o", "json", "-u", s.unit)) {
		var entry struct {
			Message    any    `json:"MESSAGE"`
			Priority   string `json:"PRIORITY"`
			Identifier string `json:"SYSLOG_IDENTIFIER"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			s.t.Fatalf("%v: %s", err, line)
		}
		message, isText := entry.Message.(string)
		if !isText { // journalctl gives what is no clean text as numbers
			s.t.Errorf("the journal holds what is no clean text: %v", entry.Message)
		}
		fmt.Fprintf(&text, "%s %s: %s\n", entry.Priority, entry.Identifier, message)
	}
	return text.String()
}

// says wants these words in the journal, and waits for them.
func (s *service) says(words ...string) {
	s.t.Helper()
	for _, word := range words {
		s.until("the journal says "+word, func() bool { return strings.Contains(s.journal(), word) })
	}
}

func turn(text string) map[string]any {
	return map[string]any{"model": "gatewayd", "messages": []map[string]string{{"role": "user", "content": text}}}
}

// signal sends one to the daemon itself.
func (s *service) signal(name string) {
	s.t.Helper()
	s.run("systemctl", "kill", "--kill-whom=main", "--signal="+name, s.unit)
}

// restarts has a signal end the daemon and waits until systemd has started it again, for the nth time.
func (s *service) restarts(signal string, nth int) {
	s.t.Helper()
	s.signal(signal)
	s.becomes("NRestarts", fmt.Sprint(nth))
	s.becomes("ActiveState", "active")
}

// knock is one client who asks how it is.
func (s *service) knock() error {
	resp, err := s.client().Get("http://127.0.0.1:8642/health")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
