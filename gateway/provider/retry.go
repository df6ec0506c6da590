package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// How waits grow. Two seconds double up to a minute; an overloaded server gets longer steps, because those who hammer it keep it
// overloaded. Up to half is added at random so that many conversations do not come back together.
const (
	backoffBase   = 2 * time.Second
	backoffCap    = 60 * time.Second
	retryAfterCap = 600 * time.Second
	announceWait  = 60 * time.Second // longer waits are told to the person
	lifeInterval  = 30 * time.Second // during a wait the sink hears a sign of life this often
)

var overloadSteps = []time.Duration{15 * time.Second, 30 * time.Second, 60 * time.Second, 120 * time.Second}

// retryable says whether a call that failed this way for the nth time may be repeated. What the server refuses it will refuse again.
func retryable(err *Error, attempt, maxRetries int) bool {
	switch err.Class {
	case RateLimit, UpstreamLimit, Overloaded, ServerError, Timeout, Transport:
		return attempt <= maxRetries
	case Unknown:
		return attempt <= min(maxRetries, 1)
	}
	return false
}

// delay is how long to wait after the nth attempt failed. The server's own word wins, within reason. jitter is in [0,1).
func delay(err *Error, attempt int, jitter float64) time.Duration {
	if err.RetryAfter > 0 {
		return min(err.RetryAfter, retryAfterCap)
	}
	wait := backoffCap
	if err.Class == Overloaded {
		wait = overloadSteps[min(attempt, len(overloadSteps))-1]
	} else if attempt <= 5 {
		wait = min(backoffBase<<(attempt-1), backoffCap)
	}
	return wait + time.Duration(float64(wait)*jitter/2)
}

// pause waits, telling the sink that somebody is alive, and returns false when the context ended first.
func pause(ctx context.Context, wait time.Duration, sink func(Delta)) bool {
	for wait > 0 {
		step := min(wait, lifeInterval)
		timer := time.NewTimer(step)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		wait -= step
		emit(sink, Delta{})
	}
	return ctx.Err() == nil
}

var tryAgainPattern = regexp.MustCompile(`(?i)(?:try again|retry) (?:in|after) ((?:[0-9.]+ ?(?:ms|h|m|s)(?:in|ec|our)?[a-z]* ?)+)`)

// retryAfter finds how long the server wants us to wait, in any of the ways servers say it: the header in seconds, in milliseconds or
// as a date; a field of the body; words. Zero and less is as good as unsaid.
func retryAfter(header http.Header, body []byte, message string) time.Duration {
	if ms := header.Get("Retry-After-Ms"); ms != "" {
		if d := seconds(ms) / 1000; d > 0 {
			return d
		}
	}
	if value := header.Get("Retry-After"); value != "" {
		if d := seconds(value); d > 0 {
			return d
		}
		if d := untilDate(value, header.Get("Date")); d > 0 {
			return d
		}
		if d := spoken(value); d > 0 {
			return d
		}
	}
	if d := retryField(body); d > 0 {
		return d
	}
	if d := limitReset(header, body); d > 0 {
		return d
	}
	if match := tryAgainPattern.FindStringSubmatch(message); match != nil {
		return spoken(match[1])
	}
	return 0
}

// limitReset finds when a limit that is used up comes back, where a server says only that: as a span, a moment, or milliseconds since 1970, in headers
// or, from an aggregator, in the body.
func limitReset(header http.Header, body []byte) time.Duration {
	now := time.Now()
	if server, err := http.ParseTime(header.Get("Date")); err == nil {
		now = server
	}
	var longest time.Duration
	for _, prefix := range []string{"X-Ratelimit-%s-Requests", "X-Ratelimit-%s-Tokens", "Anthropic-Ratelimit-Requests-%s", "Anthropic-Ratelimit-Tokens-%s", "X-Ratelimit-%s"} {
		if header.Get(fmt.Sprintf(prefix, "Remaining")) == "0" {
			longest = max(longest, resetValue(header.Get(fmt.Sprintf(prefix, "Reset")), now))
		}
	}
	if list := looseList(body); len(list) > 0 {
		inner := looseObject(looseObject(looseObject(list[0])["error"])["metadata"])
		longest = max(longest, resetValue(looseText(looseObject(inner["headers"])["X-RateLimit-Reset"]), now))
	}
	return longest
}

func resetValue(text string, now time.Time) time.Duration {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Sub(now)
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if ms > 1e12 {
			return time.UnixMilli(ms).Sub(now)
		}
		return seconds(text)
	}
	return spoken(text)
}

// untilDate reads an HTTP date. The server's own clock is the measure where it sent one, so that a wrong clock here costs nothing.
func untilDate(value, now string) time.Duration {
	then, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if server, err := http.ParseTime(now); err == nil {
		return then.Sub(server)
	}
	return time.Until(then)
}

// retryField looks into the body: retry_after at the top, in error or in its metadata, retryDelay in its details.
func retryField(body []byte) time.Duration {
	list := looseList(body)
	if len(list) == 0 {
		return 0
	}
	top := looseObject(list[0])
	inner := looseObject(top["error"])
	places := []map[string]json.RawMessage{inner, top, looseObject(inner["metadata"])}
	for _, detail := range looseList(inner["details"]) {
		places = append(places, looseObject(detail))
	}
	for _, place := range places {
		for _, name := range []string{"retry_after", "retry_after_seconds", "retryDelay"} {
			if d := seconds(strings.TrimSuffix(strings.Trim(string(place[name]), `" `), "s")); d > 0 {
				return d
			}
		}
		if d := seconds(string(place["retry_after_ms"])) / 1000; d > 0 {
			return d
		}
	}
	return 0
}

// seconds reads a number of seconds; nonsense and what no clock can hold is 0.
func seconds(text string) time.Duration {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1e9 {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}

// spoken reads "1m2.5s", "20 seconds" or "350ms".
func spoken(text string) time.Duration {
	text = strings.ToLower(strings.ReplaceAll(text, " ", ""))
	for _, unit := range [][2]string{{"hours", "h"}, {"hour", "h"}, {"minutes", "m"}, {"minute", "m"}, {"mins", "m"}, {"min", "m"}, {"seconds", "s"}, {"second", "s"}, {"secs", "s"}, {"sec", "s"}} {
		text = strings.ReplaceAll(text, unit[0], unit[1])
	}
	d, err := time.ParseDuration(strings.Trim(text, "."))
	if err != nil || d < 0 {
		return 0
	}
	return d
}
