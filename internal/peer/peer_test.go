package peer

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// TestMain lets this binary play an echo that says when its input has ended.
func TestMain(m *testing.M) {
	if os.Getenv("GATEWAYD_TEST_PEER") == "" {
		os.Exit(m.Run())
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println("heard", in.Text())
	}
	fmt.Println("over")
}

func TestTheTestBinarySpeaksAndEndsWhenItIsLetGo(t *testing.T) {
	p := Self(t, "GATEWAYD_TEST_PEER=echo")
	p.Say("one")
	p.Want("heard one")
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	p.Want("over")
	if line, ok := p.Line(); ok {
		t.Errorf("after its end it says %q", line)
	}
	if err := p.End(); err != nil {
		t.Errorf("its end: %v", err)
	}
	p.Kill() // of one that has ended
}

func TestAForeignProgramIsKilledOnce(t *testing.T) {
	p := Start(t, exec.Command("sh", "-c", "echo up; exec sleep 600"))
	p.Want("up")
	p.Kill()
	if _, ok := p.Line(); ok || p.PID() == 0 {
		t.Error("it still speaks")
	}
}
