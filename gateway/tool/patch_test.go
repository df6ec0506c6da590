package tool

import (
	"strings"
	"testing"
)

func TestAPatchIsExactOrNothing(t *testing.T) {
	const text = "one\ntwo\nthree\ntwo\nfive\n"
	for name, c := range map[string]struct {
		text  string
		args  patchArgs
		want  string
		error string
	}{
		"one place":          {text, patchArgs{edit: edit{Old: "three", New: "3"}}, "one\ntwo\n3\ntwo\nfive\n", ""},
		"every place":        {text, patchArgs{edit: edit{Old: "two", New: "2", ReplaceAll: true}}, "one\n2\nthree\n2\nfive\n", ""},
		"several in order":   {text, patchArgs{Edits: []edit{{Old: "one\ntwo", New: "eins\nzwei"}, {Old: "zwei\nthree", New: "zwei\ndrei"}}}, "eins\nzwei\ndrei\ntwo\nfive\n", ""},
		"deletion":           {text, patchArgs{edit: edit{Old: "three\n"}}, "one\ntwo\ntwo\nfive\n", ""},
		"ambiguous":          {text, patchArgs{edit: edit{Old: "two", New: "2"}}, "", "2 times (lines 2, 4)"},
		"overlapping":        {"ababa", patchArgs{edit: edit{Old: "aba", New: "x"}}, "", "2 times (lines 1, 1)"},
		"missing":            {text, patchArgs{edit: edit{Old: "Three", New: "3"}}, "", "old is not in the file"},
		"other spaces":       {text, patchArgs{edit: edit{Old: "three\n\ttwo", New: "3"}}, "", "its first line is in line 3"},
		"second fails":       {text, patchArgs{Edits: []edit{{Old: "one", New: "1"}, {Old: "six", New: "6"}}}, "", "edit 2: old is not in the file"},
		"empty old":          {text, patchArgs{edit: edit{New: "x"}}, "", "old is empty"},
		"nothing":            {text, patchArgs{}, "", "nothing to change"},
		"both":               {text, patchArgs{edit: edit{Old: "one"}, Diff: "x"}, "", "not both"},
		"binary":             {"a\x00b", patchArgs{edit: edit{Old: "a", New: "b"}}, "", "binary"},
		"windows line ends":  {"a\r\nb\r\n", patchArgs{edit: edit{Old: "a\nb", New: "c\nd\ne"}}, "c\r\nd\r\ne\r\n", ""},
		"mixed ends":         {"a\r\nb\n", patchArgs{edit: edit{Old: "a\nb", New: "c"}}, "", "not in the file"},
		"diff":               {text, patchArgs{Diff: "--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n@@ -5 +6 @@\n-five\n+5\n"}, "one\n2\n2.5\nthree\ntwo\n5\n", ""},
		"diff with git":      {text, patchArgs{Diff: "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -5 +5 @@ func\n-five\n+5"}, "one\ntwo\nthree\ntwo\n5\n", ""},
		"wrong line, unique": {text, patchArgs{Diff: "@@ -9,2 +9,1 @@\n three\n-two\n"}, "one\ntwo\nthree\nfive\n", ""},
		"wrong line, two":    {text, patchArgs{Diff: "@@ -9 +9 @@\n-two\n+2\n"}, "", "2 times and none of them at that line"},
		"right line of two":  {text, patchArgs{Diff: "@@ -4 +4 @@\n-two\n+2\n"}, "one\ntwo\nthree\n2\nfive\n", ""},
		"other context":      {text, patchArgs{Diff: "@@ -1,2 +1,2 @@\n uno\n-two\n+2\n"}, "", "not in the file as they are written"},
		"second hunk fails":  {text, patchArgs{Diff: "@@ -1 +1 @@\n-one\n+1\n@@ -3 +3 @@\n-drei\n+3\n"}, "", "hunk 2"},
		"hunks go forward":   {text, patchArgs{Diff: "@@ -5 +5 @@\n-five\n+5\n@@ -1 +1 @@\n-one\n+1\n"}, "", "hunk 2"},
		"only added":         {text, patchArgs{Diff: "@@ -2,0 +3,1 @@\n+2.5\n"}, "one\ntwo\n2.5\nthree\ntwo\nfive\n", ""},
		"into an empty file": {"", patchArgs{Diff: "@@ -0,0 +1,2 @@\n+a\n+b\n"}, "a\nb\n", ""},
		"two files":          {text, patchArgs{Diff: "--- a\n+++ a\n@@ -1 +1 @@\n-one\n+1\n--- b\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"}, "", "more than one file"},
		"no hunks":           {text, patchArgs{Diff: "just words"}, "", "no hunks"},
		"removed dashes":     {"-- x\ny\n", patchArgs{Diff: "@@ -1,2 +1 @@\n--- x\n y\n"}, "y\n", ""},
		"no end said":        {"a\nb", patchArgs{Diff: "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"}, "a\nc", ""},
		"end added":          {"a\nb", patchArgs{Diff: "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n"}, "a\nb\n", ""},
		"no end, unsaid":     {"a\nb", patchArgs{Diff: "@@ -1,2 +1,2 @@\n-a\n+c\n b\n"}, "c\nb", ""},
		"windows diff":       {"a\r\nb\r\n", patchArgs{Diff: "@@ -1 +1 @@\n-a\n+c\n"}, "c\r\nb\r\n", ""},
		"empty context line": {"a\n\nb\n", patchArgs{Diff: "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n"}, "a\n\nc\n", ""},
		"strange line":       {text, patchArgs{Diff: "@@ -1 +1 @@\n-one\n*** End Patch\n"}, "", "begins with a space"},
	} {
		c.args.Path = "x"
		got, report, err := c.args.apply(c.text)
		switch {
		case c.error != "" && (err == nil || !strings.Contains(err.Error(), c.error)):
			t.Errorf("%s: want an error that says %q, got %v and %q", name, c.error, err, got)
		case c.error == "" && (err != nil || got != c.want || report == ""):
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
}

func FuzzAPatchNeverLosesALineItDoesNotName(f *testing.F) {
	f.Add("a\nb\nc\n", "@@ -2 +2 @@\n-b\n+x\n")
	f.Add("", "@@ -0,0 +1 @@\n+x")
	f.Fuzz(func(t *testing.T, text, diff string) {
		got, _, err := applyDiff(text, diff, "x")
		if err != nil {
			return
		}
		hunks, _ := parseDiff(diff)
		removed, added := 0, 0
		for _, h := range hunks {
			removed, added = removed+len(h.old), added+len(h.new)
		}
		if before, after := len(split(text)), len(split(got)); text != "" && got != "" && after < before-removed {
			t.Errorf("%d lines became %d; %d were named and %d came", before, after, removed, added)
		}
	})
}
