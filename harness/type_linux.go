package harness

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// typing coordinates keys that the wrapper types with those of the user.
type typing struct {
	watches bool       // Spec.Line
	mu      sync.Mutex // guards line; held for a write of the user's keys, and for all strokes of Type
	line    line
	begun   atomic.Bool // line.begun, for report
}

// Type types keys as if the user did. The user's own keys wait meanwhile, and follow in
// their order. Aside is typed only if the user has begun a line; the result says whether
// it was. The error is ErrLine, or wraps ErrTyping if ctx or the child ended first.
func (c *Child) Type(ctx context.Context, t Typing) (aside bool, err error) {
	if c.ptmx == nil || c.input != c.ptmx || !c.typing.watches {
		return false, ErrTyping
	}
	c.typing.mu.Lock()
	defer c.typing.mu.Unlock()
	l := &c.typing.line
	if t.Follows && l.since || !t.Follows && (l.kept || l.begun && t.Aside == nil || time.Since(l.sent) < justSent) {
		return false, ErrLine
	}
	l.since = false
	strokes := t.Strokes
	if aside = l.begun && !t.Follows; aside {
		strokes = append(t.Aside[:len(t.Aside):len(t.Aside)], strokes...)
	}
	for _, s := range strokes {
		if ctx.Err() != nil || c.ended.Load() {
			return aside, ErrTyping
		}
		if _, err := c.input.Write([]byte(s.Keys)); err != nil {
			return aside, ErrTyping
		}
		pause := time.NewTimer(s.Then)
		select {
		case <-pause.C:
		case <-ctx.Done():
		case <-c.endCh:
		}
		pause.Stop()
	}
	return aside, nil
}

// forward notes the user's keys and writes them to the child.
func (c *Child) forward(keys []byte) (int, error) {
	c.typing.mu.Lock()
	defer c.typing.mu.Unlock()
	if c.typing.watches {
		l := &c.typing.line
		if l.feed(keys, time.Now()); l.begun != c.typing.begun.Load() {
			c.typing.begun.Store(l.begun)
			nudge(c.wake)
		}
	}
	return c.input.Write(keys)
}
