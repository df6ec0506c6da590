package sessiondb

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// original is a state.db that the Python original has written, in a directory of its own, or a skip said aloud.
func original(t testing.TB, name string) (path string) {
	t.Helper()
	dir := os.Getenv("GATEWAYD_FIXTURES")
	if dir == "" {
		t.Skip("GATEWAYD_FIXTURES is not set: files written by the Python original are NOT tested")
	}
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The columns that came with a schema version, as far as an import could care.
var vintages = []struct {
	version            int
	sessions, messages string
	more               string
}{
	{
		11, `id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, model_config TEXT, system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL,
 ended_at REAL, end_reason TEXT, message_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
 cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, billing_provider TEXT,
 api_call_count INTEGER DEFAULT 0, title TEXT`,
		`id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT,
 timestamp REAL NOT NULL, finish_reason TEXT, reasoning TEXT, reasoning_content TEXT`,
		`CREATE TABLE schema_version(version INTEGER NOT NULL); CREATE TABLE state_meta(key TEXT PRIMARY KEY, value TEXT);
 CREATE VIRTUAL TABLE messages_fts USING fts5(content);
 CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN INSERT INTO messages_fts(rowid, content) VALUES(new.id, coalesce(new.content, '')); END`,
	},
	{
		22, `session_key TEXT, cwd TEXT, rewind_count INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0, hidden INTEGER NOT NULL DEFAULT 0,
 pinned INTEGER NOT NULL DEFAULT 0, last_activity_at REAL`,
		`active INTEGER DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0, platform_message_id TEXT, effect_disposition TEXT`,
		`CREATE TABLE session_model_usage(session_id TEXT NOT NULL, model TEXT NOT NULL, billing_provider TEXT NOT NULL DEFAULT '', billing_base_url TEXT NOT NULL
 DEFAULT '', billing_mode TEXT NOT NULL DEFAULT '', task TEXT NOT NULL DEFAULT '', api_call_count INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL
 DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0, cache_read_tokens INTEGER NOT NULL DEFAULT 0, cache_write_tokens INTEGER NOT NULL DEFAULT 0,
 reasoning_tokens INTEGER NOT NULL DEFAULT 0, first_seen REAL, last_seen REAL, PRIMARY KEY(session_id, model, billing_provider, billing_base_url, billing_mode, task))`,
	},
	{
		25, `system_prompt_hash TEXT, title_source TEXT`, `api_content TEXT, display_kind TEXT, display_metadata TEXT`,
		`CREATE TABLE system_prompts(hash TEXT PRIMARY KEY, prompt TEXT NOT NULL); INSERT INTO state_meta VALUES('store_instance_id', 'the-store')`,
	},
	{28, `profile_name TEXT`, `_compressed_summary INTEGER NOT NULL DEFAULT 0, display_identity BLOB, display_order INTEGER`, ``},
	{
		30, `tool_names TEXT`, `observed INTEGER DEFAULT 0`,
		`CREATE VIEW messages_fts_cjk_src AS SELECT id, content FROM messages WHERE role <> 'tool'; PRAGMA writable_schema = ON;
 INSERT INTO sqlite_schema VALUES('table', 'messages_fts_cjk', 'messages_fts_cjk', 0, 'CREATE VIRTUAL TABLE messages_fts_cjk USING fts5(content, tokenize=''cjk_unicode61'')');
 INSERT INTO sqlite_schema VALUES('table', 'odd', 'odd', 0, 'CREATE VIRTUAL TABLE odd USING a_module_that_we_lack(x)'); PRAGMA writable_schema = RESET`,
	},
	{31, `auto_archived INTEGER NOT NULL DEFAULT 0`, `message_uid TEXT, absorbed_message_uids TEXT, tool_call_uids TEXT, tool_call_uid TEXT`, ``},
}

// hermesFile makes an empty state.db of a schema version.
func hermesFile(t testing.TB, version int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.db")
	sessions, messages, more := "", "", []string{}
	for _, v := range vintages {
		if v.version <= version {
			sessions, messages, more = sessions+", "+v.sessions, messages+", "+v.messages, append(more, v.more)
		}
	}
	hermesDo(t, path, `CREATE TABLE sessions(`+sessions[2:]+`)`, `CREATE TABLE messages(`+messages[2:]+`)`, strings.Join(more, ";"),
		fmt.Sprintf(`INSERT INTO schema_version VALUES(%d)`, version))
	return path
}

// hermesDo runs statements as the Python original would: a program of its own on its own file.
func hermesDo(t testing.TB, path string, statements ...string) {
	t.Helper()
	c, err := sqlite.OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, sql := range statements {
		if err := c.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func bring(t testing.TB, s *Store, path string) Moved {
	t.Helper()
	got, err := ImportHermes(t.Context(), s, HermesOptions{Path: path})
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	return got
}

func moved(m Moved) string {
	return fmt.Sprintf("%d sessions, %d new, %d added, %d present, %d skipped", len(m.Sessions), m.New, m.Added, m.Present, m.Skipped)
}

// dump is everything that an import may write, without the ids, which depend on what was there before.
func dump(t testing.TB, s *Store) (out string) {
	t.Helper()
	err := s.file.Read(t.Context(), func(c *sqlite.Conn) error {
		out = ""
		for _, query := range []string{
			`SELECT id, key, source, title, model, prompt_hash, parent, cwd, opened_at, ended_at, end_reason, hidden, archived, pinned, message_count, rewind_count,
 last_active, preview FROM sessions ORDER BY id`,
			`SELECT m.session_id, m.uid, (SELECT o.uid FROM messages o WHERE o.id = m.origin_id), m.role, m.content, m.wire, m.tool_calls, m.tool_call_id, m.tool_name,
 m.effect, m.finish_reason, m.reasoning, m.kind, m.active, m.compacted, m.created_at FROM messages m ORDER BY m.session_id, m.id`,
			`SELECT session_id, model, provider, task, calls, prompt, completion, cached, cache_write, reasoning, last_ref, first_at, last_at FROM usage ORDER BY 1, 2, 3, 4`,
			`SELECT body FROM prompts ORDER BY hash`, `SELECT key FROM routes`, `SELECT token FROM leases`,
		} {
			for r, err := range c.Query(query) {
				if err != nil {
					return err
				}
				for i := range r.Columns() {
					out += fmt.Sprintf("%v|", r.Any(i))
				}
				out += "\n"
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// soundAfter wants an audit without damage, but for what the file itself had.
func soundAfter(t testing.TB, s *Store, allowed ...string) {
	t.Helper()
	for _, f := range verified(t, s, VerifyOptions{}).Findings {
		if f.Level == Damage && !strings.Contains(strings.Join(allowed, " "), f.Code) {
			t.Errorf("after the import: %s", f)
		}
	}
}
