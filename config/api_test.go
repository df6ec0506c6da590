package config

import (
	"net"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func TestOthersAreListenedToOverTLSOrByAnExplicitWord(t *testing.T) {
	for bound, open := range map[string]bool{
		"127.0.0.1:1": false, "127.9.9.9:1": false, "[::1]:1": false,
		"0.0.0.0:1": true, "[::]:1": true, "192.168.1.7:1": true, "[fe80::1]:1": true, "[::ffff:10.0.0.1]:1": true,
	} {
		addr, err := net.ResolveTCPAddr("tcp", bound)
		if err != nil {
			t.Fatal(err)
		}
		if err := (API{}).CheckBound(addr); (err != nil) != open || open && (!problem.Is(err, problem.Config) || !strings.Contains(err.Error(), "api.insecure_bind")) {
			t.Errorf("%s: %v", bound, err)
		}
		for word, api := range map[string]API{"TLS": {TLSCert: "x", TLSKey: "y"}, "the word": {InsecureBind: true}} {
			if err := api.CheckBound(addr); err != nil {
				t.Errorf("%s with %s: %v", bound, word, err)
			}
		}
	}
}
