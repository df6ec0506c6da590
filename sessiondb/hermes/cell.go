package hermes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"gatewayd/internal/sqlite"
)

// Warning is one cell that could not be taken as it is. It never carries content.
type Warning struct {
	Session string
	Row     int64 // 0: of the session itself
	Column  string
	What    string
}

func (w Warning) String() string {
	at := "session " + w.Session
	if w.Row != 0 {
		at += fmt.Sprintf(", message %d", w.Row)
	}
	return fmt.Sprintf("%s, %s: %s", at, w.Column, w.What)
}

// row reads the columns of one row by name and collects what was wrong with them.
type row struct {
	*sqlite.Row
	names    []string
	session  string
	id       int64
	warnings []Warning
}

func (r *row) at(name string) int {
	for i, n := range r.names {
		if n == name {
			return i
		}
	}
	panic("hermes: column " + name + " was not asked for")
}

func (r *row) warn(column, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{Session: r.session, Row: r.id, Column: column, What: fmt.Sprintf(format, args...)})
}

// text gives a cell as valid text, NULL as "". What is no UTF-8 becomes U+FFFD.
func (r *row) text(column string) string {
	raw := string(r.Bytes(r.at(column)))
	if utf8.ValidString(raw) {
		return raw
	}
	sum := sha256.Sum256([]byte(raw))
	r.warn(column, "is no UTF-8 and was mended (sha256 %s)", hex.EncodeToString(sum[:8]))
	return strings.ToValidUTF8(raw, "\uFFFD")
}

// number gives a cell as an integer, fallback for NULL and for what is no number.
func (r *row) number(column string, fallback int64) int64 {
	switch v := r.Any(r.at(column)).(type) {
	case int64:
		return v
	case float64:
		if !math.IsNaN(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case string:
		if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
			return n
		}
	case nil:
		return fallback
	}
	r.warn(column, "is no whole number; %d was taken", fallback)
	return fallback
}

func (r *row) flag(column string, fallback int64) bool { return r.number(column, fallback) != 0 }

// maxSeconds is 2100-01-01: what lies outside 0 < t <= maxSeconds was shown by no clock.
const maxSeconds = 4102444800

// micros gives a time cell, which is in seconds, in microseconds; 0 for NULL and for what is no time.
func (r *row) micros(column string) int64 {
	var seconds float64
	switch v := r.Any(r.at(column)).(type) {
	case nil:
		return 0
	case int64:
		seconds = float64(v)
	case float64:
		seconds = v
	case string:
		parsed, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil {
			r.warn(column, "is text and no time")
			return 0
		}
		seconds = parsed
	default:
		r.warn(column, "is bytes and no time")
		return 0
	}
	if !(seconds > 0 && seconds <= maxSeconds) { // also NaN
		r.warn(column, "is %g, which is no time", seconds)
		return 0
	}
	return max(int64(math.Round(seconds*1e6)), 1)
}
