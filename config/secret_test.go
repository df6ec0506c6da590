package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestASecretNeverPrints(t *testing.T) {
	const text = "hunter2"
	secret := NewSecret(text)
	private := struct{ key Secret }{secret}
	config := Default()
	config.Model.APIKey = secret
	var out bytes.Buffer
	for _, value := range []any{secret, &secret, private, &private, []Secret{secret}, map[string]Secret{"k": secret}, config, Loaded{Config: config}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			fmt.Fprintf(&out, verb, value)
		}
		for _, logger := range []*slog.Logger{slog.New(slog.NewJSONHandler(&out, nil)), slog.New(slog.NewTextHandler(&out, nil))} {
			logger.Info("value", "key", value)
		}
		for _, encode := range []func(any) ([]byte, error){json.Marshal, func(v any) ([]byte, error) { return yaml.Marshal(v) }} {
			encoded, _ := encode(value)
			out.Write(encoded)
		}
		out.WriteString(fmt.Errorf("call model: %v: %w", value, errors.New("x")).Error())
	}
	if i := strings.Index(out.String(), text); i >= 0 {
		t.Errorf("printed: …%s…", out.String()[max(0, i-200):i+10])
	}
	if hex := fmt.Sprintf("%x", text); strings.Contains(out.String(), hex) {
		t.Error("printed as hex")
	}
}

func TestASecretCompares(t *testing.T) {
	if !NewSecret("a").Matches("a") || NewSecret("a").Matches("b") || NewSecret("a").Matches("") || NewSecret("").Set() {
		t.Error("matches")
	}
	if !NewSecret("a").Equal(NewSecret("a")) || NewSecret("a").Equal(Secret{}) {
		t.Error("equal")
	}
	if NewSecret("a").Reveal() != "a" || NewSecret("").String() != "" {
		t.Error("reveal")
	}
}
