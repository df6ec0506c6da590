package worker

import (
	"os"
	"strings"
	"testing"

	"gatewayd/config"
)

func TestTheCardReachesTheWorkerByAPrivateFile(t *testing.T) {
	lane, _ := lanesOf(t, map[string]config.Lane{"x": {Preset: "claude"}}).Lookup("x")
	job := jobOn(t, lane)
	l, err := job.writeFiles()
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{l.dir: 0o700 | os.ModeDir, l.prompt: 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, mode)
		}
	}
	text, _ := os.ReadFile(l.prompt)
	for _, want := range []string{"--help; $(boom)", "-rf $(boom)", "/bin/gatewayd kanban complete t_1", "kanban block t_1"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the card's file lacks %q", want)
		}
	}
}

func TestKeeperIDIsAFunctionOfTheRow(t *testing.T) {
	id := KeeperID("/a/kanban.db", 12, 1700000000)
	if id != KeeperID("/a/./kanban.db", 12, 1700000000) {
		t.Error("the same run has two names")
	}
	for _, other := range []string{KeeperID("/b/kanban.db", 12, 1700000000), KeeperID("/a/kanban.db", 13, 1700000000), KeeperID("/a/kanban.db", 12, 1700000001)} {
		if other == id {
			t.Error("two runs share a name")
		}
	}
	if strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || len(id) > 64 {
		t.Errorf("%q cannot name a record", id)
	}
}
