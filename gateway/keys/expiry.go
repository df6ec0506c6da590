package keys

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gatewayd/internal/problem"
)

// longUnits are those that time.ParseDuration has not, because days differ in length; a key's may.
var longUnits = map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

// ParseExpiry reads how long a key is to live: 12h, 90d, 52w. An empty text is for ever.
func ParseExpiry(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	for unit, length := range longUnits {
		if number, is := strings.CutSuffix(text, unit); is {
			var n int64
			if n, err = strconv.ParseInt(number, 10, 32); err == nil {
				d = min(time.Duration(n), ExpiresMost/length+1) * length
			}
		}
	}
	if err != nil || d <= 0 || d > ExpiresMost {
		return 0, &problem.Error{
			Kind: problem.Invalid, Field: "expires", Thing: fmt.Sprintf("%.40q", text), What: "is no time for which a key can live", Fate: "no key was made",
			Remedy: "write 12h, 90d or 52w, ten years at most",
		}
	}
	return d, nil
}
