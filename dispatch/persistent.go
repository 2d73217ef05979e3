package dispatch

import (
	"bytes"
	"context"
	"runtime"
	"syscall"
	"time"

	"lifeloop/lifeloop"
)

// CloseGrace is the time that Close gives a [Persistent] client to exit after
// the end of its stdin.
const CloseGrace = 250 * time.Millisecond

// A Persistent client is one process for many calls. It reads each envelope as
// a line on stdin and answers with a line on stdout, in order.
//
// A line carries no id, so a late or an extra line could be mistaken for the
// answer to the next envelope. Whenever that could happen, the process is killed
// with its group, and the next call starts a new one: after a failed call, after
// a line that is not a callback response, after extra output, and after an answer that
// came before the whole envelope was written. A process that has ended between two calls
// is replaced too, which is not a failure.
//
// It is safe for concurrent use; calls wait for one another.
type Persistent struct {
	cfg  Config
	turn chan struct{} // contains a token during a call or Close

	// Owned by the goroutine that put the token into turn.
	client  *process
	release func() // unlocks the thread that started client
	closed  bool
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

// Call sends env, which must be one line, to the client and returns the line of
// its answer. Every error is a [*Failure]. The time-out includes the wait for
// another call and the start of the client.
func (p *Persistent) Call(ctx context.Context, env []byte) (Answer, error) {
	began := time.Now()
	deadline := began.Add(p.cfg.Timeout)
	body, f := p.inTurn(ctx, deadline, env)
	return result(began, body, f)
}

func (p *Persistent) inTurn(ctx context.Context, deadline time.Time, env []byte) ([]byte, *Failure) {
	if ctx.Err() != nil {
		return nil, p.cfg.canceled(ctx)
	}
	if bytes.IndexByte(env, '\n') >= 0 {
		return nil, p.cfg.fail(lifeloop.InvalidRequest, "the envelope has more than one line", nil)
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

// wait blocks until the turn is free and takes it.
func (p *Persistent) wait(ctx context.Context, deadline time.Time) *Failure {
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return p.cfg.canceled(ctx)
	case <-late.C:
		return p.cfg.timedOut()
	}
}

func (p *Persistent) call(ctx context.Context, deadline time.Time, line []byte) ([]byte, *Failure) {
	if p.closed {
		return nil, p.cfg.fail(lifeloop.TransportError, "called after Close", nil)
	}
	if p.client != nil && !p.client.idle() {
		_, _ = p.end() // no call was running, so the exit status does not matter
	}
	if p.client != nil {
		p.client.sendLine(line)
	} else if err := p.start(line); err != nil {
		return nil, p.cfg.cannotStart(err)
	}

	c := p.client
	end := c.exchange(ctx, deadline, p.cfg.MaxAnswer)
	if end != answered {
		status, waitErr := p.end()
		if f := p.cfg.failure(ctx, c, end, status, waitErr); f != nil {
			return nil, f
		}
		f := p.cfg.fail(lifeloop.TransportError, "ended without an answer", nil)
		f.ExitCode = 0
		return nil, f
	}
	body, extra, _ := bytes.Cut(c.answer, newline)
	// The caller validates the answer. This check finds a line that is possibly the
	// answer to another call. The client is then replaced.
	if _, err := lifeloop.ParseCallbackResponse(body); err != nil || len(extra) > 0 || len(c.unsent) > 0 || c.stdin < 0 {
		_, _ = p.end()
	} else {
		p.cfg.saveStderr(c)
	}
	return body, nil
}

// start starts the client with its first line, from a thread of its own that lives
// as long as the client does: the client gets the parent-death signal when the
// thread that started it ends, and the thread of a call may end earlier.
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
	p.release = func() { close(over); <-released }
	if err != nil {
		p.release()
		return err
	}
	return nil
}

// end kills the client with its group and reaps it.
func (p *Persistent) end() (syscall.WaitStatus, error) {
	c := p.client
	status, err := p.cfg.finish(c)
	p.client = nil
	p.release()
	p.cfg.saveStderr(c)
	return status, err
}

// Close ends the client. It closes the client's stdin, waits up to [CloseGrace]
// for its exit, and then kills it; the rest of its group is killed in any case.
// Close waits for an open call. Calls after Close fail; closing again does
// nothing.
func (p *Persistent) Close() {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.closed = true
	if p.client == nil {
		return
	}
	p.client.shutDown()
	_, _ = p.end()
}
