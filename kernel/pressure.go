package kernel

import (
	"time"

	"lifeloop/lifeloop"
	"lifeloop/synth"
	"lifeloop/telemetry"
)

// pressure observes how full the model's context is. Package synth computes the
// observations; this machine emits them as events:
//
//	signals ──► synth ──► pressure   ──► context.pressure_observed, when the level changes
//	                 ├──► compaction ──► context.compacted, once for all its sources
//	                 └──► figure     ──► context_measured, when the measurement changes: at
//	                                     the end of a turn, else at most once a second
type pressure struct {
	hard struct{ Level string } // the last emitted level; a compaction and a new harness session clear it
	soft struct {
		synth   *synth.State
		saved   ContextMeasured // the last recorded measurement
		savedAt time.Time
	}
}

// ContextMeasured records the newest measurement of the context, even if the
// level did not change. Tokens is null while nothing is known, for example when a
// session has just begun.
type ContextMeasured struct {
	Tokens       *int64      `json:"tokens_used"`
	Window       int64       `json:"window_tokens,omitempty"` // 0 if unknown
	WindowSource string      `json:"window_source,omitempty"`
	Level        synth.Level `json:"level,omitempty"`
	// Stale marks a measurement from before a compaction. Estimate marks a number
	// that the harness computed after a compaction.
	Stale    bool      `json:"stale,omitempty"`
	Estimate bool      `json:"estimate,omitempty"`
	At       time.Time `json:"at,omitzero"` // time of the measurement
}

func (ContextMeasured) key() (string, bool) { return "context_measured", false }
func (ContextMeasured) apply(*Kernel)       {}

const pressureCapability = "context_pressure"

func newPressure(cfg synth.Config) (p pressure) {
	p.soft.synth = synth.New(cfg)
	return p
}

func (p *pressure) level() string        { return p.hard.Level }
func (p *pressure) use(cfg synth.Config) { p.soft.synth.Use(cfg) }

// opened clears the level, because a harness session has begun.
func (p *pressure) opened() { p.hard.Level = "" }

// observed stores the level that an event reports. After a compaction the level is
// unknown.
func (p *pressure) observed(f Observed) {
	switch f.Record.Event {
	case lifeloop.ContextPressureObserved:
		p.hard.Level, _ = f.Record.Data["level"].(string)
	case lifeloop.ContextCompacted:
		p.hard.Level = ""
	}
}

// newScope handles the beginning of a harness session. The session's context is empty
// or, if resumed is true, that of the resumed session.
func (p *pressure) newScope(s *step, resumed bool) {
	if resumed {
		p.soft.synth.Resume()
	} else {
		p.soft.synth.Reset()
	}
	p.save(s)
}

// figure returns the newest measurement as the fact that would record it.
func (p *pressure) figure() (m ContextMeasured) {
	now, ok := p.soft.synth.Now()
	if !ok {
		return m
	}
	return ContextMeasured{Tokens: &now.Used, Window: now.Window, WindowSource: now.WindowSource, Level: now.Level,
		Stale: now.Stale, Estimate: now.Estimate, At: now.At}
}

// trigger returns the number of tokens in the context, and a threshold. A renewal must
// leave fewer tokens than half the threshold; a threshold of 0 requires nothing. If
// pressure triggers the renewal (now is true), the threshold equals tokens. If not, and if
// the window is known, the threshold is the larger of tokens and the number at which
// pressure is high. If the window is unknown, the threshold is 0. If the number of tokens
// is unknown or stale, the results are nil and 0.
func (p *pressure) trigger(now bool) (tokens *int64, trigger int64) {
	m := p.figure()
	switch {
	case m.Tokens == nil || m.Stale:
		return nil, 0
	case now:
		trigger = *m.Tokens
	case m.Window > 0:
		trigger = max(*m.Tokens, p.soft.synth.High(m.Window))
	}
	return m.Tokens, trigger
}

// changed reports whether the newest measurement differs from the recorded one in
// more than its time.
func (p *pressure) changed() bool {
	now, saved := p.figure(), p.soft.saved
	if (now.Tokens == nil) != (saved.Tokens == nil) || now.Tokens != nil && *now.Tokens != *saved.Tokens {
		return true
	}
	now.Tokens, now.At, saved.Tokens, saved.At = nil, time.Time{}, nil, time.Time{}
	return now != saved
}

// save records the newest measurement if it changed.
func (p *pressure) save(s *step) {
	if p.changed() {
		p.soft.saved, p.soft.savedAt = p.figure(), s.now
		s.record(p.soft.saved)
		if m := p.soft.saved; m.Tokens != nil && !m.Stale {
			s.renewals.measured(s, *m.Tokens)
		}
	}
}

// forget resets everything that is known about the context, including the window's
// size, because another harness may have another window.
func (p *pressure) forget(cfg synth.Config) { p.soft.synth = synth.New(cfg) }

// expectWindow sets whether a status line is expected to report the size of the
// context window. If expected is false, a measurement that waits for the size is
// reported without the size.
func (p *pressure) expectWindow(s *step, expected bool) {
	cfg := s.cfg.Synth
	cfg.Statusline = cfg.Statusline && expected
	p.use(cfg)
	if !expected {
		p.emit(s, p.soft.synth.Release())
	}
}

// before must be called before sig is handled. A compaction that was reported once waits
// for a second report from another source. If sig shows that the harness has continued,
// for example with the next prompt, the compaction is emitted without the second report.
func (p *pressure) before(s *step, sig telemetry.Signal) { p.emit(s, p.soft.synth.Before(sig)) }

func (p *pressure) see(s *step, sig telemetry.Signal) {
	if c := sig.Compaction; c != nil && c.InTurn != "" && sig.Turn != "" && s.turns.frameOf(sig.Turn) != nil {
		inTurn := *c
		inTurn.Trigger, sig.Compaction = c.InTurn, &inTurn
	}
	p.emit(s, p.soft.synth.See(sig, s.now))
}

// extend restarts the wait for the second report of a compaction when the command
// observe continues an observation. The harness may have written that report while
// observe did not run.
func (p *pressure) extend(s *step) { p.soft.synth.Extend(s.now) }

func (p *pressure) flush(s *step) { p.emit(s, p.soft.synth.Flush()) }

func (p *pressure) wake(s *step) {
	p.emit(s, p.soft.synth.Wake(s.now))
	if s.due(p.nextSave()) {
		p.save(s)
	}
}

func (p *pressure) next(*Kernel) (at time.Time) {
	if due, pending := p.soft.synth.Deadline(); pending {
		at = due
	}
	return sooner(at, p.nextSave())
}

func (p *pressure) nextSave() (at time.Time) {
	if p.changed() {
		at = p.soft.savedAt.Add(saveEvery)
	}
	return at
}

// tick returns the pressure for the event supervisor.tick; nil while it is unknown.
func (p *pressure) tick() map[string]any {
	if now, ok := p.soft.synth.Now(); ok {
		return pressureData(now.Pressure, now.Stale)
	}
	return nil
}

func (p *pressure) emit(s *step, observations []synth.Observation) {
	for _, o := range observations {
		switch o := o.(type) {
		case synth.Pressure:
			s.observePressure(o)
		case synth.Compaction:
			s.observeCompaction(o)
		}
	}
}

func (s *step) observePressure(o synth.Pressure) {
	s.health.window(s, o.Window > 0, o.WindowSource)
	s.emit(emission{event: lifeloop.ContextPressureObserved, frame: s.turns.topFrame(), evidence: by(o.Signal), data: pressureData(o, false)})
	s.renewals.pressed(s, string(o.Level))
}

func (s *step) observeCompaction(o synth.Compaction) {
	data := map[string]any{"trigger": o.Trigger, "tokens_before": nil, "tokens_after": nil}
	if o.Before != nil {
		data["tokens_before"] = *o.Before
	}
	if o.After != nil {
		data["tokens_after"] = *o.After
	}
	ev := by(o.Signals...)
	if o.Inferred {
		data["inferred"] = true
		ev = append(ev, own("inferred: the context shrank to less than half between two model calls")...)
	}
	s.turns.compacted(s, o.Signals)
	s.emit(emission{event: lifeloop.ContextCompacted, frame: s.turns.topFrame(), evidence: ev, data: data})
}

func pressureData(p synth.Pressure, stale bool) map[string]any {
	data := map[string]any{"level": nil, "tokens_used": p.Used, "window_tokens": nil, "window_source": p.WindowSource,
		"fraction": nil, "stale": stale}
	if p.Estimate {
		data["estimate"] = true
	}
	if f, ok := p.Fraction(); ok {
		// The fraction is cut to four digits, so that it is the same on every machine.
		// Four digits are precise enough.
		data["level"], data["window_tokens"], data["fraction"] = string(p.Level), p.Window, float64(int64(f*10_000))/10_000
	}
	return data
}

func (p *pressure) recall(past *pressure) { p.soft = past.soft }
