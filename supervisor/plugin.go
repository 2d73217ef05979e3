package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"

	"lifeloop/harness"
	"lifeloop/kernel/input"
	"lifeloop/telemetry"
)

// This file resets a harness in place: a plugin of ours in the running harness gets a
// request to begin a fresh session. Then the plugin puts the continuation (the text of
// the renewal) into that session. The replies are among the events on the plugin's stream:
//
//	reply to Fresh: a fresh session is on the screen ──► the reply's hook call is posted
//	answer to the hook: the continuation ──────────────► the plugin gets the request Place
//	reply to Place: the text is in the session ────────► the hook is closed as delivered
//
// No key is typed, and the payload leaves the wrapper only when the fresh session is
// on the screen. If a harness shows no session on a screen, its plugin reports the fresh
// session by a hook call before it replies. Such a plugin requests the continuation by a
// second hook call, when the next prompt is submitted.

const (
	// slotTime is how long the plugin's hook waits for the clients. It is short, because
	// the user already sees the fresh session, and may submit a prompt before the text
	// is in it.
	slotTime = 2 * time.Second
	// placeTime is how long the plugin may take to put a text into a session.
	placeTime = 5 * time.Second
)

var (
	// errReported means that the goroutine that reads the plugin's stream posts the
	// result, so that the result precedes all later events of the stream.
	errReported = errors.New("the result was reported")
	errNoPlugin = errors.New("no plugin is connected")
)

// A pluginError is the failure that a plugin reported.
type pluginError string

func (e pluginError) Error() string { return string(e) }

// request sends a request, on the newest stream that accepts it, and returns the channel
// for its reply. The channel is closed if the plugin's last stream ends before the reply.
// A Stop gets no reply.
func (q *questions) request(r telemetry.PluginRequest) (<-chan telemetry.PluginReply, error) {
	q.mu.Lock()
	resetter, can := q.decoder.(telemetry.Resetter)
	if len(q.streams) == 0 || !can {
		q.mu.Unlock()
		return nil, errNoPlugin
	}
	reply := make(chan telemetry.PluginReply, 1) // buffered, so that the sender of the only reply never waits
	if r.Op != telemetry.Stop {
		q.replies[r.ID] = reply
	}
	line, streams := resetter.Ask(r), slices.Clone(q.streams)
	q.mu.Unlock()
	for _, stream := range slices.Backward(streams) {
		if stream.Send(line) == nil {
			return reply, nil
		}
	}
	return nil, errNoPlugin // the errors of Send would not help the user
}

// hangUp ends all waits for replies, because the plugin's last stream has ended. Callers
// hold the lock.
func (q *questions) hangUp() {
	for id, reply := range q.replies {
		close(reply)
		delete(q.replies, id)
	}
}

// askFresh asks the plugin for a fresh session or, with undo, to give up that
// request. The error is errReported if the plugin has begun the session.
func (s *supervisor) askFresh(ctx context.Context, l *launched, renewal string, undo bool) error {
	stop := telemetry.PluginRequest{Op: telemetry.Stop, ID: renewal}
	if undo {
		_, err := l.questions.request(stop)
		return err
	}
	replied, err := l.questions.request(telemetry.PluginRequest{Op: telemetry.Fresh, ID: renewal})
	if err != nil {
		return err
	}
	select {
	case reply, came := <-replied:
		switch {
		case !came:
			return errNoPlugin
		case reply.Busy:
			return harness.ErrLine
		case reply.Failure != "":
			return pluginError(reply.Failure)
		}
		return errReported
	case <-ctx.Done():
		_, _ = l.questions.request(stop) // if the plugin is gone, it cannot begin a session
		return ctx.Err()
	}
}

// replied handles a reply. The caller holds the lock of the launch's questions.
func (s *supervisor) replied(l *launched, r telemetry.PluginReply) {
	q := l.questions
	if reply := q.replies[r.ID]; reply != nil {
		delete(q.replies, r.ID)
		reply <- r
	}
	if r.Op != telemetry.Fresh || r.Busy || r.Failure != "" {
		return
	}
	s.postSignals(l, r.Before)
	s.postOf(l.number, input.KeysTyped{Renewal: r.ID})
	if r.Call.Event == "" {
		return // the plugin has already reported the session by a hook call
	}
	p := s.postHook(l, r.Call, time.Now().Add(min(slotTime, s.o.HookTime-hookMargin)))
	s.wg.Go(func() {
		defer p.done()
		select {
		case a := <-p.answered:
			if a.carries {
				s.post(input.HookClosed{Hook: p.id, Delivered: s.place(l, p.id, r.Call.Session, string(a.render(l.plan)))})
			}
		case <-s.ctx.Done():
		}
	})
}

// place asks the plugin to put a text into a harness session, and reports whether
// it did.
func (s *supervisor) place(l *launched, id, session, text string) bool {
	reply, err := l.questions.request(telemetry.PluginRequest{Op: telemetry.Place, ID: id, Session: session, Text: text})
	if err != nil {
		return false
	}
	limit := time.NewTimer(placeTime)
	defer limit.Stop()
	select {
	case r, came := <-reply:
		return came && r.Failure == ""
	case <-limit.C:
	case <-s.ctx.Done():
	}
	return false
}
