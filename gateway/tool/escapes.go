package tool

// escapes takes terminal control sequences out of a stream of bytes, whatever pieces it arrives in. A carriage return becomes a
// line's end; other control characters except tab are dropped.
type escapes struct {
	state escapeState
	cr    bool
}

type escapeState uint8

const (
	inText    escapeState = iota
	afterESC              // ESC seen
	inCSI                 // ESC [ … final byte @ to ~
	inString              // OSC, DCS, APC, PM, SOS: until BEL or ESC \
	stringESC             // ESC inside a string
	inCharset             // ESC ( and its like: one more byte
)

// next takes one byte and gives the byte to keep, if any.
func (e *escapes) next(b byte) (byte, bool) {
	switch e.state {
	case afterESC:
		e.state = afterEscape(b)
		return 0, false
	case inCSI:
		if b >= 0x40 && b <= 0x7E {
			e.state = inText
		}
		return 0, false
	case inString:
		switch b {
		case 0x07:
			e.state = inText
		case 0x1B:
			e.state = stringESC
		}
		return 0, false
	case stringESC, inCharset:
		e.state = inText
		return 0, false
	}
	return e.text(b)
}

func afterEscape(b byte) escapeState {
	switch b {
	case '[':
		return inCSI
	case ']', 'P', '_', '^', 'X':
		return inString
	case '(', ')', '*', '+', '#', '%', ' ':
		return inCharset
	case 0x1B:
		return afterESC
	}
	return inText
}

func (e *escapes) text(b byte) (byte, bool) {
	wasCR := e.cr
	e.cr = b == '\r'
	switch {
	case b == 0x1B:
		e.state = afterESC
		return 0, false
	case b == '\r':
		return '\n', true
	case b == '\n' && wasCR:
		return 0, false
	case b == '\n' || b == '\t':
		return b, true
	case b < 0x20 || b == 0x7F:
		return 0, false
	}
	return b, true
}
