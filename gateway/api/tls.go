package api

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"gatewayd/internal/problem"
)

// certEvery is how often the files of a certificate are looked at, when somebody connects.
const certEvery = time.Second

// Certificate is a certificate in two files, read again when they change. It is safe for concurrent use.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	have   *tls.Certificate
	stamps [2]fs.FileInfo
	looked time.Time
	failed string
}

// ReadCertificate reads the files. What cannot be used is a problem of kind Config.
func ReadCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log}
	stamps, err := c.stat()
	if err == nil {
		err = c.load(stamps)
	}
	if err != nil {
		return nil, &problem.Error{Kind: problem.Config, Thing: "certificate " + cert, What: "cannot be used", Fate: "nothing was started", Remedy: "see that api.tls_cert and api.tls_key belong together and are PEM", Err: err}
	}
	return c, nil
}

// Config is what a server speaks TLS by.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.get}
}

// Names are the hosts that the certificate is for.
func (c *Certificate) Names() []string { return c.have.Leaf.DNSNames }

// get gives the certificate that lies there now. New files that cannot be used leave the old one in force.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= certEvery {
		c.looked = now
		c.told(c.again())
	}
	return c.have, nil
}

func (c *Certificate) again() error {
	stamps, err := c.stat()
	if err != nil {
		return err
	}
	for i, now := range stamps {
		if old := c.stamps[i]; !os.SameFile(now, old) || !now.ModTime().Equal(old.ModTime()) || now.Size() != old.Size() {
			return c.load(stamps)
		}
	}
	return nil
}

func (c *Certificate) stat() (stamps [2]fs.FileInfo, err error) {
	for i, path := range []string{c.cert, c.key} {
		if stamps[i], err = os.Stat(path); err != nil {
			return stamps, err
		}
	}
	return stamps, nil
}

func (c *Certificate) load(stamps [2]fs.FileInfo) error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	c.have, c.stamps = &pair, stamps
	return nil
}

// told logs a trouble when it begins and ends.
func (c *Certificate) told(err error) {
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	switch {
	case trouble == c.failed:
	case trouble == "":
		c.log.Info("certificate is read again", "path", c.cert)
	default:
		c.log.Warn("new certificate cannot be used; the one that was read stays", "path", c.cert, "error", trouble)
	}
	c.failed = trouble
}
