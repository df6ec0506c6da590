// Package hermeshome brings what a directory of Hermes, the Python original, holds into a home of gatewayd: boards, settings, keys and
// conversations. It owns the report of that.
//
// What it promises: the directory is only read. Everything that is found in it is in the report exactly once, as imported, already there,
// skipped, refused or failed, each with its reason; what was not reached when something broke is failed, never silent. Nothing of the home
// is overwritten. Done again, after a kill at any moment or a year later, it brings what is still missing and nothing twice. No secret is
// in a report, an error or a log. How rows come over is the business of the packages that own them (sessiondb, kanban).
package hermeshome
