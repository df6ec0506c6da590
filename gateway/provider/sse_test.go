package provider

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func readEvents(r io.Reader) (list []event, err error) { return readAll(newEventReader(r)) }

func readAll(events *eventReader) (list []event, err error) {
	for {
		e, err := events.next()
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
}

func TestEventsAreCutAsTheStandardSays(t *testing.T) {
	data := func(texts ...string) (list []event) {
		for _, text := range texts {
			list = append(list, event{Data: []byte(text)})
		}
		return list
	}
	cases := map[string]struct {
		in   string
		want []event
	}{
		"lf":                    {"data: a\n\ndata: b\n\n", data("a", "b")},
		"crlf":                  {"data: a\r\n\r\ndata: b\r\n\r\n", data("a", "b")},
		"crlf, several lines":   {"data: a\r\ndata: b\r\n\r\n", data("a\nb")},
		"cr":                    {"data: a\r\rdata: b\r\r", data("a", "b")},
		"no space":              {"data:a\n\n", data("a")},
		"only one space goes":   {"data:  a\n\n", data(" a")},
		"several lines":         {"data: a\ndata: b\ndata\n\n", data("a\nb\n")},
		"comments":              {": hello\n\n:\ndata: a\n: more\n\n", data("a")},
		"named":                 {"event: error\ndata: x\n\ndata: y\n\n", []event{{Name: "error", Data: []byte("x")}, {Data: []byte("y")}}},
		"id and retry":          {"id: 4\nretry: 10\ndata: a\n\n", data("a")},
		"byte order mark":       {"\xef\xbb\xbfdata: a\n\n", data("a")},
		"no blank line at end":  {"data: a\n", data("a")},
		"no newline at end":     {"data: a", data("a")},
		"bare object":           {"data: a\n\n{\"error\":1}\n", data("a", `{"error":1}`)},
		"unknown line":          {"what\n\ndata: a\n\n", []event{{Data: []byte("what"), Junk: true}, {Data: []byte("a")}}},
		"unknown line in event": {"data: a\nwhat: x\n\n", data("a")},
		"empty data":            {"data:\n\n", []event{{}}},
		"nothing":               {"", nil},
		// GLM and Kimi behind some proxies: one line for each chunk and no blank lines.
		"no blank lines":        {"data: {\"a\":1}\ndata: {\"b\":2}\ndata: [DONE]\n", data(`{"a":1}`, `{"b":2}`, "[DONE]")},
		"no blank lines, named": {"event: x\ndata: {\"a\":1}\nevent: error\ndata: {\"b\":2}\n\n", []event{{Name: "x", Data: []byte(`{"a":1}`)}, {Name: "error", Data: []byte(`{"b":2}`)}}},
		"one value in lines":    {"data: {\"a\":[\ndata: {},\ndata: {}\ndata: ]}\n\n", data("{\"a\":[\n{},\n{}\n]}")},
		"an empty line first":   {"data:\ndata: {\"a\":1}\n\n", data("\n{\"a\":1}")},
		"named behind the data": {"data: {}\nevent: error\n\n", []event{{Name: "error", Data: []byte("{}")}}},
		// llama.cpp before it wrote errors as data.
		"a field named error": {"data: {}\n\nerror: {\"code\":500}\n\n", []event{{Data: []byte("{}")}, {Name: "error", Data: []byte(`{"code":500}`)}}},
		"error in words":      {"error: oh\n\n", []event{{Data: []byte("error: oh"), Junk: true}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for kind, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
				got, err := readEvents(r)
				if !errors.Is(err, io.EOF) || !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s: got %+v, %v; want %+v", kind, got, err, c.want)
				}
			}
		})
	}
}

func TestALineOfMegabytesIsReadAndOneWithoutEndIsNot(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	got, err := readEvents(strings.NewReader("data: " + long + "\n\ndata: after\n\n"))
	if !errors.Is(err, io.EOF) || len(got) != 2 || string(got[0].Data) != long || string(got[1].Data) != "after" {
		t.Fatalf("got %d events, %v", len(got), err)
	}
	bounded := func(r io.Reader) *eventReader {
		events := newEventReader(r)
		events.maxEvent, events.maxStream = 1<<20, 2<<20
		return events
	}
	endless := io.MultiReader(strings.NewReader("data: "), zeros{})
	if _, err := readAll(bounded(endless)); !errors.Is(err, errEventTooLong) {
		t.Errorf("endless line: %v", err)
	}
	if _, err := readAll(bounded(&repeater{line: []byte("data: " + strings.Repeat("x", 1000) + "\n")})); !errors.Is(err, errEventTooLong) {
		t.Errorf("endless event: %v", err)
	}
	if _, err := readAll(bounded(&repeater{line: []byte(": still here\n")})); !errors.Is(err, errStreamTooLong) {
		t.Errorf("endless comments: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

type repeater struct{ line, rest []byte }

func (r *repeater) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(r.rest) == 0 {
			r.rest = r.line
		}
		m := copy(p[n:], r.rest)
		r.rest = r.rest[m:]
		n += m
	}
	return n, nil
}

// FuzzEvents holds two promises: how the bytes are cut into reads changes nothing, and no input makes the reader panic.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", "data: a\r\n\r\n", ":\rdata:x\r\r", "event: error\ndata: {\"a\":1}\n\n", "{\"error\":\"x\"}\n", "data: [DONE]", "data: {}\ndata: {}\n", "error: {}\nevent:a\ndata:{}\nevent:b\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := readEvents(bytes.NewReader(in))
		single, err2 := readEvents(iotest.OneByteReader(bytes.NewReader(in)))
		if !reflect.DeepEqual(whole, single) || !errors.Is(err, io.EOF) || !errors.Is(err2, io.EOF) {
			t.Errorf("whole %+v %v, byte by byte %+v %v", whole, err, single, err2)
		}
	})
}

// FuzzChunk holds for both wires that no chunk makes the assembly panic, that only whole objects are ever called complete, and that an answer's text is
// the pieces that were shown.
func FuzzChunk(f *testing.F) {
	f.Add([]byte(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"{}"}}]}}]}`))
	f.Add([]byte(`{"choices":{"delta":{"content":[{"text":"x"},4]}},"usage":{"prompt_tokens":"7"}}`))
	f.Add([]byte(`{"error":{"message":"x","code":"429"}}`))
	f.Add([]byte("{\"choices\":[{\"delta\":{\"content\":\"half \xe2\x82\"}}]}"))
	f.Add([]byte(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"ls","input":{"p":1}}}`))
	f.Add([]byte(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"p\""}}`))
	f.Add([]byte(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`))
	f.Add([]byte(`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":-3}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, wire := range []dialect{chatAPI{}, messagesAPI{}} {
			a, shown := &assembly{}, ""
			for range 3 {
				delta, _, _ := wire.apply(a, event{Data: in})
				shown += delta.Text
			}
			got := a.response()
			if got.Text != shown {
				t.Errorf("text %q, shown %q", got.Text, shown)
			}
			ids := map[string]bool{}
			for _, call := range got.ToolCalls {
				if call.ID == "" || ids[call.ID] {
					t.Errorf("an id is missing or there twice: %+v", got.ToolCalls)
				}
				ids[call.ID] = true
			}
			if u := got.Usage; u.Prompt < 0 || u.Completion < 0 || u.Cached > u.Prompt {
				t.Errorf("usage %+v", u)
			}
		}
	})
}

// A server that cuts its text at bytes sends half a character now and half of it later.
func TestACharacterCutInTwoIsOneCharacter(t *testing.T) {
	for _, api := range []dialect{chatAPI{}, messagesAPI{}} {
		a, shown := &assembly{}, []string(nil)
		text := "a€😀é\xff."
		for i := range len(text) {
			chunk := `{"choices":[{"delta":{"content":"` + text[i:i+1] + `"}}]}`
			if _, ok := api.(messagesAPI); ok {
				chunk = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text[i:i+1] + `"}}`
			}
			delta, _, err := api.apply(a, event{Data: []byte(chunk)})
			if err != nil {
				t.Fatal(err)
			}
			if delta.Text != "" {
				shown = append(shown, delta.Text)
			}
		}
		if got := strings.Join(shown, "|"); got != "a|€|😀|é|\uFFFD|." || a.response().Text != strings.Join(shown, "") {
			t.Errorf("shown %q, kept %q", got, a.response().Text)
		}
	}
}
