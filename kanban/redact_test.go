package kanban

import (
	"os/exec"
	"strings"
	"testing"
	"time"
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

func TestNoVerbStoresASecret(t *testing.T) {
	open := newBoard(t)
	b, ctx, secret := open.Redacting("correcthorse"), t.Context(), "ghp_"+strings.Repeat("Ab3", 14)
	said := "with " + secret + " and correcthorse"
	metadata := map[string]any{"a": []any{said, map[string]any{"b": said}}, "n": 1}
	card := b.make(t, NewTask{Title: said, Body: said, Assignee: "coder"}).ID
	run := open.mustClaim(t, card)
	for verb, err := range map[string]error{
		"comment": second(b.Comment(ctx, card, "coder", said)), "heartbeat": b.Heartbeat(ctx, card, run, said, time.Minute),
		"schedule": second(b.Schedule(ctx, b.make(t, NewTask{}).ID, Schedule{Reason: said})), "block": b.Block(ctx, b.make(t, NewTask{}).ID, Block{Reason: said}),
		"complete": b.Complete(ctx, b.make(t, NewTask{}).ID, Completion{Summary: said, Result: said, Metadata: metadata}),
		"review":   b.RequestReview(ctx, card, Review{Run: &run, Summary: said, Metadata: metadata}),
	} {
		if err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
	}
	again, err := open.Claim(ctx, card, Claimer{Lock: ClaimLock(), TTL: time.Minute, Review: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.RequestChanges(ctx, card, &again.Run.ID, said); err != nil {
		t.Fatal(err)
	}
	raw, err := exec.Command("sqlite3", "-readonly", b.Path(), ".dump").Output()
	if err != nil {
		t.Skipf("no sqlite3: NOT shown that no row holds a secret: %v", err)
	}
	if dump := string(raw); strings.Contains(dump, secret) || strings.Contains(dump, "correcthorse") || strings.Count(dump, redacted) < 14 {
		t.Errorf("stored: %s", dump)
	}
	if metadata["a"].([]any)[0] != said {
		t.Error("the caller's own object was changed")
	}
}

func second[T any](_ T, err error) error { return err }
