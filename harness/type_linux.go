package harness

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// typing keeps apart the keys that the wrapper types and the keys of the user.
type typing struct {
	watches bool       // Spec.Line
	cursor  bool       // Spec.Cursor
	mu      sync.Mutex // guards line; held for a write of the user's keys, and for all strokes of Type
	line    line
	begun   atomic.Bool // a copy of line.begun, for the method Child.report
	hidden  atomic.Bool // the child hides its cursor; always false if Spec.Cursor is false
	expects atomic.Pointer[expected]
}

// taken reports whether, as far as is known, the child's input line has text of the
// user or a dialog is open.
func (t *typing) taken() bool { return t.begun.Load() || t.hidden.Load() }

// Type types keys as if the user did. The user's own keys wait meanwhile, and follow in
// their order. If the user has begun a line and Typing.Follows is false, Type types
// Typing.Aside first; if Aside is nil, Type types nothing and returns [ErrLine]. ErrLine
// describes the other cases in which nothing is typed, such as an open dialog. If ctx or
// the child ends first, a dialog is opened, or the child does not show what was typed, the
// error wraps [ErrTyping].
func (c *Child) Type(ctx context.Context, t Typing) (done Typed, err error) {
	if c.ptmx == nil || c.input != c.ptmx || !c.typing.watches {
		return done, errNoLine
	}
	c.typing.mu.Lock()
	defer c.typing.mu.Unlock()
	l := &c.typing.line
	if c.typing.hidden.Load() || t.Follows && l.since || !t.Follows && (l.kept || l.begun && t.Aside == nil || time.Since(l.sent) < justSent) {
		return done, ErrLine
	}
	l.since = false
	if l.begun && !t.Follows {
		n, err := c.strokes(ctx, t.Aside, t.Patience)
		if done.Aside = n > 0; err != nil {
			return done, err
		}
	}
	done.Strokes, err = c.strokes(ctx, t.Strokes, t.Patience)
	return done, err
}

// strokes types the given strokes, and returns how many of them were written.
func (c *Child) strokes(ctx context.Context, all []Stroke, patience time.Duration) (written int, err error) {
	for _, s := range all {
		switch {
		case ctx.Err() != nil || c.ended.Load():
			return written, ErrTyping
		case c.typing.hidden.Load():
			return written, errDialog
		}
		shows := &expected{words: s.Shows, came: make(chan struct{})}
		if s.Shows != "" {
			c.typing.expects.Store(shows)
		}
		if _, err := c.input.Write([]byte(s.Keys)); err != nil {
			return written, ErrTyping
		}
		written++
		if s.Shows != "" {
			shown := c.pause(ctx, cmp.Or(patience, showTime), shows.came)
			switch c.typing.expects.Store(nil); {
			case ctx.Err() != nil || c.ended.Load():
				return written, ErrTyping
			case !shown:
				return written, errNotShown
			}
		}
		c.pause(ctx, s.Then, nil)
	}
	return written, nil
}

// pause waits until the channel enough is closed, the time t is over, ctx is done or
// the child ends. It returns true only in the first of these cases.
func (c *Child) pause(ctx context.Context, t time.Duration, enough <-chan struct{}) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-enough:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-c.endCh:
	}
	return false
}

// forward notes the user's keys and writes them to the child.
func (c *Child) forward(keys []byte) (int, error) {
	c.typing.mu.Lock()
	defer c.typing.mu.Unlock()
	if c.typing.watches {
		l := &c.typing.line
		if c.typing.hidden.Load() {
			l.answer(keys, time.Now())
		} else {
			l.feed(keys, time.Now())
		}
		c.noteLine()
	}
	return c.input.Write(keys)
}

// LineTaken is called when the child has taken a line of the user as a prompt. An Enter
// that may be a part of a paste is not counted as the end of the line at first. If such
// an Enter is the newest key, LineTaken counts that Enter as the end of the line.
func (c *Child) LineTaken() {
	if !c.typing.mu.TryLock() { // while keys are written, LineTaken does nothing
		return
	}
	defer c.typing.mu.Unlock()
	c.typing.line.taken()
	c.noteLine()
}

// noteLine copies line.begun to begun. If begun changes, noteLine wakes the method report,
// which passes the new value to the sink.
func (c *Child) noteLine() {
	if begun := c.typing.line.begun; begun != c.typing.begun.Load() {
		c.typing.begun.Store(begun)
		nudge(c.wake)
	}
}

// read searches a pty's output b for the text that Type waits for. cursor says whether
// the cursor is visible after b. If t.hidden changes, read wakes the reader of wake.
func (t *typing) read(b []byte, cursor bool, wake chan<- struct{}) {
	if e := t.expects.Load(); e != nil {
		e.read(b)
	}
	if hidden := t.cursor && !cursor; hidden != t.hidden.Load() {
		t.hidden.Store(hidden)
		nudge(wake)
	}
}
