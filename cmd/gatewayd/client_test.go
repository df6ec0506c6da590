package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/homesocket"
)

// A daemon goes on with the configuration that it was started with. Whoever breaks the file meanwhile still reaches it.
func TestABrokenConfigurationHidesNoDaemon(t *testing.T) {
	home := t.TempDir()
	self, err := config.Self()
	need(t, err)
	lock, err := config.HoldHome(home, self)
	need(t, err)
	defer lock.Release()
	socket, err := homesocket.Listen(t.Context(), home, apiSocket)
	need(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(status{Running: true, PID: os.Getpid(), Build: build{Version: "of the test"}, Started: time.Now()})
	})}
	go server.Serve(socket)
	defer server.Close()
	need(t, os.WriteFile(filepath.Join(home, "config.yaml"), []byte("no_such_key: 1\n"), 0o600))
	run := func(home string) (int, string, string) {
		var out, errs bytes.Buffer
		code := execute(t.Context(), []string{"status", "--home", home}, stdio{in: strings.NewReader(""), out: &out, err: &errs, environ: []string{"HOME=" + home}})
		return code, out.String(), errs.String()
	}
	if code, out, errs := run(home); code != 0 || !strings.Contains(out, "gatewayd is running: pid") || !strings.Contains(out, "of the test") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	empty := t.TempDir() // where none runs, the configuration is what is wrong
	need(t, os.WriteFile(filepath.Join(empty, "config.yaml"), []byte("no_such_key: 1\n"), 0o600))
	if code, out, errs := run(empty); code != exitConfig || !strings.Contains(errs, "no_such_key") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}
