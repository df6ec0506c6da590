package sessiondb

import "testing"

// What a server taught about a model outlives the process, and is not mistaken for what another did.
func TestWhatAServerTaughtIsKept(t *testing.T) {
	path := t.TempDir() + "/state.db"
	s, _ := openStore(t, path)
	for _, learned := range []string{`{"window":8192}`, `{"window":32768}`} {
		if err := s.KeepLearned(t.Context(), "http://one/v1", "m", learned); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s, _ = openStore(t, path)
	for server, want := range map[string]string{"http://one/v1": `{"window":32768}`, "http://two/v1": ""} {
		got, err := s.Learned(t.Context(), server, "m")
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", server, got, err, want)
		}
	}
}
