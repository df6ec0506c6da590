package main

import (
	"fmt"
	"strings"

	"gatewayd/config"
	"gatewayd/internal/mutation"
)

// decideWindow says how much the model holds and who says so. No server is asked for it: a start does not wait for one.
func (d *daemon) decideWindow() {
	about := d.describeModel()
	if about.Offline {
		return
	}
	tokens, why := d.gateway.ModelWindow()
	if about.ContextLength == 0 {
		why += "; the server is asked at the first message"
	}
	d.decide("model's window", fmt.Sprintf("%d tokens", tokens), why)
}

// decideOff says in one line what this daemon does not do, and which setting says so.
func (d *daemon) decideOff(c config.Config) {
	var off []string
	for _, part := range []struct {
		off  bool
		what string
	}{
		{c.Tools.Terminal == "deny", "commands (tools.terminal)"},
		{c.Tools.Files == "deny", "writing files (tools.files)"},
		{d.describeModel().Offline, "the model (model.base_url)"},
		{!c.Compression.Enabled, "compaction (compression.enabled)"},
		{!c.Kanban.Dispatch, "the dispatcher (kanban.dispatch)"},
		{!c.Kanban.Notify.Enabled, "notifications (kanban.notify.enabled)"},
		{c.Backup.Every == 0, "backups (backup.every)"},
	} {
		if part.off && !mutation.On("banner-hides-what-is-off") {
			off = append(off, part.what)
		}
	}
	if len(off) == 0 {
		off = []string{"nothing"}
	}
	d.decide("switched off", strings.Join(off, ", "), "")
}
