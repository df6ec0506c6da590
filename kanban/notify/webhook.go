package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gatewayd/config"
	"gatewayd/internal/mutation"
	"gatewayd/internal/netguard"
)

const (
	// webhookTime bounds one delivery, name, connection and answer together; it is the upper end of what the standard asks for.
	webhookTime = 30 * time.Second
	// answerMax is what is read of an answer: a line for the person who looks after it.
	answerMax = 4 << 10
	saidMax   = 200
)

// webhook is one target of the configuration. Its requests are signed as Standard Webhooks 1.0 describes.
type webhook struct {
	url    string
	secret config.Secret
	client *http.Client
	limit  time.Duration
}

func (w webhook) send(ctx context.Context, m message) outcome {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	request, err := w.request(ctx, m, time.Now())
	if err != nil {
		return closedBy(err)
	}
	answer, err := w.client.Do(request)
	switch {
	case errors.Is(err, netguard.ErrRefused), errors.Is(err, netguard.ErrRedirect):
		return closedBy(plain(err))
	case err != nil:
		return failed(plain(err))
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, answerMax))
	return judge(answer, string(said))
}

func (w webhook) request(ctx context.Context, m message, now time.Time) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // the transport must not send it twice by itself: attempts are counted
	key, err := secretKey(w.secret)
	if err != nil {
		return nil, err
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "gatewayd", "Idempotency-Key": m.key,
		"webhook-id": m.key, "webhook-timestamp": stamp, "webhook-signature": sign(key, m.key, stamp, m.body),
	} {
		r.Header.Set(name, value)
	}
	return r, nil
}

// sign is HMAC-SHA256 over "<id>.<timestamp>.<body>".
func sign(key []byte, id, timestamp string, body []byte) string {
	if mutation.On("webhook-signs-body-alone") {
		id, timestamp = "", ""
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, timestamp)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

const secretPrefix = "whsec_"

// secretKey reads a secret in the form that the standard gives out: base64 of 24 to 64 bytes.
func secretKey(secret config.Secret) ([]byte, error) {
	text, ok := strings.CutPrefix(secret.Reveal(), secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		key, err = base64.RawStdEncoding.DecodeString(text)
	}
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("the webhook's secret is not whsec_ and base64 of 24 to 64 bytes")
	}
	return key, nil
}

// judge reads an answer. Only 2xx is success. What is about the address or about this sender closes the subscription; what is
// about this one message parks it alone; what passes by itself is tried again.
func judge(answer *http.Response, said string) outcome {
	o := outcome{err: "answered " + answer.Status}
	if text := strings.Join(strings.Fields(said), " "); text != "" {
		o.err += ": " + text[:min(len(text), saidMax)]
	}
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return ok()
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		o.verdict, o.after = tryAgain, retryAfter(answer.Header.Get("Retry-After"), time.Now())
	case code == http.StatusBadRequest, code == http.StatusConflict, code == http.StatusLengthRequired,
		code == http.StatusRequestEntityTooLarge, code == http.StatusUnsupportedMediaType, code == http.StatusUnprocessableEntity:
		o.verdict = refused
	default:
		o.verdict = closed
	}
	return o
}

// retryAfter is seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return min(time.Duration(n), time.Duration(giveUp/time.Second)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// plain is an error without the address: it may hold a token, and the text is stored in the board.
func plain(err error) error {
	var wrapped interface{ Unwrap() error }
	if errors.As(err, &wrapped) && strings.HasPrefix(err.Error(), "Post ") {
		return wrapped.Unwrap()
	}
	return err
}
