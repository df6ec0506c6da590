package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	"gatewayd/internal/problem"
)

// isURL reports that an address says how to speak there.
func isURL(addr string) bool { return strings.Contains(addr, "://") }

// clientOf gives a client of the daemon at HOST:PORT, in the clear, or at a URL. With https its certificate has to be vouched for by --ca, or by
// whom this system trusts.
func (c *cli) clientOf(addr, key string) (*client, error) {
	if !isURL(addr) {
		if c.ca != "" {
			return nil, usagef("--ca goes with --addr https://HOST:PORT")
		}
		return newClient("http://"+addr, key), nil
	}
	u, err := url.Parse(addr)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" || u.User != nil {
		return nil, usagef("--addr %s is no address of a daemon; give HOST:PORT or https://HOST:PORT", line(addr))
	}
	cl := newClient(u.Scheme+"://"+u.Host, key)
	switch {
	case u.Scheme == "http" && c.ca != "":
		return nil, usagef("--ca goes with --addr https://HOST:PORT")
	case c.ca != "":
		roots, err := vouchers(c.ca)
		if err != nil {
			return nil, err
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		cl.http.Transport = transport
	}
	return cl, nil
}

func vouchers(file string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, unreadable("--ca "+file, "name the PEM file with the daemon's certificate, or with that of who signed it", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return nil, &problem.Error{Kind: problem.Invalid, Thing: "--ca " + file, What: "holds no certificate in PEM", Fate: "nothing was asked", Remedy: "name the file of api.tls_cert, or that of who signed it"}
	}
	return roots, nil
}

// strange says why a daemon is not spoken to although somebody is there; nil where that is not the reason.
func (cl *client) strange(thing string, err error) error {
	what, remedy := "", ""
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		what, remedy = "shows a certificate for which nobody vouches whom this system trusts", "if it is yours, give its file with --ca"
	} else if host, other := errors.AsType[x509.HostnameError](err); other {
		what, remedy = "shows a certificate for other names: "+strings.Join(names(host.Certificate), ", "), "name it by one of these"
	} else if invalid, bad := errors.AsType[x509.CertificateInvalidError](err); bad {
		what, remedy = "shows a certificate that does not count: "+invalid.Error(), "give it a new one in api.tls_cert"
	} else if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		what, remedy = "does not speak TLS", "leave out https://, or give it api.tls_cert and api.tls_key"
	} else {
		return nil
	}
	return &problem.Error{Kind: problem.Denied, Thing: thing, What: what, Fate: "nothing was sent to it, the key neither", Remedy: remedy}
}

func names(cert *x509.Certificate) (list []string) {
	list = append(list, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		list = append(list, ip.String())
	}
	return list
}
