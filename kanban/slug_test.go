package kanban

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func TestSlugIsOneRule(t *testing.T) {
	for in, want := range map[string]Slug{
		"default": "default", " Work ": "work", "A-b_9": "a-b_9", "0": "0", "\tX\n": "x", strings.Repeat("a", 64): Slug(strings.Repeat("a", 64)),
	} {
		if got, err := ParseSlug(in); err != nil || got != want {
			t.Errorf("ParseSlug(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", " ", "_archived", "-x", "a b", "a/b", "../x", "..", ".", "a.b", "a\x00b", "é", "İ", "\u212a", "a\nb", "а", // the last one is Cyrillic
		strings.Repeat("a", 65), `a\b`, "a:b", "~", "a%2fb",
	} {
		if got, err := ParseSlug(in); !problem.Is(err, problem.Invalid) {
			t.Errorf("ParseSlug(%q) = %q, %v; want it refused as invalid", in, got, err)
		}
	}
}

func TestSlugTitle(t *testing.T) {
	for in, want := range map[Slug]string{"my-big_board": "My Big Board", "x": "X", "a--b": "A B"} {
		if got := in.title(); got != want {
			t.Errorf("title of %s = %q, want %q", in, got, want)
		}
	}
}

func FuzzParseSlug(f *testing.F) {
	for _, s := range []string{"default", "../../etc", " A_b-C ", "_archived", "é", "a\x00", strings.Repeat("z", 65)} {
		f.Add(s)
	}
	rule := regexp.MustCompile(`\A[a-z0-9][a-z0-9\-_]{0,63}\z`)
	f.Fuzz(func(t *testing.T, in string) {
		slug, err := ParseSlug(in)
		if err != nil {
			if slug != "" {
				t.Errorf("ParseSlug(%q) refused and answered %q", in, slug)
			}
			return
		}
		if !rule.MatchString(string(slug)) {
			t.Errorf("ParseSlug(%q) = %q, which the rule does not allow", in, slug)
		}
		if again, err := ParseSlug(string(slug)); err != nil || again != slug {
			t.Errorf("ParseSlug is not stable on %q: %q, %v", slug, again, err)
		}
		if !filepath.IsLocal(boardDir(slug)) || filepath.Base(boardDir(slug)) != string(slug) {
			t.Errorf("board directory of %q is %q", slug, boardDir(slug))
		}
	})
}
