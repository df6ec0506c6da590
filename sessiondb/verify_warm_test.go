package sessiondb

import (
	"testing"
)

// A reader that has looked into an index before it was merged does not take the new segments for damage.
func TestVerifyOnAWarmReaderSeesNoDamageInAnIndexThatChanged(t *testing.T) {
	s, _ := testStore(t)
	exchanges(40)(t, s)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "before", verified(t, s, VerifyOptions{Deep: true}).Findings, nil)
	search(t, s, Query{Text: "asked"})
	write(t, s, `INSERT INTO messages_fts(messages_fts) VALUES('optimize')`)
	fillSession(t, s, "more", 40, 90)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, s, `INSERT INTO messages_fts(messages_fts) VALUES('optimize')`)
	write(t, s, `INSERT INTO messages_tri(messages_tri) VALUES('optimize')`)
	equal(t, "after", verified(t, s, VerifyOptions{Deep: true}).Findings, nil)
}
