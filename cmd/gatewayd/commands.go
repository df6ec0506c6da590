package main

import (
	"gatewayd/gateway/provider"
	"gatewayd/gateway/slash"
)

// commands are the slash commands of this daemon's conversations.
func (d *daemon) commands() *slash.Runner {
	return slash.New(slash.Options{
		Store: d.store, Gateway: d.gateway, Approvals: d.approvals, Background: d.tools, Model: d.describeModel, Models: d.named,
		ResetBreaker: d.resetBreaker, SystemPrompt: d.config.Agent.SystemPrompt,
	})
}

// resetBreaker lets the configured model be asked at once, and the one of that name.
func (d *daemon) resetBreaker(name string) {
	provider.Reset(d.model())
	if name == "" || name == d.describeModel().Name {
		return
	}
	if model, err := d.named(name); err == nil {
		provider.Reset(model)
	}
}
