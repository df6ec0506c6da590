package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

// certify writes a certificate for localhost with this serial number.
func certify(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gatewayd"}, DNSNames: []string{"localhost", "box.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLSIsSpokenWithEverybodyAndPlainHTTPWithThisMachine(t *testing.T) {
	dir := t.TempDir()
	cert, key := certify(t, dir, 1)
	c, err := ReadCertificate(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setCookie(w, r, "x")
		_, _ = io.WriteString(w, map[bool]string{true: "secret", false: "plain"}[r.TLS != nil])
	}), nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(SpeakTLS(Limit(l, 4, slog.New(slog.DiscardHandler)), c.Config()))
	}()
	defer func() { _ = server.Close(); <-ended }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	get := func(scheme string) (*http.Response, string) {
		answer, err := client.Get(scheme + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer, string(body)
	}
	for range 10 { // more than there are places: each gives its own back
		if answer, body := get("http://"); body != "plain" || answer.Cookies()[0].Secure {
			t.Fatalf("%q %v", body, answer.Header)
		}
	}
	answer, body := get("https://")
	if body != "secret" || !answer.Cookies()[0].Secure || answer.TLS.PeerCertificates[0].SerialNumber.Int64() != 1 {
		t.Errorf("%q %v", body, answer.Header)
	}
	if got := c.Names(); len(got) != 2 || got[1] != "box.example" {
		t.Errorf("%q", got)
	}
	certify(t, dir, 2)
	c.looked = time.Time{}
	if answer, _ = get("https://"); answer.TLS.PeerCertificates[0].SerialNumber.Int64() != 2 {
		t.Error("a new certificate is not taken")
	}
	if err := os.WriteFile(key, []byte("spoilt"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.looked = time.Time{}
	if answer, _ = get("https://"); answer.TLS.PeerCertificates[0].SerialNumber.Int64() != 2 {
		t.Error("a spoilt certificate is taken")
	}
	if _, err := ReadCertificate(cert, key, nil); !problem.Is(err, problem.Config) {
		t.Error(err)
	}
}

func TestSomebodyElsesMachineIsSpokenToInTLSAlone(t *testing.T) {
	for _, c := range []struct {
		from, to string
		here     bool
	}{{"127.0.0.1:5", "127.0.0.1:8642", true}, {"192.168.1.7:5", "192.168.1.7:8642", true}, {"192.168.1.8:5", "192.168.1.7:8642", false}, {"[::1]:5", "[::1]:8642", true}, {"[fe80::2]:5", "[fe80::1]:8642", false}} {
		from, _ := net.ResolveTCPAddr("tcp", c.from)
		to, _ := net.ResolveTCPAddr("tcp", c.to)
		if got := thisMachine(ends{from: from, to: to}); got != c.here {
			t.Errorf("%s to %s: %v", c.from, c.to, got)
		}
	}
}

type ends struct {
	net.Conn
	from, to net.Addr
}

func (e ends) RemoteAddr() net.Addr { return e.from }
func (e ends) LocalAddr() net.Addr  { return e.to }

func TestConnectionsBeyondTheLimitWaitAndAreServed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limit := Limit(l, 1, slog.New(slog.DiscardHandler))
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	first, err := limit.Accept()
	if err != nil {
		t.Fatal(err)
	}
	dial()
	second := make(chan error, 1)
	go func() {
		c, err := limit.Accept()
		if err == nil {
			_ = c.Close()
		}
		second <- err
	}()
	select {
	case <-second:
		t.Error("two are open where one may be")
	case <-time.After(100 * time.Millisecond):
	}
	_ = first.Close()
	_ = first.Close() // gives one place back, not two
	if err := <-second; err != nil {
		t.Error(err)
	}
	dial()
	third, err := limit.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	waiting := make(chan error, 1)
	go func() { _, err := limit.Accept(); waiting <- err }()
	_ = limit.Close()
	if err := <-waiting; err == nil {
		t.Error("the end of the listener is not the end of the waiting")
	}
}
