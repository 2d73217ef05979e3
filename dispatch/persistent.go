package dispatch

import (
	"bytes"
	"context"
	"runtime"
	"syscall"
	"time"

	"lifeloop/lifeloop"
)

// CloseGrace is how long a [Persistent] client has from the end of its stdin
// to its own exit when it is closed.
const CloseGrace = 250 * time.Millisecond

// A Persistent client is one process for many calls. It gets each envelope as
// a line on stdin and answers each with a line on stdout, in order.
//
// A line carries no id, so that a late or unasked one could be taken for the
// answer to the next envelope. Whenever that could happen the process is
// killed with its group, and the next call starts a fresh one: after every
// failed call, after a line that is no callback response, and when there is
// more to read than was asked for. A process that has ended between two calls
// is replaced in the same way, without a failure: nobody was waiting.
//
// It is safe for concurrent use; calls wait for one another.
type Persistent struct {
	cfg Config
	// turn holds a token while somebody calls or closes. What follows is theirs.
	turn   chan struct{}
	client *process
	letGo  func() // ends the hold on the thread that started client
	closed bool
}

// NewPersistent checks cfg and fills in its defaults. The client is started by
// the first call.
func NewPersistent(cfg Config) (*Persistent, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Persistent{cfg: cfg, turn: make(chan struct{}, 1)}, nil
}

// Call hands env, which must stand on one line, to the client and returns the
// line it answers with. Every error is a [*Failure]. The time-out counts from
// here, whether Call waits for another one, for a start or for the answer.
func (p *Persistent) Call(ctx context.Context, env []byte) (Answer, error) {
	began := time.Now()
	deadline := began.Add(p.cfg.Timeout)
	body, f := p.inTurn(ctx, deadline, env)
	a := Answer{Body: body, Duration: time.Since(began)}
	if f != nil {
		a.ExitCode = f.ExitCode
		return a, f
	}
	return a, nil
}

func (p *Persistent) inTurn(ctx context.Context, deadline time.Time, env []byte) ([]byte, *Failure) {
	if ctx.Err() != nil {
		return nil, p.cfg.ended(ctx)
	}
	if bytes.IndexByte(env, '\n') >= 0 {
		return nil, p.cfg.fail(lifeloop.InvalidRequest, "the envelope is longer than a line", nil)
	}
	select {
	case p.turn <- struct{}{}:
	default:
		if f := p.wait(ctx, deadline); f != nil {
			return nil, f
		}
	}
	defer func() { <-p.turn }()
	return p.call(ctx, deadline, append(bytes.Clone(env), '\n'))
}

// wait takes the turn when it is free.
func (p *Persistent) wait(ctx context.Context, deadline time.Time) *Failure {
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return p.cfg.ended(ctx)
	case <-late.C:
		return p.cfg.tooSlow()
	}
}

func (p *Persistent) call(ctx context.Context, deadline time.Time, line []byte) ([]byte, *Failure) {
	if p.closed {
		return nil, p.cfg.fail(lifeloop.TransportError, "called after its end", nil)
	}
	if p.client != nil && !p.client.rests() {
		_, _ = p.end() // however it ended, it owed nobody an answer
	}
	if p.client != nil {
		p.client.ask(line)
	} else if err := p.start(line); err != nil {
		return nil, p.cfg.cannotStart(err)
	}

	c := p.client
	end := c.converse(ctx, deadline, p.cfg.MaxAnswer)
	if end != answered {
		status, waitErr := p.end()
		if f := p.cfg.failure(ctx, c, end, status, waitErr); f != nil {
			return nil, f
		}
		f := p.cfg.fail(lifeloop.TransportError, "ended without an answer", nil)
		f.ExitCode = 0
		return nil, f
	}
	body, unasked, _ := bytes.Cut(c.answer, newline)
	// What is wrong with an answer is for the caller to say. Here it only means
	// that the client may be a line ahead of us.
	if _, err := lifeloop.ParseCallbackResponse(body); err != nil || len(unasked) > 0 || len(c.unsent) > 0 || c.stdin < 0 {
		_, _ = p.end()
	} else {
		p.cfg.keepStderr(c)
	}
	return body, nil
}

// start starts the client with its first line, from a thread that stays for as
// long as the client does: its parent-death signal is tied to that thread, and
// the thread of a call goes back to where others may end it.
func (p *Persistent) start(line []byte) (err error) {
	started, over, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(released)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.client, err = p.cfg.start(line, true)
		close(started)
		<-over
	}()
	<-started
	p.letGo = func() { close(over); <-released }
	if err != nil {
		p.letGo()
		return err
	}
	if p.cfg.Started != nil {
		p.cfg.Started(p.client.pid)
	}
	return nil
}

// end kills the client with its group and reaps it.
func (p *Persistent) end() (syscall.WaitStatus, error) {
	c := p.client
	status, err := c.finish()
	p.client = nil
	p.letGo()
	if p.cfg.Ended != nil {
		p.cfg.Ended(c.pid)
	}
	p.cfg.keepStderr(c)
	return status, err
}

// Close ends the client: its stdin ends, it has [CloseGrace] to exit, then it
// is killed; what it leaves of its group is killed in any case. A call under
// way is waited for, as long as its time-out lets it; calls after Close fail.
// To close twice is to close once.
func (p *Persistent) Close() {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.closed = true
	if p.client == nil {
		return
	}
	p.client.leave()
	_, _ = p.end()
}
