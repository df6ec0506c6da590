package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestADaemonElsewhereIsSpokenToInTLSOrNotAtAll(t *testing.T) {
	home := t.TempDir()
	need(t, os.WriteFile(filepath.Join(home, "api.key"), []byte("a-key-of-the-other-daemon\n"), 0o600))
	var heard atomic.Int32
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer a-key-of-the-other-daemon" {
			heard.Add(1)
		}
		_ = json.NewEncoder(w).Encode(status{Running: true, PID: 7, Build: build{Version: "of elsewhere"}, Started: time.Now()})
	})
	quiet := log.New(io.Discard, "", 0)
	safe := httptest.NewUnstartedServer(handler)
	safe.Config.ErrorLog, safe.TLS = quiet, &tls.Config{MinVersion: tls.VersionTLS12}
	safe.StartTLS()
	defer safe.Close()
	open := httptest.NewServer(handler)
	open.Config.ErrorLog = quiet
	defer open.Close()
	ca, empty := filepath.Join(home, "ca.pem"), filepath.Join(home, "empty.pem")
	need(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: safe.Certificate().Raw}), 0o600))
	need(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	port := safe.URL[strings.LastIndex(safe.URL, ":"):]
	for name, c := range map[string]struct {
		args  []string
		code  int
		says  string
		heard bool
	}{
		"vouched for":            {[]string{"--addr", safe.URL, "--ca", ca}, 0, "of elsewhere", true},
		"nobody vouches":         {[]string{"--addr", safe.URL}, 1, "--ca", false},
		"another name":           {[]string{"--addr", "https://localhost" + port, "--ca", ca}, 1, "certificate for other names: example.com", false},
		"in the clear":           {[]string{"--addr", strings.Replace(open.URL, "http:", "https:", 1)}, 1, "does not speak TLS", false},
		"in the clear, as asked": {[]string{"--addr", open.URL}, 0, "of elsewhere", true},
		"no file":                {[]string{"--addr", safe.URL, "--ca", home + "/none"}, 1, "cannot be read", false},
		"no certificate":         {[]string{"--addr", safe.URL, "--ca", empty}, 1, "no certificate in PEM", false},
		"a path":                 {[]string{"--addr", safe.URL + "/v1"}, 2, "HOST:PORT", false},
		"another scheme":         {[]string{"--addr", "ftp://127.0.0.1:1"}, 2, "HOST:PORT", false},
		"nobody to vouch for":    {[]string{"--addr", "127.0.0.1:1", "--ca", ca}, 2, "--ca goes with", false},
	} {
		heard.Store(0)
		var out, errs bytes.Buffer
		code := execute(t.Context(), append([]string{"status", "--home", home}, c.args...), stdio{in: strings.NewReader(""), out: &out, err: &errs, environ: []string{"HOME=" + home}})
		if code != c.code || !strings.Contains(out.String()+errs.String(), c.says) || (heard.Load() > 0) != c.heard {
			t.Errorf("%s: exit code %d, the key was heard %d times: %s%s", name, code, heard.Load(), &out, &errs)
		}
	}
	var errs bytes.Buffer
	if code := execute(t.Context(), []string{"--home", home, "--addr", safe.URL}, stdio{in: strings.NewReader(""), out: io.Discard, err: &errs, environ: []string{"HOME=" + home}}); code != exitUsage || !strings.Contains(errs.String(), "api.tls_cert") {
		t.Errorf("a daemon was started on a URL: %d %s", code, &errs)
	}
}
