package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
	"lifeloop/watchers/sqlite"
)

// Once reads the present content of a session's sources, each from its start to
// its end. The clock is the time in the records, so the same files always give
// the same facts. Records of one source keep their order, unless the source is
// unordered; records of several sources are ordered by time.
//
// A source may contain several harness sessions one after another; those before the
// requested one are skipped. Of the ports, Once uses Ledger, Clients and Signals: a
// signal, or the end of ctx, ends the reading and the open calls. Once returns the
// first error of reading, the ledger or listen.
//
// To resume a killed observation, k must have replayed the facts of past. Records
// that the killed observation had handled are not observed again. If only some
// facts of the last record were written, Once writes the missing ones.
func Once(ctx context.Context, k *kernel.Kernel, sources []profiles.Source, past *Past, p Ports, listen Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait() // runs after the deferred stop
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
	var read []*readSource
	if past != nil {
		o.second, o.past, read = k.Rehearsal(), past, past.sources
	}
	if err := o.read(sources, read); err != nil {
		return err
	}
	if p.Ledger != nil {
		if err := p.Ledger.Close(); err != nil {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
	}
	return nil
}

// read takes the records of all sources, and then reports their unknown records and
// troubles.
func (o *once) read(sources []profiles.Source, past []*readSource) error {
	var heads []*head
	for _, s := range sources {
		h, err := newHead(s, past, o.log != nil)
		if err != nil {
			return err
		}
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
		} else if err := o.take(h, heads); err != nil {
			return err
		}
		if err := h.advance(); err != nil {
			return err
		}
	}
	if err := o.begin(o.clock, heads); err != nil {
		return err
	}
	var rest []input.Input
	for _, u := range unknown(heads) {
		rest = append(rest, u)
	}
	for _, h := range heads {
		for _, t := range h.troubles {
			rest = append(rest, t)
		}
	}
	for _, in := range append(rest, input.SourcesDrained{}) {
		if err := o.step(in); err != nil {
			return err
		}
	}
	return nil
}

// began returns the start time for a source whose first records have no time: the
// time of the first record that has one. If no record has a time, it returns a time
// in 1970, which readers recognize as unknown and which does not depend on the
// file's modification time.
func began(s profiles.Source) time.Time {
	for in, err := range recorded(s, false) {
		if err != nil {
			break
		}
		if seen, is := in.(input.SignalsSeen); is {
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
func unknown(heads []*head) []input.UnknownSeen {
	var all []input.UnknownSeen
	for _, h := range heads {
		i := slices.IndexFunc(all, func(u input.UnknownSeen) bool { return u.Source == h.unknown.Source })
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

// A once is an observation whose clock is the time in the records.
type once struct {
	observing
	clock   time.Time
	started bool
	// second is a kernel (Kernel.Rehearsal) that handles once more the records which a
	// killed observation had handled. Kernel.Recall then copies the soft state of second
	// (the state that is not in the ledger) to k.
	// second is nil for a new observation.
	second *kernel.Kernel
	taken  bool // second was given a record
	past   *Past
}

func (o *once) step(in input.Input) error { return o.observing.step(o.clock, in) }

// take passes the next input of a source to the kernel. The first input starts the
// session.
func (o *once) take(h *head, heads []*head) error {
	if h.known {
		o.rehearse(h)
		return nil
	}
	if err := o.begin(h.at, heads); err != nil || h.known {
		return err // begin sets h.known if it has written this record's missing facts
	}
	if err := o.until(h.at); err != nil {
		return err
	}
	if in, ok := h.fresh(); ok {
		return o.step(in)
	}
	return nil
}

// begin starts the session, or continues the one of a killed observation.
func (o *once) begin(at time.Time, heads []*head) error {
	switch {
	case o.started:
		return nil
	case o.second == nil:
		o.clock, o.started = at, true
		return o.step(input.Start{})
	}
	o.clock, o.started = o.k.LastReplayed(), true
	if o.past.torn != nil {
		if err := o.complete(heads); err != nil {
			return err
		}
	} else if o.taken {
		wakeUntil(o.second, o.clock.Add(1)) // the killed observer had handled all deadlines up to this time
	}
	if o.taken {
		o.k.Recall(o.second)
	}
	if err := o.step(input.Restarted{PID: os.Getpid()}); err != nil {
		return err
	}
	for _, h := range heads {
		if err := h.reportMissed(o.step); err != nil {
			return err
		}
	}
	return nil
}

// complete writes the missing facts of a partly written record, if that record is the
// next input of a source.
func (o *once) complete(heads []*head) error {
	f := o.past.torn.read()
	for _, h := range heads {
		in, ok := h.in.(input.SignalsSeen)
		if !ok || h.known || in.Source != f.Source || in.Position == nil || in.Position.Path != f.Path ||
			in.Taken != f.Taken || in.Digest != f.Digest || f.Taken == 0 && *in.Position != f.Position {
			continue
		}
		o.first(o.past.began)
		wakeUntil(o.second, o.past.torn.entries[0].At)
		again, err := o.past.complete(o.k, o.second, in.Signals, o.log, o.listen)
		if again != nil {
			o.second, h.known = again, true
		}
		return err
	}
	return nil
}

// first starts the second kernel, unless it has started.
func (o *once) first(at time.Time) {
	if !o.taken {
		o.taken = true
		o.second.Step(at, input.Start{})
	}
}

// rehearse passes to the second kernel an input that the killed observation had
// handled.
func (o *once) rehearse(h *head) {
	if r := find(h.past, h.source.Name, h.place.Path); r != nil && r.taken == 0 && h.place.Offset <= r.first.Offset {
		return // the record is from before the observation
	}
	o.first(h.at)
	wakeUntil(o.second, h.at)
	o.second.Step(h.at, h.in)
}

// until advances the clock to at, and wakes the kernel at each deadline before
// that time.
func (o *once) until(at time.Time) error {
	if !at.After(o.clock) {
		return nil
	}
	for due, ok := o.k.Deadline(); ok && due.Before(at); due, ok = o.k.Deadline() {
		o.clock = due
		if err := o.step(input.Wake{}); err != nil {
			return err
		}
	}
	o.clock = at
	return nil
}

// A head has the next input of one source and the time of that input. The time never
// decreases from one input to the next.
type head struct {
	next func() (input.Input, error, bool)
	stop func()
	in   input.Input // the next input; nil if the source has ended
	at   time.Time

	before time.Time // the time of the previous input

	source profiles.Source
	past   []*readSource  // how far a killed observation read the source's files
	known  bool           // the killed observation had handled the next input
	place  input.Position // the position where the next input ends

	// If the source is unordered, signals are read in advance: as many as the constant
	// lookahead says, or a few more. The next input is the earliest of these signals.
	unordered bool
	file      input.Position // how far the source's main file was read
	count     int64          // the number of signals so far, including the one in the next input
	sums      bool           // whether digest is computed, if the source is unordered
	digest    string         // the digest of the signals so far
	ahead     []ahead        // signals that were read and come after the next input
	ended     bool           // the source has no further record

	unknown  input.UnknownSeen // the newest count of unknown records, which includes the earlier ones
	troubles []input.SourceTrouble
}

// ahead is a signal of an unordered source, with its position.
type ahead struct {
	telemetry.Signal
	at input.Position
}

// newHead opens a source. ledger says whether positions are stored in a ledger. A stored
// position has a digest, which shows a later run whether the file was changed.
func newHead(s profiles.Source, past []*readSource, ledger bool) (*head, error) {
	h := &head{source: s, unordered: s.Unordered, sums: ledger}
	for _, r := range past {
		if r.name == s.Name {
			r.missed = changed(s, r)
			h.past = append(h.past, r)
		}
	}
	if r := find(past, s.Name, s.Path); r != nil && r.taken > 0 {
		same, err := sameSignals(s, r)
		if err != nil {
			return nil, err
		}
		r.missed = r.missed || !same
	}
	for _, r := range h.past {
		r.drop()
	}
	h.next, h.stop = iter.Pull2(recorded(s, ledger))
	return h, nil
}

// changed reports whether a file was changed so that reading cannot resume at the last
// position.
func changed(s profiles.Source, r *readSource) bool {
	switch s.Form {
	case profiles.Whole, profiles.Stamp:
		return false // of these files only the newest content matters
	case profiles.Rows:
		tail, err := sqlite.Open(s.Path, s.Query)
		return err == nil && rowsChanged(tail, r.last)
	}
	return watchers.Position(r.last).Changed() != ""
}

// sameSignals reports whether a source still begins with the signals that were
// observed before.
func sameSignals(s profiles.Source, r *readSource) (bool, error) {
	h := &head{source: s, unordered: true, sums: true}
	h.next, h.stop = iter.Pull2(recorded(s, true))
	defer h.stop()
	for h.count < r.taken {
		if err := h.advance(); err != nil || h.in == nil {
			return false, err
		}
	}
	return h.digest == r.digest, nil
}

// reportMissed reports that records may be missing, for each file that was changed and
// is read again from its start.
func (h *head) reportMissed(step func(input.Input) error) error {
	for _, r := range h.past {
		if !r.missed {
			continue
		}
		for _, in := range []input.Input{input.SourceTrouble{Source: r.name, What: input.TroubleMissed},
			input.SignalsSeen{Source: r.name, Position: &input.Position{Path: r.path}}} {
			if err := step(in); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookahead is the number of signals that are read in advance to order them. It
// is larger than the number of records that a harness writes at once.
const lookahead = 256

func (h *head) advance() error {
	h.in, h.known = nil, false
	if !h.unordered {
		seen, err := h.read()
		if err == nil && !h.ended {
			h.set(seen)
			if h.place = (input.Position{}); seen.Position != nil {
				h.place = *seen.Position
			}
			h.known = h.isKnown(h.place)
		}
		return err
	}
	for !h.ended && len(h.ahead) < lookahead {
		seen, err := h.read()
		if err != nil {
			return err
		}
		var at input.Position
		if seen.Position != nil {
			at = *seen.Position
		}
		if at.Path == h.source.Path {
			h.file = at
		}
		for _, sig := range seen.Signals {
			h.ahead = append(h.ahead, ahead{sig, at})
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
	// The signals are ordered by their times, so an offset in the file does not show which
	// of them were handled. They are counted instead.
	next := h.ahead[first]
	h.ahead = slices.Delete(h.ahead, first, first+1)
	h.count++
	if h.sums {
		data, err := json.Marshal(next.Signal)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(append([]byte(h.digest), data...))
		h.digest = hex.EncodeToString(sum[:16])
	}
	file := h.file
	file.Path = h.source.Path
	h.set(input.SignalsSeen{Source: h.source.Name, Signals: []telemetry.Signal{next.Signal}, Position: &file, Taken: h.count, Digest: h.digest})
	h.known = h.isKnown(next.at)
	h.place = next.at
	return nil
}

// isKnown reports whether the killed observation had handled the next input. at is the
// position where that input ends.
func (h *head) isKnown(at input.Position) bool {
	if r := find(h.past, h.source.Name, h.source.Path); h.unordered && r != nil && r.taken > 0 {
		return !r.missed && h.count <= r.taken
	}
	r := find(h.past, h.source.Name, at.Path)
	switch {
	case r == nil || r.missed:
		return false
	case h.source.Form == profiles.Whole || h.source.Form == profiles.Stamp:
		return at.Prefix == r.last.Prefix
	}
	return at.Offset <= r.last.Offset
}

// fresh returns the next input without its signals up to the time r.floor: they were
// observed before the file was replaced, or date from before the observation began. It
// returns false if no signal is left.
func (h *head) fresh() (input.Input, bool) {
	in, ok := h.in.(input.SignalsSeen)
	r := find(h.past, h.source.Name, h.place.Path)
	if main := find(h.past, h.source.Name, h.source.Path); r == nil && main != nil && main.taken > 0 {
		r = main
	}
	if !ok || r == nil || r.floor.IsZero() {
		return h.in, true
	}
	in.Signals = slices.DeleteFunc(slices.Clone(in.Signals), func(s telemetry.Signal) bool { return !s.At.IsZero() && !s.At.After(r.floor) })
	return in, len(in.Signals) > 0
}

func (h *head) set(in input.SignalsSeen) {
	h.in, h.before = in, h.at
	// A signal may be older than the previous input, but h.at never decreases.
	for _, s := range in.Signals {
		if s.At.After(h.at) {
			h.at = s.At
		}
	}
}

// read returns the signals of the next record. It does not wait until an
// unreadable file can be read again, because only the present content is read.
func (h *head) read() (input.SignalsSeen, error) {
	for {
		in, err, ok := h.next()
		if err != nil || !ok {
			h.ended = true
			return input.SignalsSeen{}, err
		}
		switch in := in.(type) {
		case input.SignalsSeen:
			return in, nil
		case input.UnknownSeen:
			h.unknown = in
		case input.SourceTrouble:
			h.troubles = append(h.troubles, in)
		}
	}
}

// earliest returns the head with the next input. An input of another harness session
// (foreign) comes first, whatever its time, because it is skipped. Next come the
// inputs that a killed observation had handled, then the others by time.
func earliest(heads []*head, isForeign func(telemetry.Signal) bool) (best *head, foreign bool) {
	for _, h := range heads {
		if h.in == nil {
			continue
		}
		if in, ok := h.in.(input.SignalsSeen); ok && !slices.ContainsFunc(in.Signals, func(s telemetry.Signal) bool { return !isForeign(s) }) {
			return h, true
		}
		if best == nil || h.known && !best.known || h.known == best.known && h.at.Before(best.at) {
			best = h
		}
	}
	return best, false
}

// recorded yields the inputs of a source from its start to its present end. If ends is
// set, each position has the digest of the bytes before it.
func recorded(s profiles.Source, ends bool) iter.Seq2[input.Input, error] {
	return func(yield func(input.Input, error) bool) {
		err := readable(s.Path)
		if err != nil {
			yield(nil, err)
			return
		}
		files, err := NewFiles(Files{Fixed: []profiles.Source{s}, ends: ends})
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
		cancel() // ends the reading at the present end of the source
		more := true
		err = files.Run(now, func(in input.Input) { more = more && yield(in, nil) })
		if err != nil && more {
			yield(nil, err)
		}
	}
}

// ErrNotReadable means that a path does not name a regular file.
var ErrNotReadable = errors.New("not a regular file")

// readable returns an error if a file cannot be opened or is not regular. It is called
// first, so that the error comes before any event.
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
