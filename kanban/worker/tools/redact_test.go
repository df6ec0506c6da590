package tools

import (
	"strings"
	"testing"
)

func TestSecretsAreTakenOutOfWhatAModelWrites(t *testing.T) {
	// Put together here, so that nobody's scanner takes this file for a leak.
	body := strings.Repeat("Ab3", 14)
	for what, c := range map[string][2]string{
		"AWS":             {"key AKIA" + strings.Repeat("Q", 16) + " ok", "key [redacted] ok"},
		"GitHub":          {"ghp_" + body + " ok", "[redacted] ok"},
		"GitHub new":      {"github_pat_" + body, "[redacted]"},
		"GitLab":          {"glpat-" + body, "[redacted]"},
		"Slack":           {"xoxb-" + body, "[redacted]"},
		"OpenAI":          {"with sk-proj-" + body + ".", "with [redacted]."},
		"Google":          {"AIza" + strings.Repeat("x", 35), "[redacted]"},
		"Stripe":          {"sk_live_" + body, "[redacted]"},
		"npm":             {"npm_" + strings.Repeat("a", 36), "[redacted]"},
		"JWT":             {"eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "[redacted]"},
		"ours":            {"run." + body + "." + strings.Repeat("x", 43), "[redacted]"},
		"header":          {"curl -H 'Authorization: Bearer abc.def' x", "curl -H 'Authorization: Bearer [redacted]' x"},
		"address":         {"postgres://ann:hunter22@db/x", "postgres://ann:[redacted]@db/x"},
		"assignment":      {`DB_PASSWORD="hunter2222" and api_key: 12345678`, `DB_PASSWORD="[redacted]" and api_key: [redacted]`},
		"private key":     {"a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"},
		"cut private key": {"-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]"},
		"a known value":   {"the key is correcthorse.", "the key is [redacted]."},
		"plain words":     {"reset the password; see t_1a2b3c4d, run.go and https://example.com/a:b@c", "reset the password; see t_1a2b3c4d, run.go and https://example.com/a:b@c"},
		"a commit":        {"fixed in 3f786850e387550fdab836ed7e6dc881de23001b", "fixed in 3f786850e387550fdab836ed7e6dc881de23001b"},
	} {
		if got := Redact(c[0], "correcthorse", "it"); got != c[1] {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestNothingThatIsStoredHoldsASecret(t *testing.T) {
	h := newHouse(t)
	card, d := h.worker(t)
	d.Secrets = []string{"correcthorse"}
	secret := "ghp_" + strings.Repeat("Ab3", 14)
	did(t, d, "kanban_comment", `{"body":"use `+secret+`"}`)
	did(t, d, "kanban_heartbeat", `{"note":"with `+secret+`"}`)
	did(t, d, "kanban_create", `{"title":"t","assignee":"coder","body":"`+secret+`"}`)
	did(t, d, "kanban_complete", `{"summary":"`+secret+`","result":"correcthorse","metadata":{"a":["`+secret+`",{"b":"`+secret+`"}]}}`)
	detail := h.show(t, card)
	text, err := h.board().Context(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range append([]string{text, detail.Task.Result, string(detail.Runs[0].Metadata), detail.Runs[0].Summary}, bodies(t, h)...) {
		if strings.Contains(part, secret) || strings.Contains(part, "correcthorse") {
			t.Errorf("stored: %s", part)
		}
	}
}

func bodies(t *testing.T, h *house) (all []string) {
	t.Helper()
	for _, card := range mustList(t, h) {
		all = append(all, card.Body)
		for _, e := range h.show(t, card.ID).Events {
			all = append(all, string(e.Payload))
		}
	}
	return all
}
