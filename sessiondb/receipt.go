package sessiondb

import (
	"fmt"
	"strconv"
	"strings"
)

// Receipt is the acknowledgement of a turn: whoever holds it can have proved later, from the rows alone, that what they were told of
// is what is stored. Digest is of the rows of the turn up to Row; see digestRows.
type Receipt struct {
	Session, Turn string
	Row           int64  // the newest row that it covers
	Digest        string // sha-256:HEX
}

// String is the receipt as it stands in a header: session=ID; turn=ID; row=N; digest=sha-256:HEX.
func (r Receipt) String() string {
	return fmt.Sprintf("session=%s; turn=%s; row=%d; digest=%s", r.Session, r.Turn, r.Row, r.Digest)
}

// ParseReceipt reads what String writes, in any order and with any spaces.
func ParseReceipt(text string) (Receipt, error) {
	var r Receipt
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "session":
			r.Session = value
		case "turn":
			r.Turn = value
		case "row":
			r.Row, _ = strconv.ParseInt(value, 10, 64)
		case "digest":
			r.Digest = value
		default:
			return r, errInvalid("receipt", "has a part %q; session, turn, row and digest are known", name)
		}
	}
	if r.Session == "" || r.Turn == "" || r.Row <= 0 || !strings.HasPrefix(r.Digest, receiptAlgorithm) {
		return r, errInvalid("receipt", "is not whole; it is session=ID; turn=ID; row=N; digest=sha-256:HEX")
	}
	return r, nil
}

const receiptAlgorithm = "sha-256:"
