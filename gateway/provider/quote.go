package provider

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// text writes a JSON string: the same bytes as encoding/json without its escapes for HTML, in a fraction of the time. A long conversation
// is encoded anew with each request, and nothing in it costs more than its texts.
func (b *body) text(s string) {
	b.WriteByte('"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			if r, n = utf8.DecodeRuneInString(s[i:]); (r != utf8.RuneError || n > 1) && r != '\u2028' && r != '\u2029' {
				i += n
				continue
			}
		}
		b.WriteString(s[done:i])
		b.escape(r)
		i += n
		done = i
	}
	b.WriteString(s[done:])
	b.WriteByte('"')
}

func (b *body) escape(r rune) {
	switch r {
	case '"', '\\':
		b.WriteByte('\\')
		b.WriteByte(byte(r))
	case '\b':
		b.WriteString(`\b`)
	case '\f':
		b.WriteString(`\f`)
	case '\n':
		b.WriteString(`\n`)
	case '\r':
		b.WriteString(`\r`)
	case '\t':
		b.WriteString(`\t`)
	default:
		b.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			b.WriteByte(hexDigits[r>>shift&0xf])
		}
	}
}
