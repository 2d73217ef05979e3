package supervisor

import (
	"context"
	"crypto/subtle"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lifeloop/control"
	"lifeloop/internal/hook"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// An answer is the answer to a waiting hook. carries is set if the answer has text for
// the model or empties the harness's context. The kernel then gets a HookClosed, which
// says whether the answer was delivered.
type answer struct {
	event   string
	context lifeloop.Opaque
	carries bool
	clear   bool
	verdict *effect.HookVerdict // set for a hook that asks whether a tool may run
}

// clearReason is what the user reads in a harness that empties its context for a renewal.
const clearReason = "lifeloop-wrap renews the context"

// endTime is how long a hook at the end of a turn can wait for a renewal. It is less than
// the time limit of the hook program.
const endTime = 9500 * time.Millisecond

// render encodes the answer for the harness; nil if the answer is empty. A hook program
// that asks whether a tool may run takes an empty answer as a refusal.
func (a answer) render(p Plan) []byte {
	switch {
	case a.verdict != nil && a.verdict.Decision == telemetry.Allow:
		return []byte(hook.Pass)
	case a.verdict != nil && p.Refuse != nil:
		return p.Refuse(a.event, a.verdict.Decision, a.verdict.Reason)
	case a.clear && p.Clear != nil:
		return p.Clear(a.event, clearReason)
	case !a.carries:
		return nil
	}
	return p.Answer(a.event, a.context.Reveal())
}

// requests are the hooks and commands that wait for an answer of the kernel.
type requests struct {
	last    atomic.Uint64 // number of the newest request
	foreign atomic.Uint64 // number of hook calls, plugin streams and questions that do not belong to the launch

	mu    sync.Mutex // guards the maps, which the loop and the connections' goroutines use
	hooks map[string]chan answer
	asks  map[string]chan effect.Reply
}

func newRequests() requests {
	return requests{hooks: map[string]chan answer{}, asks: map[string]chan effect.Reply{}}
}

// newID returns a new id: the prefix and the number of the request.
func (r *requests) newID(prefix string) string {
	return prefix + strconv.FormatUint(r.last.Add(1), 10)
}

// await registers a request in one of the maps. The caller must call done to
// remove it.
func await[A any](r *requests, in map[string]chan A, id string) (answered <-chan A, done func()) {
	c := make(chan A, 1) // buffered for the only answer, so that the loop never waits for the request's goroutine
	r.mu.Lock()
	in[id] = c
	r.mu.Unlock()
	return c, func() {
		r.mu.Lock()
		delete(in, id)
		r.mu.Unlock()
	}
}

// waiting returns the channel for the answer to the request with this id. If that
// request no longer waits, waiting returns nil; a select never sends to a nil channel.
func waiting[A any](r *requests, in map[string]chan A, id string) chan<- A {
	r.mu.Lock()
	defer r.mu.Unlock()
	return in[id]
}

// releaseHooks gives every waiting hook an empty answer.
func (r *requests) releaseHooks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.hooks {
		select {
		case c <- answer{}:
		default: // the hook already has an answer
		}
	}
}

// A caller is the process at the other end of a hook call. *control.HookCall
// implements it.
type caller interface {
	Answer(out []byte) (delivered bool)
	Gone() <-chan struct{}
}

// Hook serves one hook call, on the goroutine of its connection. It returns when the
// call was answered or needs no answer, or when the session has ended.
func (s *supervisor) Hook(ctx context.Context, call *control.HookCall) { s.hook(ctx, call.Hook, call) }

// hook serves a call. A hook that was not injected into the running launch gets an
// empty answer, and so does a hook that another program below the harness has inherited:
// such a program must neither report a prompt nor receive a payload.
func (s *supervisor) hook(ctx context.Context, h control.Hook, call caller) {
	l := s.current.Load()
	if l == nil || !l.plan.own(h.Key, h.PID) {
		s.countForeign("a hook call", h.Event)
		call.Answer(nil)
		return
	}
	decoded, err := l.plan.DecodeHook(h.Event, h.Input)
	if err != nil {
		s.o.Log.Warn().Err(err).Str("event", h.Event).Msg("cannot decode a hook's input")
		call.Answer(nil)
		return
	}
	if h.OneWay {
		s.postOf(l.number, input.SignalsSeen{Signals: decoded.Signals})
		return
	}
	limit := s.o.HookTime
	if decoded.Use != nil {
		limit = max(limit, l.plan.ToolTime)
	}
	if decoded.Clears && l.plan.Clear != nil {
		limit = max(limit, endTime)
	}
	p := s.postHook(l, decoded, time.Now().Add(limit-hookMargin))
	defer p.done()
	select {
	case a := <-p.answered:
		delivered := call.Answer(a.render(l.plan))
		if a.carries {
			s.post(input.HookClosed{Hook: p.id, Delivered: delivered})
		}
	case <-call.Gone():
		s.post(input.HookClosed{Hook: p.id})
	case <-ctx.Done():
	}
}

// own reports whether a call with this key, from this process, belongs to the launch.
func (p Plan) own(key string, pid int) bool {
	return isSecret(p.Key, key) && (p.Callers == nil || p.Callers.Own(pid))
}

// isSecret reports whether a text equals the secret. It returns false if the secret is
// empty.
func isSecret(secret, text string) bool {
	return secret != "" && subtle.ConstantTimeCompare([]byte(text), []byte(secret)) == 1
}

// A pending is a posted hook call that waits for its answer. done must be called in
// the end.
type pending struct {
	id       string
	answered <-chan answer
	done     func()
}

// postHook posts a hook call of a launch.
func (s *supervisor) postHook(l *launched, call telemetry.HookCall, deadline time.Time) pending {
	// The number of the launch makes the id unique in the session: each wrapper that
	// continues the session counts its requests from 1.
	id := s.requests.newID("hook_" + strconv.Itoa(l.number) + "_")
	answered, done := await(&s.requests, s.requests.hooks, id)
	s.postOf(l.number, input.HookCalled{Hook: id, Call: call, Deadline: deadline})
	return pending{id, answered, done}
}

// countForeign counts a hook call, a plugin stream or a question that does not belong to
// the launch. The parameter what is the text for the log, such as "a hook call".
// countForeign records the number only if the number is a power of two, so that a loop of
// calls cannot fill the ledger.
func (s *supervisor) countForeign(what, event string) {
	n := s.requests.foreign.Add(1)
	if n&(n-1) != 0 {
		return
	}
	s.o.Log.Warn().Str("event", event).Uint64("ignored_so_far", n).Msg(what + " that does not belong to this launch was ignored")
	s.post(input.UnknownSeen{Source: "hook", Types: map[string]int{"foreign": int(n)}})
}

func (s *supervisor) answerHook(e effect.HookAnswer) {
	a := answer{event: e.Event, context: e.Context, carries: e.Context.Len() > 0 || e.Clear, clear: e.Clear, verdict: e.Verdict}
	select {
	case waiting(&s.requests, s.requests.hooks, e.Hook) <- a:
	default: // the hook no longer waits, or releaseHooks has already answered the hook
		if a.carries {
			s.results = append(s.results, input.HookClosed{Hook: e.Hook})
		}
	}
}
