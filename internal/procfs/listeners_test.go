package procfs

import (
	"net"
	"os"
	"testing"
)

func TestAPortIsToldWithWhoListensOnIt(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Logf("%s: %v", at, err)
			continue
		}
		defer l.Close()
		want := l.Addr().(*net.TCPAddr).AddrPort()
		found, err := Listeners(int(want.Port()))
		if err != nil || len(found) != 1 || found[0].Addr != want || found[0].PID != os.Getpid() {
			t.Errorf("%v: %+v, %v", want, found, err)
		}
	}
}

func TestAProgramIsToldByItsProcess(t *testing.T) {
	want, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if name, replaced, err := Program(os.Getpid()); name != want || replaced || err != nil {
		t.Errorf("%q, %v, %v", name, replaced, err)
	}
	if _, _, err := Program(1 << 30); !Gone(err) {
		t.Errorf("of nobody: %v", err)
	}
}
