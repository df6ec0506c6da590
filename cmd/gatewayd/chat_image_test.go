package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/gateway/provider"
)

// A file that is shown is what its bytes say; one that cannot be shown is refused by its name, with its size and what it is.
func TestAPictureIsWhatItsBytesSay(t *testing.T) {
	dir := t.TempDir()
	png, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	urls, err := picturesOf([]string{write("a.txt", png), write("b.png", png)})
	if err != nil || len(urls) != 2 || !strings.HasPrefix(urls[0], "data:image/png;base64,iVBOR") {
		t.Errorf("%.40q, %v", urls, err)
	}
	for name, c := range map[string]struct {
		data []byte
		says []string
	}{
		"letter.png": {[]byte("dear reader"), []string{"letter.png", "11 bytes", "text/plain"}},
		"large.png":  {append(bytes.Clone(png), make([]byte, provider.MaxImage)...), []string{"large.png", "too large", "image/png", "5242880"}},
	} {
		_, err := picturesOf([]string{write(name, c.data)})
		for _, say := range c.says {
			if err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("%s: %v does not say %s", name, err, say)
			}
		}
	}
	if _, err := picturesOf(make([]string, provider.MaxImages+1)); err == nil {
		t.Error("more than a message shows are taken")
	}
}
