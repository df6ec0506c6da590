package reaper_test

import (
	"bytes"
	"testing"

	"gatewayd/reaper"
)

func newReaper(t *testing.T) *reaper.Reaper {
	t.Helper()
	r, err := reaper.New(reaper.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSmoke(t *testing.T) {
	r := newReaper(t)
	var out bytes.Buffer
	p, err := r.Start(t.Context(), reaper.Spec{ID: "a", Argv: []string{"sh", "-c", "echo hi; env; ls -l /proc/self/fd; exit 7"}, Env: []string{"PATH=/bin:/usr/bin"}, Lifetime: reaper.EndsWithDaemon, Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", p.Record())
	t.Log(out.String())
	_, err = r.Start(t.Context(), reaper.Spec{ID: "b", Argv: []string{"nosuch"}, Env: []string{"PATH=/bin:/usr/bin"}})
	t.Log(err)
	log := t.TempDir() + "/x.log"
	p, err = r.Start(t.Context(), reaper.Spec{ID: "c", Argv: []string{"sh", "-c", "setsid sleep 1000 & echo hi; trap '' TERM; sleep 1000;sleep 100"}, Env: []string{"PATH=/bin:/usr/bin"}, LogPath: log, Grace: 1e8})
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(1e8)
	t.Logf("%+v", p.Record())
}
