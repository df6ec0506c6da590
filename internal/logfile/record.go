package logfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Record is one line: what the daemon said, with its attributes in the order in which it said them.
type Record struct {
	slog.Record
	Line string // as it was written
}

func (r Record) value(key string) (text string, there bool) {
	r.Attrs(func(a slog.Attr) bool {
		if there = a.Key == key; there {
			text = a.Value.String()
		}
		return !there
	})
	return text, there
}

// parse reads a line of slog's JSON handler.
func parse(line []byte) (Record, bool) {
	in := json.NewDecoder(bytes.NewReader(line))
	in.UseNumber()
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		return Record{}, false
	}
	r := Record{Line: string(line)}
	for in.More() {
		key, err := in.Token()
		name, isText := key.(string)
		var value any
		if err != nil || !isText || in.Decode(&value) != nil {
			return Record{}, false
		}
		r.take(name, value)
	}
	return r, !r.Time.IsZero()
}

func (r *Record) take(name string, value any) {
	text, _ := value.(string)
	switch name {
	case slog.TimeKey:
		r.Time, _ = time.Parse(time.RFC3339Nano, text)
	case slog.LevelKey:
		_ = r.Level.UnmarshalText([]byte(text)) // an odd word is INFO
	case slog.MessageKey:
		r.Message = text
	default:
		r.AddAttrs(attr(name, value))
	}
}

// attr gives a value as it was logged: numbers and lists as their text, groups as groups.
func attr(name string, value any) slog.Attr {
	switch v := value.(type) {
	case string:
		return slog.String(name, v)
	case bool:
		return slog.Bool(name, v)
	case map[string]any:
		var inner []slog.Attr
		for key, value := range v {
			inner = append(inner, attr(key, value))
		}
		slices.SortFunc(inner, func(a, b slog.Attr) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
		return slog.Attr{Key: name, Value: slog.GroupValue(inner...)}
	}
	return slog.String(name, fmt.Sprint(value))
}
