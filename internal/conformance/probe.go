package conformance

import (
	"bytes"
	"context"
	"strings"
	"time"

	"lifeloop/lifeloop"
)

// withMember adds an unknown member after the first occurrence of a text.
func withMember(doc []byte, after string) []byte {
	return bytes.Replace(doc, []byte(after), []byte(after+`"x_lifeloop_test":[1,{"two":null}],`), 1)
}

// choose finds the modes that the client supports. A persistent client answers
// each line while its stdin is open; a oneshot client may wait for the end of
// its stdin.
func (k *kit) choose(ctx context.Context) error {
	if k.cfg.Mode != "" {
		for _, mode := range []string{Oneshot, Persistent} {
			m := Mode{Mode: mode, Tested: mode == k.cfg.Mode}
			if !m.Tested {
				m.Why = "not asked for"
			}
			k.Modes = append(k.Modes, m)
		}
		return nil
	}
	doc := encoded(stepSample, Sample(lifeloop.FrameOpening))
	began := time.Now()
	p, err := k.start(ctx)
	if err != nil {
		return err
	}
	p.writeAll(doc.text)
	oneshot := p.ended(began.Add(k.cfg.Timeout)) && p.status() == ""
	p.close()
	oneshot = oneshot && len(judge(p.stdout.all(), lifeloop.Version)) == 0
	wait := k.cfg.Timeout
	if oneshot { // time.Since(began) is roughly the time that the client needs to start and answer
		wait = min(wait, max(time.Second, 4*time.Since(began)))
	}

	if p, err = k.start(ctx); err != nil {
		return err
	}
	p.write(append(doc.text, '\n'))
	line, persistent := p.nextLine(time.Now().Add(wait))
	p.close()
	persistent = persistent && len(judge(line, lifeloop.Version)) == 0
	oneshot = oneshot || !persistent // a client that supports neither mode is tested in the default mode
	k.Modes = []Mode{{Mode: Oneshot, Tested: oneshot}, {Mode: Persistent, Tested: persistent}}
	if !oneshot {
		k.Modes[0].Why = "given one document, the client prints no valid answer or does not exit with 0 in time"
	}
	if !persistent {
		k.Modes[1].Why = "the client prints no valid answer while its stdin is open"
	}
	return ctx.Err()
}

// call adds a call to the report and judges its answer. It reports whether the
// answer is valid.
func (k *kit) call(mode string, d document, began time.Time, body, stderr []byte, failure string) bool {
	event := d.envelope.Request.Event
	c := Call{Mode: mode, Step: d.step, Event: event, EventID: d.envelope.Request.EventID,
		DurationMS: time.Since(began).Milliseconds(), Failure: failure}
	if failure == "" {
		c.Answer = asJSON(body)
		breaks := judge(body, d.envelope.Request.SchemaVersion)
		for _, b := range breaks {
			c.Failure = b.found
			if d.step == stepUnknown && !k.violated(mode, b.rule) {
				b = broken{unknownName, "given an envelope with unknown members: " + b.found}
			}
			k.violate(mode, d.step, event, b.rule, stderr, "%s", b.found)
		}
	}
	k.Calls = append(k.Calls, c)
	return c.Failure == ""
}

// blame returns the rule that a failure breaks: r, or the rule about unknown members.
// The latter applies if d has unknown members and r was not violated before in the mode.
func (k *kit) blame(mode string, d document, r rule) rule {
	if d.step == stepUnknown && !k.violated(mode, r) {
		return unknownName
	}
	return r
}

// sendOneshot runs the client once for each document.
func (k *kit) sendOneshot(ctx context.Context, docs []document) error {
	for _, d := range docs {
		if ctx.Err() != nil || k.givenUp(Oneshot) {
			break
		}
		event, began := d.envelope.Request.Event, time.Now()
		p, err := k.start(ctx)
		if err != nil {
			return err
		}
		p.writeAll(d.text)
		over := p.ended(began.Add(k.cfg.Timeout))
		printed := p.stdout.all() // read now, because output after the time limit does not count as an answer in time
		left := p.close()
		failure, stderr := "", p.stderr.all()
		switch {
		case !over && len(judge(printed, lifeloop.Version)) == 0:
			k.timeouts[Oneshot]++
			failure = "answered, and did not exit within " + k.cfg.Timeout.String()
			k.violate(Oneshot, d.step, event, k.blame(Oneshot, d, staysAlive), stderr, "it %s", failure)
		case p.stdout.full():
			failure = "printed more than 1 MiB"
			k.violate(Oneshot, d.step, event, k.blame(Oneshot, d, tooLarge), stderr, "it %s", failure)
		case !over:
			k.timeouts[Oneshot]++
			failure = "no answer within " + k.cfg.Timeout.String()
			k.violate(Oneshot, d.step, event, k.blame(Oneshot, d, noAnswer), stderr, "%s", failure)
		case p.status() != "":
			failure = p.status()
			k.violate(Oneshot, d.step, event, k.blame(Oneshot, d, exitStatus), stderr, "%s", failure)
		}
		if over && len(left) > 0 {
			k.violate(Oneshot, d.step, event, leftBehind, stderr, "left running after the client ended: %s", strings.Join(left, "; "))
		}
		k.call(Oneshot, d, began, p.stdout.all(), stderr, failure)
	}
	return nil
}

// A conversation is one persistent client and its answers.
type conversation struct {
	*kit
	p       *process
	answers [][]byte // the valid answers; ids[i] is the id of the event of answers[i]
	ids     []string
	extra   bool
}

// sendPersistent sends the documents as lines to one process; after a failure
// it starts a new process for the rest.
func (k *kit) sendPersistent(ctx context.Context, docs []document) error {
	c := &conversation{kit: k}
	for _, d := range docs {
		if ctx.Err() != nil || k.givenUp(Persistent) {
			break
		}
		if err := c.exchange(ctx, d); err != nil {
			return err
		}
	}
	c.end()
	c.checkOrder()
	return nil
}

// exchange sends one document and waits for the line that answers the document.
func (c *conversation) exchange(ctx context.Context, d document) error {
	event, began := d.envelope.Request.Event, time.Now()
	for {
		fresh := c.p == nil
		if fresh {
			p, err := c.start(ctx)
			if err != nil {
				return err
			}
			c.p = p
		} else if line, ok := c.p.stdout.line(); ok {
			c.sayMore(d, line)
		}
		c.p.write(append(bytes.Clone(d.text), '\n'))
		line, ok := c.p.nextLine(began.Add(c.cfg.Timeout))
		if ok {
			if c.call(Persistent, d, began, line, c.p.stderr.all(), "") {
				c.answers, c.ids = append(c.answers, line), append(c.ids, d.envelope.Request.EventID)
			}
			return nil
		}
		stderr, failure := c.p.stderr.all(), ""
		select {
		case <-c.p.stdout.over:
			c.p.ended(began.Add(c.cfg.Timeout))
		default:
		}
		switch ended := c.p.ended(time.Now()); {
		case ended && c.p.status() == "" && !fresh && len(c.p.stdout.all()) == 0:
			c.drop() // the client exited between two events, which is allowed
			continue
		case c.p.stdout.full():
			failure = "printed more than 1 MiB"
			c.violate(Persistent, d.step, event, c.blame(Persistent, d, tooLarge), stderr, "it %s", failure)
		case ended:
			failure = strings.TrimSuffix("ended without an answer, "+c.p.status(), ", ")
			c.violate(Persistent, d.step, event, c.blame(Persistent, d, endedEarly), stderr, "it %s", failure)
		default:
			c.timeouts[Persistent]++
			failure = "no line within " + c.cfg.Timeout.String()
			c.violate(Persistent, d.step, event, c.blame(Persistent, d, noAnswer), stderr, "%s", failure)
		}
		c.call(Persistent, d, began, nil, stderr, failure)
		c.drop()
		return nil
	}
}

// sayMore records that the client printed more than its answer to an
// envelope.
func (c *conversation) sayMore(d document, line []byte) {
	c.extra = true
	c.violate(Persistent, d.step, d.envelope.Request.Event, extraOutput, c.p.stderr.all(), "more output after the answer: %s", shown(line))
}

// drop ends the process. The next exchange starts another one.
func (c *conversation) drop() {
	c.p.close()
	c.p = nil
}

// end closes the client's stdin and waits for its exit.
func (c *conversation) end() {
	if c.p == nil {
		return
	}
	const step = "the end of stdin"
	c.p.stdin.Close()
	over := c.p.ended(time.Now().Add(max(c.cfg.Timeout, time.Second)))
	left := c.p.close()
	stderr := c.p.stderr.all()
	switch {
	case !over:
		c.violate(Persistent, step, "", staysAtEnd, stderr, "the client was still running %v after the end of its stdin", max(c.cfg.Timeout, time.Second))
	case len(left) > 0:
		c.violate(Persistent, step, "", leftBehind, stderr, "left running after the client ended: %s", strings.Join(left, "; "))
	}
	if more := bytes.TrimSpace(c.p.stdout.all()); len(more) > 0 {
		c.extra = true
		c.violate(Persistent, step, "", extraOutput, stderr, "more output after the answer: %s", shown(more))
	}
}

// checkOrder finds a client whose answers are one event late. An answer need not
// name its event. But if some answers name the previous event and none names its
// own event, each answer belongs to the previous event.
func (c *conversation) checkOrder() {
	behind, own := 0, 0
	for i, answer := range c.answers {
		if i > 0 && bytes.Contains(answer, []byte(c.ids[i-1])) {
			behind++
		}
		if bytes.Contains(answer, []byte(c.ids[i])) {
			own++
		}
	}
	if behind > 1 && own == 0 && !c.extra {
		c.violate(Persistent, stepSample, "", wrongOrder, nil, "%d answers name the previous event, and none names its own", behind)
	}
}
