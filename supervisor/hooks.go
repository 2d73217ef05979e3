package supervisor

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lifeloop/control"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// An answer is what a waiting hook gets. Carries says that it is not empty, so
// that its delivery is reported.
type answer struct {
	event   string
	context lifeloop.Opaque
	carries bool
}

// render is the answer in the harness's own format; nil when it is empty.
func (a answer) render(answer func(event, context string) []byte) []byte {
	if !a.carries {
		return nil
	}
	return answer(a.event, a.context.Reveal())
}

// requests are the hooks and commands that wait for an answer of the kernel.
type requests struct {
	last atomic.Uint64 // the number of the newest

	mu    sync.Mutex // guards the maps: goroutines of the door add, the loop answers
	hooks map[string]chan answer
	asks  map[string]chan kernel.Reply
}

func newRequests() requests {
	return requests{hooks: map[string]chan answer{}, asks: map[string]chan kernel.Reply{}}
}

// newID numbers the requests of one run.
func (r *requests) newID(prefix string) string {
	return prefix + strconv.FormatUint(r.last.Add(1), 10)
}

// await registers a request in one of the maps, until the caller calls done.
func await[A any](r *requests, in map[string]chan A, id string) (answered <-chan A, done func()) {
	c := make(chan A, 1) // a request is answered once, so the loop never waits
	r.mu.Lock()
	in[id] = c
	r.mu.Unlock()
	return c, func() {
		r.mu.Lock()
		delete(in, id)
		r.mu.Unlock()
	}
}

// waiting is where the answer to a request goes; nil when it no longer waits.
func waiting[A any](r *requests, in map[string]chan A, id string) chan<- A {
	r.mu.Lock()
	defer r.mu.Unlock()
	return in[id]
}

// releaseHooks answers every waiting hook with nothing.
func (r *requests) releaseHooks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.hooks {
		select {
		case c <- answer{}:
		default: // it has an answer already
		}
	}
}

// A caller is the peer of one hook call. *control.HookCall is one.
type caller interface {
	Answer(out []byte) (delivered bool)
	Gone() <-chan struct{}
}

// Hook serves one hook call, on the goroutine of its connection. It returns when
// the hook is over.
func (s *supervisor) Hook(ctx context.Context, call *control.HookCall) {
	s.hook(ctx, call.Event, call.Input, call.OneWay, call)
}

// hook serves a call; the caller of a report waits for no answer.
func (s *supervisor) hook(ctx context.Context, event string, input []byte, report bool, call caller) {
	l := s.current.Load()
	if l == nil {
		call.Answer(nil) // nothing was launched yet, so the caller is not our harness
		return
	}
	decoded, err := l.plan.DecodeHook(event, input)
	if err != nil {
		s.o.Log.Warn().Err(err).Str("event", event).Msg("decode a hook's input")
		call.Answer(nil)
		return
	}
	if report {
		s.postOf(l.number, kernel.SignalsSeen{Signals: decoded.Signals})
		return
	}
	// The number of the launch is unique in the session, whichever wrapper runs it.
	id := s.requests.newID("hook_" + strconv.Itoa(l.number) + "_")
	answered, done := await(&s.requests, s.requests.hooks, id)
	defer done()
	s.postOf(l.number, kernel.HookCalled{Hook: id, Call: decoded, Deadline: time.Now().Add(s.o.HookTime - hookMargin)})
	select {
	case a := <-answered:
		delivered := call.Answer(a.render(l.plan.Answer))
		if a.carries {
			s.post(kernel.HookClosed{Hook: id, Delivered: delivered})
		}
	case <-call.Gone():
		s.post(kernel.HookClosed{Hook: id})
	case <-ctx.Done():
	}
}

func (s *supervisor) answerHook(e kernel.HookAnswer) {
	a := answer{event: e.Event, context: e.Context, carries: e.Context.Len() > 0}
	if c := waiting(&s.requests, s.requests.hooks, e.Hook); c != nil {
		c <- a
	} else if a.carries { // the harness closed the hook at this moment
		s.results = append(s.results, kernel.HookClosed{Hook: e.Hook})
	}
}
