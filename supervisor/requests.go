package supervisor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"lifeloop/control"
	"lifeloop/instructions"
	"lifeloop/kernel/input"
	"lifeloop/telemetry"
)

// This file reads the events of a plugin, and serves a harness that asks the wrapper for
// payloads before each request to its model. This question does not name its session and
// turn. The plugin's events name both, but these events arrive on another goroutine.

// eventTime is how long a question waits for the events before it. The harness has
// sent them, but they may arrive late on a busy machine.
const eventTime = 2500 * time.Millisecond

// clientTime is how long before its deadline a question stops waiting for its events and
// its session, so that its clients can still answer. If less than twice clientTime is
// left at the start, the clients get half of the time that is left.
const clientTime = time.Second

// pluginSource is the name of a plugin's stream in signals.
const pluginSource = "plugin"

// questions puts the events and the questions of one launch into one order.
type questions struct {
	mu      sync.Mutex // guards the fields below; held while signals are posted
	decoder telemetry.Requests
	changed chan struct{} // closed and replaced at each record and at the end of a stream
	peer    int           // pid of the process that streams; 0 before it connected
	// streams are peer's streams that have not ended, oldest first.
	streams []*control.Stream
	missing bool // it was reported that no stream was connected in time for a question
	missed  int  // the number of unknown records in the last report
	// replies has the channel for the reply to each request that waits, by the id of the
	// request.
	replies map[string]chan telemetry.PluginReply
}

func newQuestions(d telemetry.Requests) *questions {
	return &questions{decoder: d, changed: make(chan struct{}), replies: map[string]chan telemetry.PluginReply{}}
}

// Follow reads the stream of a plugin that was injected into the running launch.
// Another program that the harness started may have inherited the plugin; its
// stream is not read.
func (s *supervisor) Follow(_ context.Context, in control.Stream) {
	l := s.current.Load()
	if l == nil || l.questions == nil || !l.plan.own(in.Key, in.PID) || !l.questions.connect(&in) {
		s.countForeign("a plugin's stream", in.Event)
		return
	}
	s.found(l)
	for record := range in.Records {
		s.streamed(l, record)
	}
	q := l.questions
	q.mu.Lock()
	defer q.mu.Unlock()
	s.postSignals(l, q.decoder.End())
	s.postMissed(l, true)
	q.streams = slices.DeleteFunc(q.streams, func(other *control.Stream) bool { return other == &in })
	if len(q.streams) == 0 {
		q.hangUp()
	}
	q.news()
}

// connect reports whether to read a process's stream. Only streams of the first
// process that connects are read.
func (q *questions) connect(in *control.Stream) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.peer == 0 {
		q.peer = in.PID
	}
	if q.peer != in.PID {
		return false
	}
	q.streams = append(q.streams, in)
	return true
}

// found reports that the plugin's stream has connected, if that stream was reported as
// missing.
func (s *supervisor) found(l *launched) {
	q := l.questions
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.missing {
		q.missing = false
		s.postOf(l.number, input.SourceTrouble{Source: pluginSource, What: input.TroubleRecovered})
	}
}

// news wakes all goroutines that wait for a change. Callers hold the lock.
func (q *questions) news() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// drained waits until all streams were read to their end, or eventTime has passed.
func (q *questions) drained(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	for {
		q.mu.Lock()
		open, changed := len(q.streams), q.changed
		q.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// streamed decodes one record.
func (s *supervisor) streamed(l *launched, record []byte) {
	q := l.questions
	q.mu.Lock()
	defer q.mu.Unlock()
	if resetter, can := q.decoder.(telemetry.Resetter); can && l.plan.Resets {
		if reply, is := resetter.Reply(record); is {
			s.replied(l, reply)
			return
		}
	}
	s.postSignals(l, q.decoder.Decode(record))
	s.postMissed(l, false)
	q.news()
}

func (s *supervisor) postSignals(l *launched, signals []telemetry.Signal) {
	if len(signals) > 0 {
		s.postOf(l.number, input.SignalsSeen{Signals: signals})
	}
}

// postMissed posts how many records of each type were unknown: at the end, and each time
// the number of unknown records has doubled. The caller holds the lock.
func (s *supervisor) postMissed(l *launched, atEnd bool) {
	q := l.questions
	if n := q.decoder.Missed(); n > q.missed && (atEnd || n >= 2*q.missed) {
		q.missed = n
		s.postOf(l.number, input.UnknownSeen{Source: pluginSource, Types: q.decoder.Unknown()})
	}
}

// question posts the hook calls for one question of the harness, and answers the
// question with the payloads that these calls get.
func (s *supervisor) question(ctx context.Context, l *launched, reading caller) {
	deadline := time.Now().Add(s.o.HookTime - hookMargin)
	calls := s.asked(ctx, l, deadline)
	var texts []string
	var carry []string
	open := true
	for _, c := range calls {
		defer c.done()
		if !open {
			continue
		}
		select {
		case a := <-c.answered:
			if a.carries {
				texts, carry = append(texts, string(a.render(l.plan))), append(carry, c.id)
			}
		case <-reading.Gone():
			open = false
		case <-ctx.Done():
			open = false
		}
	}
	delivered := open && reading.Answer([]byte(strings.Join(texts, "\n")))
	for _, c := range calls {
		if !open || slices.Contains(carry, c.id) {
			s.post(input.HookClosed{Hook: c.id, Delivered: delivered})
		}
	}
}

// prompted returns the only harness session that got a prompt in this launch; empty if
// no source shows which session that is.
func prompted(ctx context.Context, sources Sources) string {
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	if p, ok := sources.(interface {
		Prompted(ctx context.Context) string
	}); ok {
		return p.Prompted(ctx)
	}
	return ""
}

// asked posts the hook calls for a question, as soon as the events before the question
// were read, or eventTime has passed. If the calls lack a session, asked first looks for
// the session in the sources. It keeps the lock meanwhile, so that no later event is posted
// before the calls. The sources do not need the lock.
func (s *supervisor) asked(ctx context.Context, l *launched, deadline time.Time) (calls []pending) {
	q := l.questions
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-min(clientTime, time.Until(deadline)/2)))
	defer cancel()
	late := time.NewTimer(eventTime)
	defer late.Stop()
	for isLate := false; ; {
		q.mu.Lock()
		request, ok := q.decoder.Request(isLate)
		if ok {
			if isLate && q.peer == 0 && !q.missing {
				q.missing = true
				s.postOf(l.number, input.SourceTrouble{Source: pluginSource, What: input.TroubleUnreadable})
			}
			session := ""
			if slices.ContainsFunc(request.Calls, func(call telemetry.HookCall) bool { return call.Session == "" }) {
				session = prompted(ctx, l.plan.Sources)
			}
			for _, call := range request.Calls {
				if call.Session == "" {
					call.BelongsTo(session)
				}
				calls = append(calls, s.postHook(l, call, deadline))
			}
			s.postSignals(l, request.Then)
			q.mu.Unlock()
			return calls
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-late.C:
			isLate = true
		case <-ctx.Done():
			isLate = true
		}
	}
}

// An Asking server receives the questions of one launch. *instructions.Server is one.
type Asking interface {
	Serve(ctx context.Context, pid int, handle func(ctx context.Context, r *instructions.Reading), foreign func()) error
}

// serveQuestions answers the questions of a launch until its sources end.
func (s *supervisor) serveQuestions(ctx context.Context, l *launched) {
	pid := l.child.PID()
	s.wg.Go(func() {
		err := l.plan.Asking.Serve(ctx, pid, func(ctx context.Context, r *instructions.Reading) { s.question(ctx, l, r) },
			func() { s.countForeign("a request for the instructions", "instructions") })
		if err != nil {
			s.postOf(l.number, input.SourceTrouble{Source: "hooks", What: input.TroubleStopped})
			s.o.Log.Error().Err(err).Msg("cannot answer the harness's requests")
		}
	})
}
