package provider

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Servers that cut an answer at bytes send half a character in one chunk and the rest in the next. JSON decoding would turn both into marks of
// damage; so the bytes that are no characters travel through it in disguise and are put together behind it.

// disguise is where 128 code points stand for the bytes from 0x80: in a private area that no model writes.
const disguise = 0xF780 - 0x80

// rawText reads a string whose bytes may be cut anywhere. Where all are whole it is looseText.
func rawText(raw json.RawMessage) string {
	if utf8.Valid(raw) {
		return looseText(raw)
	}
	var b strings.Builder
	for rest := []byte(raw); len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			r = disguise + rune(rest[0])
		}
		b.WriteRune(r)
		rest = rest[size:]
	}
	return undisguised(looseText(json.RawMessage(b.String())))
}

func undisguised(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r >= disguise+0x80 && r <= disguise+0xff {
			b.WriteByte(byte(r - disguise))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// whole gives what can be shown of a text so far and keeps the beginning of a character whose end has not come yet.
func whole(held *string, text string) string {
	text = *held + text
	*held = ""
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				*held = tail
				text = text[:len(text)-n]
			}
			break
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
