package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestAnAnswerThatCannotBeWrittenIsNoSuccess(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here: a full disk behind standard output is NOT tested:", err)
	}
	defer full.Close()
	var said bytes.Buffer
	code := execute(t.Context(), []string{"version"}, stdio{in: strings.NewReader(""), out: full, err: &said, environ: []string{"HOME=" + t.TempDir()}})
	if code != exitFailed || !strings.Contains(said.String(), "no space left") {
		t.Errorf("exit %d, %q", code, said.String())
	}
}
