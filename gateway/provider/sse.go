package provider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"gatewayd/internal/mutation"
)

// Bounds of one stream. A tool call that writes a file arrives as one line of megabytes with some servers; what is larger than this
// is no answer but a runaway, and must not take the daemon's memory.
const (
	maxEvent  = 16 << 20
	maxStream = 64 << 20
)

// doneMark is the data of the last event of chat completions.
const doneMark = "[DONE]"

// byteOrderMark is what some editors and libraries put before UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

var (
	errEventTooLong  = errors.New("one event of the answer is larger than 16 MiB")
	errStreamTooLong = errors.New("the answer is larger than 64 MiB")
)

// event is one server-sent event: the data lines joined by newlines, and the event's name when it has one. Junk is a
// line that belongs to no event.
type event struct {
	Name string
	Data []byte
	Junk bool
}

// eventReader cuts a stream into events as the HTML standard says, and is lenient where servers are careless: a line that is a bare
// JSON object is an event by itself, so is each of several data lines that are whole ones without a blank line between them, a field named
// error is an event of that name, and an event that the end of the stream cut off before its blank line still counts.
type eventReader struct {
	r      *bufio.Reader
	line   []byte
	again  bool // line is to be read once more
	read   int
	skipLF bool
	begun  bool

	maxEvent, maxStream int
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 64<<10), maxEvent: maxEvent, maxStream: maxStream}
}

// next gives the next event, or io.EOF. Comments are passed over in silence.
func (e *eventReader) next() (event, error) {
	var current event
	has, lines := false, 0 // of data
	for {
		line, err := e.readLine()
		if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
			if has && errors.Is(err, io.EOF) {
				return current, nil
			}
			return event{}, err
		}
		if len(line) == 0 {
			if has {
				return current, nil
			}
			current = event{}
			continue
		}
		if len(current.Data)+len(line) > e.maxEvent {
			return event{}, errEventTooLong
		}
		switch field, value := splitField(line); {
		case field == "data":
			if lines == 1 && startsAnew(current.Data, value) {
				e.again = true
				return current, nil
			}
			if lines++; has {
				current.Data = append(current.Data, '\n')
			}
			current.Data = append(current.Data, value...)
			has = true
		case field == "event" && has && current.Name != "":
			e.again = true // one event has one name
			return current, nil
		case field == "event":
			current.Name = string(value)
		case field == "error" && !has && len(value) > 0 && value[0] == '{': // older llama.cpp
			return event{Name: field, Data: bytes.Clone(value)}, nil
		case field == "id", field == "retry", line[0] == ':':
		case line[0] == '{' && !has:
			return event{Name: current.Name, Data: bytes.Clone(line)}, nil
		default:
			if !has {
				return event{Data: bytes.Clone(line), Junk: true}, nil
			}
		}
	}
}

// splitField gives the field's name and its value without the one space that may follow the colon.
func splitField(line []byte) (string, []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "data", "event", "id", "retry", "error":
		return string(name), bytes.TrimPrefix(value, []byte(" "))
	}
	return "", nil
}

// startsAnew reports that a data line begins another event, though no blank line ended the one before it: some servers send one line for each
// chunk. What is split over lines as the standard has it is not whole after its first.
func startsAnew(first, second []byte) bool {
	return (bytes.HasPrefix(second, []byte("{")) || string(second) == doneMark) && bytes.HasPrefix(first, []byte("{")) && json.Valid(first) &&
		!mutation.On("lines-are-one-event")
}

// readLine reads up to the next CR, LF or CRLF, which is not part of the result. The slice is good until the next call. At the end of
// the stream an unfinished line comes together with io.EOF. A CR ends the line at once; whether an LF belongs to it is seen
// when the next byte is there, so a server that ends lines with CR is never waited for.
func (e *eventReader) readLine() ([]byte, error) {
	if e.again {
		e.again = false
		return e.line, nil
	}
	e.line = e.line[:0]
	for {
		head, err := e.r.Peek(1)
		if err != nil {
			return e.line, err
		}
		if !e.begun {
			e.begun = true
			if head[0] == byteOrderMark[0] { // only then may one wait for more bytes
				if mark, _ := e.r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
					e.discard(len(byteOrderMark))
					continue
				}
			}
		}
		buffered, _ := e.r.Peek(e.r.Buffered())
		if e.skipLF && buffered[0] == '\n' {
			e.skipLF = false
			e.discard(1)
			continue
		}
		e.skipLF = false
		end := bytes.IndexAny(buffered, "\r\n")
		if end >= 0 {
			e.line = append(e.line, buffered[:end]...)
			e.skipLF = buffered[end] == '\r'
			e.discard(end + 1)
			return e.line, e.bounds()
		}
		e.line = append(e.line, buffered...)
		e.discard(len(buffered))
		if err := e.bounds(); err != nil {
			return nil, err
		}
	}
}

func (e *eventReader) discard(n int) {
	_, _ = e.r.Discard(n)
	e.read += n
}

func (e *eventReader) bounds() error {
	switch {
	case e.read > e.maxStream:
		return errStreamTooLong
	case len(e.line) > e.maxEvent:
		return errEventTooLong
	}
	return nil
}
