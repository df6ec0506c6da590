package netguard

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestOnlyPublicAddressesAreReached(t *testing.T) {
	for addr, want := range map[string]reach{
		"1.1.1.1": public, "93.184.215.14": public, "2606:4700:4700::1111": public, "172.32.0.1": public, "100.128.0.1": public,
		"127.0.0.1": local, "127.8.8.8": local, "10.1.2.3": local, "172.16.0.1": local, "172.31.255.255": local, "192.168.1.1": local,
		"100.64.0.1": local, "::1": local, "fd12:3456::1": local, "fc00::1": local,
		"0.0.0.0": never, "0.1.2.3": never, "169.254.169.254": never, "169.254.1.1": never, "224.0.0.1": never, "239.1.1.1": never,
		"240.0.0.1": never, "255.255.255.255": never, "192.0.0.192": never, "100.100.100.200": never, "192.0.2.1": never, "192.31.196.1": never, "192.52.193.1": never, "192.175.48.1": never, "2001:20::1": never, "2620:4f:8000::1": never,
		"::": never, "fe80::1": never, "fe80::1%eth0": never, "ff02::1": never, "fd00:ec2::254": never, "2001:db8::1": never,
		"2001:0:4136:e378:8000:63bf:3fff:fdd2": never, "4000::1": never,
		// carried in another
		"::ffff:127.0.0.1": local, "::ffff:169.254.169.254": never, "::ffff:1.1.1.1": public,
		"64:ff9b::7f00:1": local, "64:ff9b::a9fe:a9fe": never, "64:ff9b::101:101": public, "64:ff9b:1::1": local,
		"2002:7f00:1::": local, "2002:a9fe:a9fe::1": never, "2002:0a00:0001::1": local, "2002:101:101::1": public,
		"::127.0.0.1": local, "::ffff:0:127.0.0.1": local, "::ffff:0:169.254.169.254": never,
	} {
		if got, name := judge(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is %v (%s), want %v", addr, got, name, want)
		}
	}
	if got, _ := judge(netip.Addr{}); got != never {
		t.Error("no address is reached")
	}
}

func TestThisMachineIsReachedOnlyWhereThatIsAllowed(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	names := []string{server.URL, "http://localhost:" + strconv.Itoa(port), "http://[::ffff:127.0.0.1]:" + strconv.Itoa(port), "http://0x7f000001:" + strconv.Itoa(port), "http://2130706433:" + strconv.Itoa(port)}
	for _, url := range names {
		answer, err := Guard{}.Client(5 * time.Second).Get(url)
		if err == nil {
			answer.Body.Close()
			t.Errorf("%s was reached", url)
		}
	}
	if asked != 0 {
		t.Errorf("%d requests arrived", asked)
	}
	if _, err := (Guard{}).Client(5 * time.Second).Get(server.URL); !errors.Is(err, ErrRefused) {
		t.Errorf("error is %v", err)
	}
	answer, err := Guard{AllowPrivate: true}.Client(5 * time.Second).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

func TestTheMetadataServiceIsNeverReached(t *testing.T) {
	for _, addr := range []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "[64:ff9b::a9fe:a9fe]:80", "0.0.0.0:80"} {
		c, err := Guard{AllowPrivate: true}.DialContext(t.Context(), "tcp", addr)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "never") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect))
	defer server.Close()
	_, err := Guard{AllowPrivate: true}.Client(5 * time.Second).Get(server.URL)
	if !errors.Is(err, ErrRedirect) {
		t.Errorf("error is %v", err)
	}
}

func TestACertificateThatNobodySignedIsRefused(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	if _, err := (Guard{AllowPrivate: true}).Client(5 * time.Second).Get(server.URL); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error is %v", err)
	}
}
