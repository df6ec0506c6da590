package provider

import (
	"context"
	"encoding/json"
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

var tryAgainPattern = regexp.MustCompile(`(?i)(?:try again|retry|wait|resets?)(?: in| after| for)? ((?:[0-9.]+ ?(?:ms|h|m|s)(?:in|ec|our)?[a-z]* ?)+)`)

// retryAfter finds how long the server wants us to wait, in any of the ways servers say it: the header in seconds, in milliseconds,
// as a date or a moment; a field of the body; a limit that comes back; words. Zero and less is as good as unsaid.
func retryAfter(header http.Header, body []byte, message string) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} { // the second is Azure's
		if d := seconds(header.Get(name)) / 1000; d > 0 {
			return d
		}
	}
	if value := header.Get("Retry-After"); value != "" {
		if d := moment(value, clockOf(header)); d > 0 {
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

// limitReset finds when a limit that is used up comes back, where a server says only that, in headers or, from an aggregator, in the body. Whose
// limit it is stands in the header's name: requests, input tokens, a day's.
func limitReset(header http.Header, body []byte) time.Duration {
	now := clockOf(header)
	var longest time.Duration
	for name, values := range header {
		plain := strings.ToLower(strings.ReplaceAll(name, "-", ""))
		if left, err := strconv.ParseFloat(values[0], 64); err != nil || left != 0 || !strings.Contains(plain, "ratelimit") {
			continue
		}
		if reset := strings.Replace(name, "Remaining", "Reset", 1); reset != name {
			longest = max(longest, moment(header.Get(reset), now))
		}
	}
	if list := looseList(body); len(list) > 0 {
		inner := looseObject(looseObject(looseObject(list[0])["error"])["metadata"])
		longest = max(longest, moment(looseText(looseObject(inner["headers"])["X-RateLimit-Reset"]), now))
	}
	return longest
}

// clockOf is the server's own time where it sent one, so that a wrong clock here costs nothing.
func clockOf(header http.Header) time.Time {
	if server, err := http.ParseTime(header.Get("Date")); err == nil {
		return server
	}
	return time.Now()
}

// moment reads when something will be: in so many seconds, at a date in either form, at so many seconds or milliseconds since 1970, or in words.
func moment(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(now)
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Sub(now)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case n >= 1e12 && n < 1e14:
			return time.UnixMilli(n).Sub(now)
		case n >= 1e9 && n < 1e11:
			return time.Unix(n, 0).Sub(now)
		}
	}
	if d := seconds(text); d > 0 {
		return d
	}
	return spoken(text)
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
		for _, name := range []string{"retry_after", "retry_after_seconds", "retryDelay", "estimated_time"} {
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
