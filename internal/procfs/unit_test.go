package procfs

import "testing"

func TestTheUnitIsTheInnermostService(t *testing.T) {
	for groups, want := range map[string]string{
		"0::/system.slice/gatewayd.service\n":                                             "gatewayd.service",
		"12:pids:/x\n0::/user.slice/user-1.slice/user@1.service/app.slice/gw@a.service\n": "gw@a.service",
		"0::/user.slice/user-1.slice/user@1.service/app.slice/vte-spawn-1.scope\n":        "",
		"0::/\n":                      "",
		"":                            "",
		"0::/docker/0123456789abcd\n": "",
	} {
		if got := unitOf(groups); got != want {
			t.Errorf("%q: %q, want %q", groups, got, want)
		}
	}
}
