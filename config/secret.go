package config

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is a value that never prints. The text sits behind a pointer, so that even printing a private field
// by reflection, where no method of ours is asked, shows an address and not the text.
type Secret struct{ text *string }

// NewSecret wraps text; an empty text is no secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal gives the text. Call it only where the value goes onto a wire or is compared.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Set reports whether there is a value.
func (s Secret) Set() bool { return s.text != nil }

// Equal compares in constant time for values of one length.
func (s Secret) Equal(other Secret) bool { return s.Matches(other.Reveal()) }

// Matches compares with a plain text in constant time for values of one length.
func (s Secret) Matches(text string) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(text)) == 1
}

// String gives "" or a fixed mark, never the text.
func (s Secret) String() string {
	if !s.Set() {
		return ""
	}
	return redacted
}

// GoString serves %#v.
func (s Secret) GoString() string { return fmt.Sprintf("config.Secret(%q)", s.String()) }

// Format serves every verb, %d and %x among them.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = s.GoString()
	case verb == 'q':
		text = fmt.Sprintf("%q", text)
	}
	_, _ = f.Write([]byte(text))
}

// MarshalText serves JSON, YAML and whatever else encodes.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue serves slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
