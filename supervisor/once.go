package supervisor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"lifeloop/kernel"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Once reads what the sources of one session hold now, each from its start to
// its end. The clock is the time of the records, so the same files always give
// the same facts. Records of one source keep their order, unless the source has
// none; records of several sources are ordered by time.
//
// A store may hold several sessions one after another. Those in front of the
// requested one are skipped. Of the ports it uses Ledger, Clients and Signals: a
// signal, or the end of ctx, ends the reading and the calls under way. The error is
// the first one of reading, of the ledger or of listen.
//
// To resume a killed observation, k has replayed its ledger and past has the
// SourceRead facts of that. The records that were read are not observed again.
func Once(ctx context.Context, k *kernel.Kernel, sources []profiles.Source, past []kernel.Entry, p Ports, listen Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait() // after stop
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() {
		select {
		case <-p.Signals:
			stop()
		case <-ctx.Done():
		}
	})
	o := once{observing: observing{ctx: ctx, k: k, log: p.Ledger, clients: p.Clients, listen: listen}}
	if len(past) > 0 || !k.LastReplayed().IsZero() {
		o.second = k.Rehearsal()
	}
	if err := o.read(sources, readSources(past)); err != nil {
		return err
	}
	if p.Ledger != nil {
		if err := p.Ledger.Close(); err != nil {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
	}
	return nil
}

// read takes the records of all sources, and then what they leave behind.
func (o *once) read(sources []profiles.Source, past []*readSource) error {
	var heads []*head
	for _, s := range sources {
		h := &head{source: s.Name, unordered: s.Unordered}
		if h.past = find(past, s.Name, s.Path); h.past != nil {
			// That of a source without an order counts signals: it is no place in the file.
			last := watchers.Position(h.past.last)
			h.past.missed = s.Unordered && !last.SameFile() || !s.Unordered && last.Changed() != ""
		}
		h.next, h.stop = iter.Pull2(recorded(s))
		defer h.stop()
		if err := h.advance(); err != nil {
			return err
		}
		if h.in != nil && h.at.IsZero() {
			h.at = began(s)
		}
		heads = append(heads, h)
	}
	for h, foreign := earliest(heads, o.k.Foreign); h != nil && o.ctx.Err() == nil; h, foreign = earliest(heads, o.k.Foreign) {
		if foreign {
			h.at = h.before
		} else if err := o.take(h); err != nil {
			return err
		}
		if err := h.advance(); err != nil {
			return err
		}
	}
	if err := o.begin(o.clock); err != nil {
		return err
	}
	var rest []kernel.Input
	for _, u := range unknown(heads) {
		rest = append(rest, u)
	}
	for _, h := range heads {
		if h.past != nil && h.past.missed {
			rest = append(rest, kernel.SourceTrouble{Source: h.source, What: "missed"})
		}
		for _, t := range h.troubles {
			rest = append(rest, t)
		}
	}
	for _, in := range append(rest, kernel.SourcesDrained{}) {
		if err := o.step(in); err != nil {
			return err
		}
	}
	return nil
}

// began is the start of a source whose first records have no time: the time of
// its first record that has one. Without any it is 1970, which is recognizably
// unknown and does not depend on the file's own times.
func began(s profiles.Source) time.Time {
	for in, err := range recorded(s) {
		if err != nil {
			break
		}
		if seen, is := in.(kernel.SignalsSeen); is {
			for _, sig := range seen.Signals {
				if !sig.At.IsZero() {
					return sig.At
				}
			}
		}
	}
	return time.Unix(0, 0).UTC()
}

// unknown adds up the unknown records of each source.
func unknown(heads []*head) []kernel.UnknownSeen {
	var all []kernel.UnknownSeen
	for _, h := range heads {
		i := slices.IndexFunc(all, func(u kernel.UnknownSeen) bool { return u.Source == h.unknown.Source })
		switch {
		case h.unknown.Types == nil:
		case i < 0:
			all = append(all, h.unknown)
		default:
			for kind, n := range h.unknown.Types {
				all[i].Types[kind] += n
			}
		}
	}
	return all
}

// A once observes by the clock of the records.
type once struct {
	observing
	clock   time.Time
	started bool
	// second takes the records that a killed observation has read; nil for a new
	// one, and from the first other record on.
	second *kernel.Kernel
	taken  bool // second took one
}

func (o *once) step(in kernel.Input) error { return o.observing.step(o.clock, in) }

// take steps the input of a source at its time. The first one starts the session.
func (o *once) take(h *head) error {
	if h.known() {
		o.rehearse(h)
		return nil
	}
	if err := o.begin(h.at); err != nil {
		return err
	}
	if err := o.until(h.at); err != nil {
		return err
	}
	return o.step(h.fresh())
}

// begin starts the session, or continues one that was killed.
func (o *once) begin(at time.Time) error {
	switch {
	case o.started:
		return nil
	case o.second == nil:
		o.clock, o.started = at, true
		return o.step(kernel.Start{})
	}
	o.clock, o.started = o.k.LastReplayed(), true
	if o.taken {
		wakeUntil(o.second, o.clock.Add(1)) // what was due then was done
		o.k.Recall(o.second)
	}
	return o.step(kernel.Restarted{PID: os.Getpid()})
}

// rehearse lets the second kernel take what was observed before.
func (o *once) rehearse(h *head) {
	if o.started {
		return // the file of another source has grown
	}
	if !o.taken {
		o.taken = true
		o.second.Step(h.at, kernel.Start{})
	}
	wakeUntil(o.second, h.at)
	o.second.Step(h.at, h.in)
}

// until advances the clock to at, and wakes the kernel at each deadline before.
func (o *once) until(at time.Time) error {
	if !at.After(o.clock) {
		return nil
	}
	for due, ok := o.k.Deadline(); ok && due.Before(at); due, ok = o.k.Deadline() {
		o.clock = due
		if err := o.step(kernel.Wake{}); err != nil {
			return err
		}
	}
	o.clock = at
	return nil
}

// A head is the next input of one source and its time, which never decreases.
type head struct {
	next func() (kernel.Input, error, bool)
	stop func()
	in   kernel.Input // nil at the end
	at   time.Time

	before time.Time // the time of the input before in

	source string
	past   *readSource // how far it was read before; nil for a new one

	// Of an unordered source, the earliest of the next lookahead signals is next.
	unordered bool
	file      kernel.Position
	count     int64
	ahead     []telemetry.Signal
	ended     bool

	unknown  kernel.UnknownSeen // the last count, which includes the earlier ones
	troubles []kernel.SourceTrouble
}

// lookahead is larger than the number of records a harness writes at once.
const lookahead = 256

func (h *head) advance() error {
	h.in = nil
	if !h.unordered {
		seen, err := h.read()
		if err == nil && !h.ended {
			h.set(seen)
		}
		return err
	}
	for !h.ended && len(h.ahead) < lookahead {
		seen, err := h.read()
		if err != nil {
			return err
		}
		h.ahead = append(h.ahead, seen.Signals...)
		if seen.Position != nil {
			h.file = *seen.Position
		}
	}
	if len(h.ahead) == 0 {
		return nil
	}
	first := 0
	for i, s := range h.ahead {
		if !s.At.IsZero() && s.At.Before(h.ahead[first].At) {
			first = i
		}
	}
	// The order is that of the times, so a position counts signals.
	h.count++
	at := h.file
	at.Prefix, at.Offset = "", h.count
	h.set(kernel.SignalsSeen{Source: h.source, Signals: []telemetry.Signal{h.ahead[first]}, Position: &at})
	h.ahead = slices.Delete(h.ahead, first, first+1)
	return nil
}

// known reports whether the input was observed before a kill.
func (h *head) known() bool {
	in, ok := h.in.(kernel.SignalsSeen)
	return ok && h.past != nil && !h.past.missed && in.Position != nil && in.Position.Offset <= h.past.last.Offset
}

// fresh is the input without the signals that another file under the same path had.
func (h *head) fresh() kernel.Input {
	in, ok := h.in.(kernel.SignalsSeen)
	if !ok || h.past == nil || !h.past.missed {
		return h.in
	}
	in.Signals = slices.DeleteFunc(slices.Clone(in.Signals), func(s telemetry.Signal) bool { return !s.At.IsZero() && !s.At.After(h.past.newest) })
	return in
}

func (h *head) set(in kernel.SignalsSeen) {
	h.in, h.before = in, h.at
	// A record may complete a signal that an earlier one began.
	for _, s := range in.Signals {
		if s.At.After(h.at) {
			h.at = s.At
		}
	}
}

// read returns the signals of the next record. It does not wait for an unreadable
// file to recover, since only its present content counts.
func (h *head) read() (kernel.SignalsSeen, error) {
	for {
		in, err, ok := h.next()
		if err != nil || !ok {
			h.ended = true
			return kernel.SignalsSeen{}, err
		}
		switch in := in.(type) {
		case kernel.SignalsSeen:
			return in, nil
		case kernel.UnknownSeen:
			h.unknown = in
		case kernel.SourceTrouble:
			h.troubles = append(h.troubles, in)
		}
	}
}

// earliest returns the source with the next input. An input of another session
// comes first, whatever its time, because it is skipped.
func earliest(heads []*head, isForeign func(telemetry.Signal) bool) (best *head, foreign bool) {
	for _, h := range heads {
		if h.in == nil {
			continue
		}
		if in, ok := h.in.(kernel.SignalsSeen); ok && !slices.ContainsFunc(in.Signals, func(s telemetry.Signal) bool { return !isForeign(s) }) {
			return h, true
		}
		if best == nil || h.at.Before(best.at) {
			best = h
		}
	}
	return best, false
}

// recorded yields the inputs of a source from its start to its present end.
func recorded(s profiles.Source) iter.Seq2[kernel.Input, error] {
	return func(yield func(kernel.Input, error) bool) {
		err := readable(s.Path)
		if err != nil {
			yield(nil, err)
			return
		}
		files, err := NewFiles(Files{Fixed: []profiles.Source{s}})
		if err != nil {
			yield(nil, err)
			return
		}
		if d := files.databases[s.Path]; d != nil {
			if err := d.recorded(yield); err != nil {
				yield(nil, err)
			}
			return
		}
		files.Launched(0)
		now, cancel := context.WithCancel(context.Background())
		cancel() // what the source holds now is read all the same
		more := true
		err = files.Run(now, func(in kernel.Input) { more = more && yield(in, nil) })
		if err != nil && more {
			yield(nil, err)
		}
	}
}

// ErrNotReadable means that a path is not that of a regular file.
var ErrNotReadable = errors.New("not a regular file")

// readable returns an error for a file that cannot be read, before any event is
// emitted.
func readable(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %w", path, ErrNotReadable)
	}
	return err
}
