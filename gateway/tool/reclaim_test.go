package tool

import (
	"testing"

	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

func TestOnlyCommandsOfDeadProcessesAreReclaimed(t *testing.T) {
	mine, err := newKeeperID()
	if err != nil {
		t.Fatal(err)
	}
	keeper := procfs.Identity{Boot: procfs.BootID(), PID: 1, Start: 1}
	for id, want := range map[string]bool{
		mine: false, "term-1-1-abc": true, "term-4194305-7-abc": true, "worker-1": false, "term-x-1-abc": false, "term-1-99999999999999999999-a": false,
	} {
		if got := abandoned(reaper.Record{ID: id, Keeper: keeper}); got != want {
			t.Errorf("%s abandoned: %v", id, got)
		}
	}
	keeper.Boot = "another boot"
	if !abandoned(reaper.Record{ID: mine, Keeper: keeper}) {
		t.Error("a process of another boot is dead")
	}
}

func TestAFailedStartLeavesNoRecord(t *testing.T) {
	r := newReaper(t)
	res := shell(t, TerminalOptions{Reaper: r, Shell: "/no/such/shell"})(soon(t), map[string]any{"command": "true"})
	records, err := r.Records()
	if !res.Err || res.Effect != EffectNone || err != nil || len(records) != 0 {
		t.Errorf("%+v, records %+v, %v", res, records, err)
	}
}
