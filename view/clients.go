package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// ClientCalls counts the calls of one client and how many of them failed. Its JSON
// form is a part of `status --json`.
type ClientCalls struct {
	ClientID string `json:"client_id"`
	Calls    int    `json:"calls"` // calls that have ended or were skipped
	Failed   int    `json:"failed"`
	// LastFailure is the newest failed call; null if none failed.
	LastFailure *ClientFailure `json:"last_failure"`
}

// A ClientFailure is one failed call. Reason holds words of this program, never
// text that the client printed.
type ClientFailure struct {
	Event        lifeloop.Event        `json:"event"`
	At           time.Time             `json:"at"`
	FailureClass lifeloop.FailureClass `json:"failure_class"`
	Reason       string                `json:"reason"`
}

// Text describes the calls in a sentence for people.
func (c ClientCalls) Text() string {
	if c.LastFailure == nil {
		return fmt.Sprintf("%d of %d calls failed", c.Failed, c.Calls)
	}
	return fmt.Sprintf("%d of %d calls failed; the last, %s: %s", c.Failed, c.Calls, c.LastFailure.Event, c.LastFailure.Reason)
}

// Clients counts each client's calls and the failed ones. Its zero value is ready for
// use.
//
// A call has failed if the client gave no valid answer in time, answered that it
// failed, or sent a required payload that was not delivered. A call that the client
// never received counts as failed only if its receipt has the class timeout. A call
// without an answer when the wrapper dies is not counted as failed. A refused session has
// no calls.
type Clients struct {
	all  []ClientCalls // sorted by id
	open map[string]*openCall
}

// An openCall is a call that has not ended.
type openCall struct {
	client   string
	event    lifeloop.Event
	answered bool
	failure  ClientFailure // the failure that the facts have shown so far; zero if none
}

// All lists the clients with at least one counted call, sorted by id.
func (c *Clients) All() []ClientCalls {
	if c.all == nil {
		return []ClientCalls{}
	}
	return c.all
}

// Failing lists the clients with at least one failed call, sorted by id.
func (c *Clients) Failing() []ClientCalls {
	return slices.DeleteFunc(slices.Clone(c.all), func(one ClientCalls) bool { return one.Failed == 0 })
}

// Apply adds one fact.
func (c *Clients) Apply(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.Observed:
		for _, ref := range f.Calls {
			if c.open == nil {
				c.open = map[string]*openCall{}
			}
			delete(c.open, ref.Replaces) // a later receipt for skipped events counts the replaced call
			c.open[ref.Call] = &openCall{client: ref.Client, event: f.Record.Event}
		}
	case kernel.Answered:
		if k := c.open[f.Call]; k != nil {
			k.answer(f)
		}
	case kernel.PayloadSettled:
		if k := c.open[f.Call]; k != nil && f.Failure != "" {
			k.failure.Reason = cmp.Or(f.Why, classText(f.Failure))
		}
	case kernel.ReceiptIssued:
		if f.Skipped != nil {
			c.of(f.Receipt.ClientID).Calls += f.Skipped.Events
			return
		}
		c.over(f.Call, f.Receipt.FailureClass, e.At)
	case kernel.CallOver:
		c.over(f.Call, nil, e.At)
	}
}

// answer records the answer of a call.
func (k *openCall) answer(f kernel.Answered) {
	k.answered = true
	switch {
	case f.Failure == "":
	case f.Status == lifeloop.Failed:
		k.failure = ClientFailure{FailureClass: f.Failure, Reason: "the client answered that it failed: " + classText(f.Failure)}
	default:
		k.failure = ClientFailure{FailureClass: f.Failure, Reason: classText(f.Failure)}
		if len(f.Warnings) > 0 {
			k.failure.Reason = f.Warnings[0]
		}
	}
}

// over counts a call that has ended, with the failure class of its receipt.
func (c *Clients) over(call string, class *lifeloop.FailureClass, at time.Time) {
	k := c.open[call]
	if k == nil {
		return
	}
	delete(c.open, call)
	one := c.of(k.client)
	one.Calls++
	f := k.failure
	switch {
	case class != nil && k.answered:
		f.FailureClass = *class
	case class != nil && *class == lifeloop.Timeout:
		f.FailureClass, f.Reason = *class, "the session ended before the client was free"
	case class != nil, f.FailureClass == "":
		return
	}
	f.Event, f.At, f.Reason = k.event, at, cmp.Or(f.Reason, classText(f.FailureClass))
	one.Failed++
	one.LastFailure = &f
}

// of returns the entry of a client, and adds it if it is missing.
func (c *Clients) of(client string) *ClientCalls {
	i := slices.IndexFunc(c.all, func(one ClientCalls) bool { return one.ClientID >= client })
	switch {
	case i < 0:
		i = len(c.all)
		c.all = append(c.all, ClientCalls{ClientID: client})
	case c.all[i].ClientID != client:
		c.all = slices.Insert(c.all, i, ClientCalls{ClientID: client})
	}
	return &c.all[i]
}

// classText describes a failure class in words.
func classText(class lifeloop.FailureClass) string {
	return strings.ReplaceAll(string(class), "_", " ")
}
