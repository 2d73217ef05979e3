//go:build linux

package harness

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		name, keys  string
		begun, kept bool
	}{
		{name: "text", keys: "a", begun: true},
		{name: "text that was sent", keys: "abc\r"},
		{name: "text in two bytes", keys: "\xc3\xa4", begun: true},
		{name: "a backslash before Enter", keys: "a\\\r", begun: true},
		{name: "and then sent", keys: "a\\\rb\r"},
		{name: "Alt-Enter", keys: "\x1b\r", begun: true},
		{name: "Ctrl-J", keys: "\n", begun: true},
		{name: "a paste with a line end", keys: "\x1b[200~a\rb\x1b[201~", begun: true},
		{name: "a paste that was sent", keys: "\x1b[200~a\rb\x1b[201~\r"},
		{name: "up, into the history", keys: "\x1b[A", begun: true},
		{name: "up, the other form", keys: "\x1bOA", begun: true},
		{name: "left and home", keys: "\x1b[D\x1b[H\x1b[1~"},
		{name: "focus", keys: "\x1b[I\x1b[O"},
		{name: "a mouse", keys: "\x1b[<0;10;10M\x1b[<0;10;10m"},
		{name: "an old mouse", keys: "\x1b[M !!"},
		{name: "answers of a terminal", keys: "\x1b[?62;c\x1b[3;1R\x1b]11;rgb:0/0/0\x1b\\\x1b]10;rgb:f/f/f\x07\x1bP1$r0m\x1b\\\x1b[?31u"},
		{name: "a key of the kitty protocol", keys: "\x1b[97;1:1u\x1b[97;1:3u", begun: true},
		{name: "Enter of the kitty protocol", keys: "a\x1b[13u"},
		{name: "Shift-Enter of the kitty protocol", keys: "\x1b[13;2u", begun: true},
		{name: "Esc of the kitty protocol", keys: "\x1b[27u"},
		{name: "two Esc", keys: "\x1b\x1b[B", begun: true},
		{name: "an earlier prompt that was chosen", keys: "\x1b\x1b[A\r", begun: true},
		{name: "and sent", keys: "\x1b\x1b[A\r\r"},
		{name: "two Esc of the kitty protocol", keys: "\x1b[27u\x1b[27u\r", begun: true},
		{name: "two Esc, not one after another", keys: "\x1b[27u\x1b[97ua\r\x1b[27u"},
		{name: "a line that the user put aside", keys: "a\x13", begun: true, kept: true},
		{name: "it comes back with Enter", keys: "a\x13b\r", begun: true},
		{name: "and is sent", keys: "a\x13b\r\r"},
		{name: "Ctrl-C and Ctrl-U", keys: "\x03\x15"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l line
			at := time.Unix(0, 0)
			for _, b := range []byte(c.keys) { // one key at a time, as a person types
				at = at.Add(100 * time.Millisecond)
				l.feed([]byte{b}, at)
			}
			require.Equal(t, c.begun, l.begun)
			require.Equal(t, c.kept, l.kept)
			require.Equal(t, lineGround, l.state)
		})
	}
}

// After three or more keys that came very fast, only an Enter after a pause sends the
// line. Without the pause, the harness may take the keys and the Enter for a paste.
func TestLineThatCameAtOnce(t *testing.T) {
	at := time.Unix(0, 0)
	later := func(d time.Duration) time.Time { return at.Add(d) }
	for _, c := range []struct {
		name, text string
		enter      time.Duration // after the text
		begun      bool
	}{
		{"with the text", "abc\r", 0, true},
		{"right after it", "abc", burstEnter - 1, true},
		{"a moment later", "abc", burstEnter, false},
		{"after two keys", "ab", 0, false},
		{"after a bracketed paste", "\x1b[200~abc\x1b[201~", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l line
			l.feed([]byte(c.text), at)
			if c.text[len(c.text)-1] != '\r' {
				l.feed([]byte{'\r'}, later(c.enter))
			}
			require.Equal(t, c.begun, l.begun)
			l.feed([]byte{'\r'}, later(time.Second))
			require.False(t, l.begun)
		})
	}
}

// An Enter may be a part of a paste. If a prompt begins after such an Enter, the Enter has
// sent the line. This is not certain if the user has pressed a key after the Enter.
func TestLineThatBecameAPrompt(t *testing.T) {
	at := time.Unix(0, 0)
	for _, c := range []struct {
		name, keys, then string
		begun            bool
	}{
		{name: "sent", keys: "abc\r"},
		{name: "in doubt again", keys: "abc\rabc\r"},
		{name: "a key since", keys: "abc\r", then: "d", begun: true},
		{name: "an arrow since", keys: "abc\r", then: "\x1b[A", begun: true},
		{name: "a key of the kitty protocol since", keys: "abc\r", then: "\x1b[97u", begun: true},
		{name: "the focus since", keys: "abc\r", then: "\x1b[I"},
		{name: "no Enter", keys: "abc", begun: true},
		{name: "a line that was put aside", keys: "a\x13bcd\r", begun: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l line
			l.feed([]byte(c.keys), at)
			l.feed([]byte(c.then), at.Add(time.Second))
			require.True(t, l.begun)
			l.taken()
			require.Equal(t, c.begun, l.begun)
			require.False(t, l.kept)
			if !c.begun {
				require.Equal(t, at, l.sent)
			}
		})
	}
}

// While the wrapper types its keys, the keys of the user wait. They are typed afterwards, in
// their order.
func TestType(t *testing.T) {
	d := newDesk(t)
	term := d.terminal(t)
	spec := sh(`stty raw -echo; printf ready; exec cat`)
	spec.Line = true
	rec := &recorder{}
	c := begin(t, spec, term, rec)
	d.shows(t, "ready")
	keys := Typing{Strokes: []Stroke{{Keys: "/clear", Then: time.Second}, {Keys: "\r"}}}

	d.key(t, "ab")
	d.shows(t, "readyab")
	eventually(t, "the line is reported", func() bool { return slices.Equal(rec.snapshot().begun, []bool{true}) })
	_, err := c.Type(context.Background(), keys)
	require.ErrorIs(t, err, ErrLine)

	keys.Aside = []Stroke{{Keys: "\x1f"}}
	typed := make(chan error, 1)
	go func() {
		done, err := c.Type(context.Background(), keys)
		if done != (Typed{Strokes: 2, Aside: true}) {
			t.Error("the line was not put aside")
		}
		typed <- err
	}()
	d.shows(t, "/clear")
	d.key(t, "cd")
	d.key(t, "ef")
	require.NoError(t, <-typed)
	d.shows(t, "readyab\x1f/clear\rcdef")
	time.Sleep(2 * burstEnter) // the waiting keys came together; an Enter right after them may belong to a paste
	d.key(t, "\r")
	d.shows(t, "readyab\x1f/clear\rcdef\r")
	eventually(t, "the sent line is reported", func() bool { return slices.Equal(rec.snapshot().begun, []bool{true, false}) })
	_, err = c.Type(context.Background(), keys)
	require.ErrorIs(t, err, ErrLine, "a line was sent just now")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	eventually(t, "the typing is stopped", func() bool {
		_, err := c.Type(ctx, keys)
		return errors.Is(err, ErrTyping)
	})
	back := Typing{Strokes: []Stroke{{Keys: "\x7f"}}, Follows: true}
	_, err = c.Type(context.Background(), back)
	require.NoError(t, err)
	d.key(t, "x")
	d.shows(t, "readyab\x1f/clear\rcdef\r\x7fx")
	_, err = c.Type(context.Background(), back)
	require.ErrorIs(t, err, ErrLine, "the keys would remove what the user has typed since")

	require.NoError(t, c.KillTree())
	c.Wait()
	_, err = c.Type(context.Background(), keys)
	require.ErrorIs(t, err, ErrTyping)
}

// After a stroke that the child must show, Type waits until the child has shown the stroke.
// If the child does not show the stroke, nothing more is typed.
func TestTypeWaitsForWhatIsShown(t *testing.T) {
	d := newDesk(t)
	spec := sh(`stty raw -echo; printf ready; head -c 6; sleep 0.1; printf '> /cl'; sleep 0.1; printf ear; exec cat`)
	spec.Line = true
	c := begin(t, spec, d.terminal(t), &recorder{})
	d.shows(t, "ready")
	keys := Typing{Strokes: []Stroke{{Keys: "/clear", Shows: "> /clear"}, {Keys: "\r"}}}
	done, err := c.Type(context.Background(), keys)
	require.NoError(t, err)
	require.Equal(t, 2, done.Strokes)
	d.shows(t, "ready/clear> /clear\r")

	keys.Patience = 200 * time.Millisecond
	done, err = c.Type(context.Background(), keys)
	require.ErrorIs(t, err, errNotShown)
	require.Equal(t, 1, done.Strokes, "no Enter")
	require.NoError(t, c.KillTree())
	c.Wait()
}

// A hidden cursor means that a dialog is open. While a dialog is open, Type types nothing.
// If a dialog opens while Type is typing, Type stops.
func TestTypeStopsBeforeADialog(t *testing.T) {
	d := newDesk(t)
	spec := sh(`stty raw -echo; printf 'ready\033[?25l'; head -c 1 >/dev/null; printf '\033[?25l\033[?25h'; head -c 6; printf '\033[?25l'; exec cat`)
	spec.Line, spec.Cursor = true, true
	rec := &recorder{}
	c := begin(t, spec, d.terminal(t), rec)
	eventually(t, "the dialog is reported", func() bool { return slices.Equal(rec.snapshot().begun, []bool{true}) })
	keys := Typing{Strokes: []Stroke{{Keys: "/clear", Then: 300 * time.Millisecond}, {Keys: "\r"}}}
	_, err := c.Type(context.Background(), keys)
	require.ErrorIs(t, err, ErrLine)

	d.key(t, "y") // answers the dialog, so it begins no line
	eventually(t, "the end of the dialog is reported", func() bool { return slices.Equal(rec.snapshot().begun, []bool{true, false}) })
	done, err := c.Type(context.Background(), keys)
	require.ErrorIs(t, err, errDialog)
	require.Equal(t, 1, done.Strokes, "no Enter")
	_, err = c.Type(context.Background(), Typing{Strokes: []Stroke{{Keys: "\x7f"}}, Follows: true})
	require.ErrorIs(t, err, ErrLine, "the dialog would get the keys")
	require.NoError(t, c.KillTree())
	c.Wait()
}

// The expected text is found even if the output comes in pieces.
func TestExpected(t *testing.T) {
	for _, text := range []string{"\x1b[1m› /cle › /clear  clear it", "/clear\x1b[K /clear\x1b[31G\x1b[1mclear\x1b[37Git", "/clear\r\nclear\tit\r\n\r\n"} {
		for n := range 12 {
			e := &expected{words: "/clear clear it", came: make(chan struct{})}
			for part := range slices.Chunk([]byte(text), n+1) {
				e.read(part)
			}
			<-e.came
			e.read([]byte(text))
		}
	}
	e := &expected{words: "/clear clear it", came: make(chan struct{})}
	e.read([]byte("/clear clear all /clearclear it /clear it"))
	require.False(t, e.seen)
}
