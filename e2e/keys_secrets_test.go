package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// Who writes to a board at /mcp is a model: what is a secret of the daemon is taken out of it, that of a reload from the reload on, the old one still,
// and the key that another process put into api.key too.
func TestASecretThatIsReloadedIsTakenOutOfWhatToolsStore(t *testing.T) {
	t.Parallel()
	model := fakellm.New(t, fakellm.Text{Text: "x"})
	home := newHome(t, "model: {base_url: \""+model.URL()+"\", name: fake, api_key_file: model.key}\n")
	const before, after = "plum-velvet-horizon", "quiet-marble-lantern" // nothing that looks like a secret
	file := filepath.Join(home, "model.key")
	noError(t, os.WriteFile(file, []byte(before), 0o600))
	d := start(t, home)
	d.call(http.MethodPost, "/api/boards", map[string]string{"slug": "default"}, nil)
	session, err := connect(t.Context(), httpAs(d.base+"/mcp", d.addsKey("agent", "--scope", "boards")))
	noError(t, err)
	defer session.Close()
	store := func(secret string) string {
		t.Helper()
		if _, err := ask(t.Context(), session, "kanban_create", map[string]any{"title": "use " + secret, "assignee": "nobody"}); err != nil {
			t.Fatal(err)
		}
		all := ""
		for _, c := range d.cards("default") {
			all += c.Title + "\n"
		}
		return all
	}
	if said := store(before); strings.Contains(said, before) || !strings.Contains(said, "[redacted]") {
		t.Errorf("the key of the start is stored: %s", said)
	}
	noError(t, os.WriteFile(file, []byte(after), 0o600))
	d.verb("config", "reload")
	if said := store(after); strings.Contains(said, after) {
		t.Errorf("the key of the reload is stored: %s", said)
	}
	if said := store(before); strings.Contains(said, before) {
		t.Errorf("the old key is stored after the reload: %s", said)
	}
	rotated := strings.TrimSpace(d.verb("keys", "rotate", "first"))
	d.key = rotated
	if said := store(rotated); strings.Contains(said, rotated) {
		t.Errorf("the new key of the home is stored: %s", said)
	}
	_ = session.Close()
	d.stop()
}
