package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// bind sets the parameters of a statement in order. Only plain types are taken, so that what lies in a file never
// depends on how a Go type happens to print: a time or a duration must be turned into its integer by the caller.
func bind(s *sqlite3.Stmt, args []any) error {
	if want := s.BindCount(); want != len(args) {
		return fmt.Errorf("bind arguments: statement wants %d, got %d", want, len(args))
	}
	for i, arg := range args {
		if err := bindOne(s, i+1, arg); err != nil {
			return fmt.Errorf("bind argument %d: %w", i+1, err)
		}
	}
	return nil
}

func bindOne(s *sqlite3.Stmt, at int, arg any) error {
	switch v := arg.(type) {
	case nil:
		return s.BindNull(at)
	case string:
		return s.BindText(at, v)
	case int64:
		return s.BindInt64(at, v)
	case int:
		return s.BindInt64(at, int64(v))
	case bool:
		return s.BindBool(at, v)
	case float64:
		return s.BindFloat(at, v)
	case []byte:
		return s.BindBlob(at, v)
	case *string:
		return bindPointer(s, at, v, s.BindText)
	case *int64:
		return bindPointer(s, at, v, s.BindInt64)
	case *int:
		return bindPointer(s, at, v, s.BindInt)
	}
	return fmt.Errorf("type %T is not one of the plain types", arg)
}

func bindPointer[T any](s *sqlite3.Stmt, at int, v *T, set func(int, T) error) error {
	if v == nil {
		return s.BindNull(at)
	}
	return set(at, *v)
}
