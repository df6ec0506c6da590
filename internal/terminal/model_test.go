package terminal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
)

// painter counts paints and keeps the last one.
type painter struct {
	paints int
	last   string
}

func (p *painter) Write(b []byte) (int, error) {
	p.paints++
	p.last = string(b)
	return len(b), nil
}

// A program that types, or a paste that the terminal does not mark, comes as thousands of keys: they share paints, and all are there.
func TestKeysThatComeTogetherShareAPaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &painter{}
		m := &model{Terminal: &Terminal{inputs: newQueue()}, editor: newEditor(&History{}, Palette{}), prompt: "> ", screen: screen{out: out, width: 80, height: 24}}
		defer m.inputs.close()
		press := func(text string) {
			for _, r := range text {
				m.Update(tea.KeyPressMsg{Text: string(r), Code: r})
			}
		}
		time.Sleep(paintRest)
		press("a")
		if out.paints != 1 || !strings.Contains(out.last, "> a") {
			t.Errorf("a single key is painted at once: %d paints, %q", out.paints, out.last)
		}
		text := strings.Repeat("words and ", 200)
		press(text)
		if out.paints != 1 {
			t.Errorf("%d keys of one moment cost %d paints", len(text), out.paints-1)
		}
		time.Sleep(paintRest)
		m.Update(rested{})
		if out.paints != 2 || m.ahead != "" || m.editor.area.Value() != "a"+text || !strings.Contains(out.last, "words and") {
			t.Errorf("%d paints, the line has %d characters", out.paints, len(m.editor.area.Value()))
		}
	})
}
