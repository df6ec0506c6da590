package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestEachLiveSettingExists(t *testing.T) {
	loaded := load(t, homeWith(t, ""))
	for begin := range live {
		found := begin == "kanban.notify"
		for _, row := range loaded.Rows() {
			found = found || strings.HasPrefix(row.Key, begin)
		}
		if !found {
			t.Errorf("%s is no setting", begin)
		}
	}
}

func TestALaterReadingIsTakenAsFarAsItIsLive(t *testing.T) {
	home := homeWith(t, "api: {addr: \"127.0.0.1:1\"}\ncompression: {threshold: 0.5}\nkanban: {root: a, max_in_progress: 2, lanes: {old: {argv: [sh]}}}\n")
	first := load(t, home, "GATEWAYD_MODEL_API_KEY=one")
	write(t, filepath.Join(home, "config.yaml"), "api: {addr: \"127.0.0.1:2\"}\ncompression: {threshold: 0.7}\nmodel: {max_concurrent: 3}\nkanban: {root: b, max_in_progress: 9, lanes: {new: {argv: [sh, -c, x]}}}\n")
	later := load(t, home, "GATEWAYD_MODEL_API_KEY=two")

	got := map[string]string{}
	for _, c := range first.Changes(later) {
		got[c.Key] = c.Live
		if strings.Contains(c.From+c.To, "one") || strings.Contains(c.From+c.To, "two") {
			t.Errorf("a secret is told: %+v", c)
		}
	}
	for key, want := range map[string]string{
		"api.addr": "", "kanban.root": "", "model.max_concurrent": "", "compression.threshold": LiveMessage, "kanban.max_in_progress": LiveWorker, "kanban.lanes.new.argv": LiveWorker,
		"kanban.lanes.old.argv": LiveWorker, "model.api_key": LiveMessage,
	} {
		if when, there := got[key]; !there || when != want {
			t.Errorf("%s: counts %q, told %v; want %q", key, when, there, want)
		}
	}

	taken := first.Taking(later)
	if taken.API.Addr != "127.0.0.1:1" || taken.Model.MaxConcurrent != 0 || !strings.HasSuffix(taken.Kanban.Root, "/a") || taken.Compression.Threshold != 0.7 || taken.Kanban.MaxInProgress != 9 || taken.Model.APIKey.Reveal() != "two" {
		t.Errorf("taken: %+v %+v", taken.API, taken.Kanban)
	}
	if _, there := taken.Kanban.Lanes["old"]; there || len(taken.Kanban.Lanes) != 1 {
		t.Errorf("lanes: %v", taken.Kanban.Lanes)
	}
	if again := taken.Changes(later); len(again) != 3 {
		t.Errorf("what still differs: %+v", again)
	}
	if first.Compression.Threshold != 0.5 || len(first.Kanban.Lanes) != 1 || first.Origins["compression.threshold"].Value != "0.5" {
		t.Error("the first reading was changed")
	}
}
