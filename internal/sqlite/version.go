package sqlite

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
)

// versionPin stands in for the version of the linked SQLite in the journal decision. Only the linker of a test build
// sets it (-ldflags '-X gatewayd/internal/sqlite.versionPin=3.50.4'), so that whole programs are tried in rollback mode
// by the decision they really make; it is empty in every other build.
var versionPin string

// version is a release of SQLite: major, minor, patch.
type version [3]int

// The releases between which restarting the write-ahead log could lose a commit when two connections met there, and
// the branches that got the mend afterwards.
var (
	walBugBorn    = version{3, 7, 0}
	walBugMended  = version{3, 51, 3}
	walBugMendeds = []version{{3, 50, 7}, {3, 44, 6}}
)

// walResets reports whether WAL must not be entered with this release. One that cannot be read is taken for such a one.
func walResets(text string) bool {
	v, err := parseVersion(text)
	if err != nil {
		return true
	}
	if v.less(walBugBorn) || !v.less(walBugMended) {
		return false
	}
	for _, mended := range walBugMendeds {
		if v[0] == mended[0] && v[1] == mended[1] && !v.less(mended) {
			return false
		}
	}
	return true
}

// parseVersion reads "3.50.4"; a fourth number, as some branches carry, decides nothing.
func parseVersion(text string) (v version, err error) {
	parts := strings.Split(text, ".")
	if len(parts) < 3 || len(parts) > 4 {
		return v, fmt.Errorf("version %q is not of the form 3.50.4", text)
	}
	for i := range v {
		if v[i], err = strconv.Atoi(parts[i]); err != nil {
			return v, fmt.Errorf("version %q is not of the form 3.50.4", text)
		}
	}
	return v, nil
}

func (v version) less(w version) bool {
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

// library gives the version of the linked SQLite. It is asked once, of a database in memory: preparing any statement
// reads the schema, and of a file the journal mode must be probed before anything else.
func library() (string, error) {
	if versionPin != "" {
		return versionPin, nil
	}
	return linkedVersion()
}

var linkedVersion = sync.OnceValues(func() (text string, err error) {
	err = guard(func() error {
		db, err := sqlite3.Open(":memory:")
		if err != nil {
			return err
		}
		defer db.Close()
		s, _, err := db.Prepare("SELECT sqlite_version()")
		if err != nil {
			return err
		}
		defer s.Close()
		s.Step()
		text = s.ColumnText(0)
		return s.Err()
	})
	return text, err
})
