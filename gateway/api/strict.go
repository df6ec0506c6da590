package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"gatewayd/internal/mutation"
)

// maxDepth is how deep lists and objects of a body may lie in each other: twice what the deepest schema of a tool needs.
const maxDepth = 64

// strict refuses what a JSON reader would settle in silence: a field that is there twice, of which the last would count; half a
// character, which would become another one; and what lies too deep. body is valid JSON.
func strict(body []byte) error {
	s := strictReader{body: body}
	if e := s.value(); e != nil {
		return e
	}
	return nil
}

// strictReader walks over valid JSON. place is where it is, for the one error that it gives.
type strictReader struct {
	body  []byte
	at    int
	place []step
}

// step leads into a list or an object.
type step struct {
	name  string
	index int
	list  bool
}

func (s *strictReader) path() string {
	var b strings.Builder
	for i, one := range s.place {
		switch {
		case one.list:
			b.WriteString("[" + strconv.Itoa(one.index) + "]")
		case i > 0:
			b.WriteString("." + one.name)
		default:
			b.WriteString(one.name)
		}
	}
	return fmt.Sprintf("%.200s", b.String())
}

func (s *strictReader) refuse(code, format string, args ...any) *refusal {
	path := s.path()
	message := fmt.Sprintf(format, args...)
	if path != "" {
		message = path + ": " + message
	}
	return &refusal{status: http.StatusBadRequest, code: code, param: path, message: message}
}

func (s *strictReader) skip() {
	for s.at < len(s.body) && strings.IndexByte(" \t\r\n,:", s.body[s.at]) >= 0 {
		s.at++
	}
}

func (s *strictReader) value() *refusal {
	s.skip()
	if s.at >= len(s.body) {
		return nil
	}
	switch s.body[s.at] {
	case '{', '[':
		if len(s.place) >= maxDepth {
			return &refusal{
				status: http.StatusBadRequest, code: "too_deep", param: s.place[0].name,
				message: fmt.Sprintf("%s: lists and objects lie in each other more than %d deep", s.place[0].name, maxDepth),
			}
		}
		if s.body[s.at] == '{' {
			return s.object()
		}
		return s.list()
	case '"':
		_, e := s.text()
		return e
	}
	for s.at < len(s.body) && strings.IndexByte(" \t\r\n,]}", s.body[s.at]) < 0 {
		s.at++
	}
	return nil
}

func (s *strictReader) object() *refusal {
	s.at++
	seen := map[string]struct{}{}
	s.place = append(s.place, step{})
	for s.skip(); s.at < len(s.body) && s.body[s.at] != '}'; s.skip() {
		name, e := s.text()
		if e != nil {
			return e
		}
		s.place[len(s.place)-1].name = name
		if _, twice := seen[name]; twice && !mutation.On("the-last-of-two-fields-counts") {
			return s.refuse("duplicate_field", "is there twice; which of the two is meant cannot be known")
		}
		seen[name] = struct{}{}
		if e := s.value(); e != nil {
			return e
		}
	}
	s.at++
	s.place = s.place[:len(s.place)-1]
	return nil
}

func (s *strictReader) list() *refusal {
	s.at++
	s.place = append(s.place, step{list: true})
	for s.skip(); s.at < len(s.body) && s.body[s.at] != ']'; s.skip() {
		if e := s.value(); e != nil {
			return e
		}
		s.place[len(s.place)-1].index++
	}
	s.at++
	s.place = s.place[:len(s.place)-1]
	return nil
}

// text reads a string with its quotes.
func (s *strictReader) text() (string, *refusal) {
	from, escaped := s.at, false
	for s.at++; s.body[s.at] != '"'; s.at++ {
		if s.body[s.at] != '\\' {
			continue
		}
		escaped = true
		s.at++
		if s.body[s.at] != 'u' {
			continue
		}
		unit := s.unit(s.at + 1)
		s.at += 4
		switch {
		case unit < 0xD800 || unit > 0xDFFF:
		case unit < 0xDC00 && s.body[s.at+1] == '\\' && s.body[s.at+2] == 'u' && s.unit(s.at+3)&0xFC00 == 0xDC00:
			s.at += 6
		default:
			return "", s.refuse("invalid_encoding", `has half a character (\u%04x without its other half)`, unit)
		}
	}
	s.at++
	raw := s.body[from:s.at]
	if !escaped {
		return string(raw[1 : len(raw)-1]), nil
	}
	var text string
	_ = json.Unmarshal(raw, &text)
	return text, nil
}

// unit reads four hexadecimal digits.
func (s *strictReader) unit(at int) uint64 {
	if at+4 > len(s.body) {
		return 0
	}
	n, _ := strconv.ParseUint(string(s.body[at:at+4]), 16, 32)
	return n
}
