// Package synth combines signals into observations that no single record
// contains: the level of context pressure, with hysteresis, and one compaction
// from the reports of two sources.
//
// A context window belongs to the model for which it was learned. A State has two
// windows:
//
//   - The session's window is what the harness reports for its present session (from the
//     sources "statusline" and "reported"). The harness reports each change of the window,
//     so the window stays when a call names another model. The window ends when a session
//     starts with another model.
//   - The model's window was looked up under a model's name, or derived from the name and
//     the tokens in use (from the sources "configured", "settings", "catalog", "suffix",
//     "seen" and "table"). It ends as soon as a signal names another model, and is not
//     restored when the first model returns.
//
// Of the two, the window from the better source is used. A signal ends no window if it
// names no model, or is about a sub-agent or a side call. A compaction, a cleared context
// and a resumed session keep both windows. The caller makes a new State for another
// harness, and after a restart of the wrapper, when the files are read again. A transcript
// of Claude Code has the name "m" for both models "m" and "m[1m]", so it does not show a
// switch between the two. The window of "m[1m]" is therefore kept when a later call names
// "m". If another model was used in between, this window has ended. The table's window of
// "m" is then not used, because the call may be one of "m[1m]".
//
// The package decides what to report and emits nothing itself. It reads no clock: each
// call gets the time, and [State.Deadline] returns when to call [State.Wake].
//
//	s := synth.New(synth.Config{Hooks: true})
//	for _, o := range s.See(signal, now) {
//		switch o := o.(type) {
//		case synth.Pressure: …
//		case synth.Compaction: …
//		}
//	}
package synth

import (
	"cmp"
	"slices"
	"time"

	"lifeloop/telemetry"
)

// Config describes what a State can expect from the sources of a launch. Zero
// values mean the defaults.
type Config struct {
	// Hooks is true if the harness's hooks are received. A compaction is then
	// expected from two sources.
	Hooks bool
	// Statusline is true if the harness will report its window itself. A usage
	// with an unknown window then waits for this report.
	Statusline bool
	// Estimates is true if the harness writes its own estimate of the context after
	// a compaction. The compaction then waits for this estimate.
	Estimates bool
	// Infer is true if no source reports compactions. A context that falls to less
	// than half between two calls is then reported as a compaction, marked as
	// inferred.
	Infer bool
	// Moderate, High and Critical are the lower bounds of the levels as a
	// fraction of the window (DECISIONS L9); by default 0.50, 0.75 and 0.90.
	Moderate, High, Critical float64
	// Hysteresis is how far below a bound the fraction must fall before the lower
	// level is reported; by default 0.03.
	Hysteresis float64
	// Windows are the context windows, in tokens, that the user configured. A key is
	// a model's name, or the beginning of the name up to a "-", "@" or "[". Windows
	// have priority over every other source of a window.
	Windows map[string]int64
}

// A compaction is held this long for its second report and for the harness's
// estimate. After a report without a trigger it is held longer, because only the
// second report has the trigger.
const (
	secondReport  = 500 * time.Millisecond
	triggerReport = 2 * time.Second
)

// A Level is a level of context pressure.
type Level string

const (
	Unknown  Level = "" // the context window is unknown
	Low      Level = "low"
	Moderate Level = "moderate"
	High     Level = "high"
	Critical Level = "critical"
)

// An Observation is something to report: a [Pressure] or a [Compaction].
type Observation interface{ isObservation() }

// Pressure is a context pressure to report.
type Pressure struct {
	Level        Level
	Used         int64
	Window       int64 // 0 if unknown
	WindowSource string
	// Estimate is true for a number that the harness computed after a compaction,
	// before the next model call measured it.
	Estimate bool
	Signal   telemetry.Signal // the signal that reported the numbers
}

// Fraction is the part of the window in use, at most 1; ok is false while the
// window is unknown.
func (p Pressure) Fraction() (f float64, ok bool) {
	if p.Window <= 0 {
		return 0, false
	}
	return min(float64(p.Used)/float64(p.Window), 1), true
}

// Compaction is one finished compaction, with all signals that reported it.
type Compaction struct {
	Trigger       string
	Before, After *int64
	Signals       []telemetry.Signal
	// Inferred is true if no source reported the compaction: the context of the
	// call in Signals was less than half of that of the previous call.
	Inferred bool
}

func (Pressure) isObservation()   {}
func (Compaction) isObservation() {}

// A window is the known context window, with the rank of its source.
type window struct {
	tokens int64
	source string
	rank   int
	model  string // the model for which the window was learned; empty if the source names none
}

// ofSession reports whether the harness reported the window for its present session.
func (w window) ofSession() bool { return w.source == "statusline" || w.source == "reported" }

// rank orders the sources of a window; the best source has the highest rank.
func rank(source string) int {
	return slices.Index([]string{"table", "seen", "suffix", "catalog", "settings", "reported", "statusline", "configured"}, source) + 1
}

// State is the state of one harness session, computed from its signals.
type State struct {
	cfg Config

	session  window   // the session's window
	model    window   // the model's window
	suffixed []string // models that were used under a name with a suffix
	lastUsed int64
	haveUsed bool
	lastAt   time.Time         // the time of lastUsed
	estimate bool              // lastUsed is the harness's estimate
	held     *telemetry.Signal // a usage that is held until the window is known
	level    Level
	reported bool // the level was reported
	stale    bool // lastUsed is from before a compaction
	// compacting is the start of a compaction that has not ended, or zero.
	compacting time.Time
	trigger    string // the running compaction's trigger, if its start reported one

	// halves counts the compactions that each source reported in this session, and
	// settled counts those that are finished. pending waits until due for its
	// second report and for the estimate.
	halves    map[string]int
	settled   int
	pending   *Compaction
	estimated *telemetry.Signal // the estimate that belongs to pending
	patience  time.Duration     // how long pending may wait; the wait ends at due
	due       time.Time
}

// New returns the state before the first signal.
func New(cfg Config) *State {
	cfg.Moderate, cfg.High, cfg.Critical = cmp.Or(cfg.Moderate, 0.50), cmp.Or(cfg.High, 0.75), cmp.Or(cfg.Critical, 0.90)
	cfg.Hysteresis = cmp.Or(cfg.Hysteresis, 0.03)
	return &State{cfg: cfg, halves: map[string]int{}}
}

// Use changes the configuration, because a new launch may have different
// sources.
func (s *State) Use(cfg Config) { s.cfg = New(cfg).cfg }

// Reset prepares for a new harness session in the same process. It clears
// everything except the windows, because the model stays the same.
func (s *State) Reset() {
	session, model, suffixed := s.session, s.model, s.suffixed
	*s = *New(s.cfg)
	s.session, s.model, s.suffixed = session, model, suffixed
}

// Resume continues the same harness session in another process. The last
// measurement is kept, and the next one is reported at any level.
func (s *State) Resume() {
	was := *s
	s.Reset()
	s.lastUsed, s.lastAt, s.haveUsed, s.stale, s.estimate = was.lastUsed, was.lastAt, was.haveUsed, was.stale, was.estimate
}

// A Figure is the newest known measurement of the context.
type Figure struct {
	Pressure
	At time.Time // time of the measurement
	// Stale is true for a measurement from before a compaction or a cleared
	// context.
	Stale bool
}

// Now returns the newest measurement; ok is false before the first one.
func (s *State) Now() (f Figure, ok bool) {
	w := s.window()
	f.Window, f.WindowSource = w.tokens, w.source
	if !s.haveUsed {
		return f, false
	}
	f.Used, f.Estimate, f.At, f.Stale = s.lastUsed, s.estimate, s.lastAt, s.stale
	if fraction, known := f.Fraction(); known {
		f.Level = s.cfg.level(fraction)
	}
	return f, true
}

// See adds one signal and returns what to report. It ignores sub-agents and side
// calls, which have separate contexts.
func (s *State) See(sig telemetry.Signal, now time.Time) []Observation {
	if sig.Agent != "" || sig.Side != "" {
		return nil
	}
	var out []Observation
	s.switched(sig)
	if sig.Window > 0 {
		out = s.learn(window{tokens: sig.Window, source: sig.WindowSource, rank: rank(sig.WindowSource), model: sig.Model})
	}
	switch sig.Kind {
	case telemetry.UsageSeen:
		// A compaction may fail within a turn, and few sources report the failure. A model
		// call after the compaction's start shows that the compaction has ended. An
		// earlier call may be recorded late and shows nothing.
		if !s.compacting.IsZero() && sig.At.After(s.compacting) {
			s.compacting = time.Time{}
		}
		// If Used is 0, the usage has the tokens of a call but not the size of the context.
		if sig.Usage != nil && sig.Usage.Used > 0 && s.compacting.IsZero() {
			out = append(out, s.usage(sig, now)...)
		}
	case telemetry.Compacting:
		if s.compacting = sig.At; s.compacting.IsZero() {
			s.compacting = now
		}
		if s.trigger = ""; sig.Compaction != nil {
			s.trigger = sig.Compaction.Trigger
		}
	case telemetry.Prompt, telemetry.TurnStop, telemetry.TurnEnd, telemetry.Fault:
		s.compacting = time.Time{} // the next step of the main chain also shows that the compaction has ended
	case telemetry.Cleared:
		// The size of the context is unknown until the next call.
		s.reported, s.stale, s.held = false, true, nil
	case telemetry.Compacted:
		out = append(out, s.compacted(sig, now)...)
	}
	return out
}

// Before returns what to report before a signal takes effect. A compaction that is
// held for its second report must be reported before the next step of the main
// chain. A step that belongs to a sub-agent or a side call is not on the main chain.
func (s *State) Before(sig telemetry.Signal) []Observation {
	if s.pending == nil || sig.Agent != "" || sig.Side != "" {
		return nil
	}
	switch sig.Kind {
	case telemetry.UsageSeen:
		if sig.Usage == nil || sig.Usage.Estimate {
			return nil
		}
	case telemetry.Prompt, telemetry.TurnStop, telemetry.TurnEnd, telemetry.SessionLive, telemetry.SessionGone:
	default:
		return nil
	}
	return s.settle()
}

// Deadline returns when [State.Wake] will have something to report.
func (s *State) Deadline() (time.Time, bool) { return s.due, s.pending != nil }

// Extend restarts the time for which a compaction is held. It is called when
// `lifeloop-wrap observe` resumes an observation, because the second report may have been
// written in between and is read only now.
func (s *State) Extend(now time.Time) {
	if s.pending != nil {
		s.due = now.Add(s.patience)
	}
}

// Wake reports the held compaction if its second report, or the harness's estimate, did
// not arrive in time.
func (s *State) Wake(now time.Time) []Observation {
	if s.pending == nil || now.Before(s.due) {
		return nil
	}
	return s.settle()
}

// Flush returns everything pending, after the last signal.
func (s *State) Flush() []Observation {
	var out []Observation
	if s.pending != nil {
		out = s.settle()
	}
	return append(out, s.Release()...)
}

// Release reports the usage that is held until the window is known. The caller calls
// Release if the window will not be reported.
func (s *State) Release() []Observation {
	if s.held == nil {
		return nil
	}
	sig := *s.held
	s.held = nil
	return s.sample(sig)
}

// window returns the window that has the better source.
func (s *State) window() window {
	if s.session.rank > s.model.rank {
		return s.session
	}
	return s.model
}

// switched forgets the model's window if sig names another model. If sig is the start of
// a session with another model, switched also forgets the session's window.
func (s *State) switched(sig telemetry.Signal) {
	if sig.Kind == telemetry.SessionLive && s.session.other(sig.Model) {
		s.session = window{}
	}
	if s.model.other(sig.Model) {
		s.model = window{}
	}
}

// remember records that a model was used under a name with a suffix.
func (s *State) remember(w window) {
	if w.source == "suffix" && !slices.Contains(s.suffixed, w.model) {
		s.suffixed = append(s.suffixed, w.model)
	}
}

// larger reports whether the model was used under a name with the suffix of a larger
// window. The names in later calls may lack the suffix, so the table's window may be too
// small.
func (s *State) larger(model string) bool {
	return slices.ContainsFunc(s.suffixed, func(name string) bool { return telemetry.SameModel(name, model) })
}

// other reports whether w was learned for a model other than the named one. A window from
// the catalog or the settings is valid only for the exact name that it was found under.
func (w window) other(model string) bool {
	if w.model == "" || model == "" || w.model == model {
		return false
	}
	return w.source == "catalog" || w.source == "settings" || !telemetry.SameModel(w.model, model)
}

// learn records w as the session's or the model's window, unless the known window of that
// kind has a source of higher rank.
func (s *State) learn(w window) []Observation {
	known := &s.model
	if w.ofSession() {
		known = &s.session
	}
	if w.rank < known.rank {
		return nil
	}
	*known = w
	s.remember(w)
	return s.Release()
}

func (s *State) usage(sig telemetry.Signal, now time.Time) []Observation {
	fell := s.fell(sig)
	s.lastUsed, s.haveUsed, s.stale, s.estimate = sig.Usage.Used, true, false, sig.Usage.Estimate
	if s.lastAt = now; !sig.At.IsZero() && sig.At.Before(now) {
		s.lastAt = sig.At
	}
	if fell != nil {
		s.reported = false
	}
	s.findWindow(sig)
	switch {
	case sig.Usage.Estimate && s.pending != nil:
		s.estimated, s.pending.After = &sig, &sig.Usage.Used
		return s.complete()
	case s.window().tokens == 0 && s.cfg.Statusline:
		s.held = &sig
		return fell
	}
	return append(fell, s.sample(sig)...)
}

// findWindow derives the model's window from its name and from the tokens in use.
func (s *State) findWindow(sig telemetry.Signal) {
	derived := func(tokens int64, source string) {
		s.model = window{tokens: tokens, source: source, rank: rank(source), model: sig.Model}
		s.remember(s.model)
	}
	if tokens := telemetry.WindowOf(s.cfg.Windows, sig.Model); tokens > 0 {
		derived(tokens, "configured")
	}
	if tokens, source := telemetry.ModelWindow(sig.Model); tokens > 0 && rank(source) > s.model.rank && (source != "table" || !s.larger(sig.Model)) {
		derived(tokens, source)
	}
	// A window from a table, a name or a catalog is too small if more tokens are used.
	// The next larger window of the model is then taken, or the window is unknown.
	if s.model.tokens > 0 && sig.Usage.Used > s.model.tokens && s.model.rank <= rank("catalog") {
		s.model = window{}
	}
	if tokens := telemetry.SeenWindow(sig.Model, sig.Usage.Used); tokens > 0 && s.model.rank < rank("seen") {
		derived(tokens, "seen")
	}
}

// worthInferring is the smallest context, in tokens, from which a compaction is
// inferred. A smaller context may fall to less than half without a compaction, for
// example because the list of tools has changed.
const worthInferring = 20_000

// fell infers a compaction if the context of this call is much smaller than
// that of the previous one.
func (s *State) fell(sig telemetry.Signal) []Observation {
	if !s.cfg.Infer || !s.haveUsed || s.stale || s.estimate || sig.Usage.Estimate || s.lastUsed < worthInferring || sig.Usage.Used >= s.lastUsed/2 {
		return nil
	}
	before := s.lastUsed
	return []Observation{Compaction{Trigger: "unknown", Before: &before, Signals: []telemetry.Signal{sig}, Inferred: true}}
}

// sample reports a measurement if its level differs from the last reported one.
func (s *State) sample(sig telemetry.Signal) []Observation {
	w := s.window()
	p := Pressure{Used: sig.Usage.Used, Window: w.tokens, WindowSource: w.source, Estimate: sig.Usage.Estimate, Signal: sig}
	f, known := p.Fraction()
	if !known {
		if s.reported && s.level == Unknown {
			return nil
		}
		s.reported, s.level = true, Unknown
		return []Observation{p}
	}
	p.Level = s.cfg.level(f)
	if s.reported && (p.Level == s.level || p.Level.below(s.level) && f > s.cfg.bound(s.level)-s.cfg.Hysteresis) {
		return nil
	}
	s.reported, s.level = true, p.Level
	return []Observation{p}
}

// below reports whether l is a lower level than m.
func (l Level) below(m Level) bool {
	order := []Level{Unknown, Low, Moderate, High, Critical}
	return slices.Index(order, l) < slices.Index(order, m)
}

// High returns the number of tokens at which the level high begins in a window.
func (s *State) High(window int64) int64 { return int64(s.cfg.High * float64(window)) }

// bound returns the lower bound of a level.
func (c Config) bound(l Level) float64 {
	switch l {
	case Critical:
		return c.Critical
	case High:
		return c.High
	case Moderate:
		return c.Moderate
	}
	return 0
}

func (c Config) level(f float64) Level {
	switch {
	case f >= c.Critical:
		return Critical
	case f >= c.High:
		return High
	case f >= c.Moderate:
		return Moderate
	}
	return Low
}

// compacted pairs the reports of two sources: the n-th report of each is about the
// same compaction.
func (s *State) compacted(sig telemetry.Signal, now time.Time) []Observation {
	c := sig.Compaction
	if c == nil {
		c = &telemetry.Compaction{Half: "record", Trigger: "unknown"}
	}
	began := !s.compacting.IsZero()
	s.compacting = time.Time{}
	s.halves[c.Half]++
	n := s.halves[c.Half]
	var out []Observation
	switch {
	case n <= s.settled:
		return nil // the other source has already reported this compaction
	case s.pending != nil && n == s.settled+1:
		s.pending.merge(*c, sig)
		return s.complete()
	case s.pending != nil:
		out = s.settle() // this source reports the next compaction; the second report of the pending one is late
	}
	before := c.Before
	if before == nil && s.haveUsed && !s.stale && !s.estimate {
		used := s.lastUsed
		before = &used
	}
	trigger := c.Trigger
	if (trigger == "" || trigger == "unknown") && began {
		trigger = s.trigger
	}
	unknown := trigger == "" || trigger == "unknown"
	s.pending = &Compaction{Trigger: trigger, Before: before, After: c.After, Signals: []telemetry.Signal{sig}}
	s.patience = secondReport
	if unknown && s.cfg.Hooks {
		s.patience = triggerReport
	}
	s.due = now.Add(s.patience)
	// After a compaction the next sample is reported at any level.
	s.reported, s.stale = false, true
	s.held = nil
	return append(out, s.complete()...)
}

// complete reports the pending compaction if no further report about it is
// expected.
func (s *State) complete() []Observation {
	if s.cfg.Hooks && len(s.pending.Signals) < 2 || s.cfg.Estimates && s.pending.After == nil {
		return nil
	}
	return s.settle()
}

func (c *Compaction) merge(with telemetry.Compaction, sig telemetry.Signal) {
	if c.Trigger == "" || c.Trigger == "unknown" {
		c.Trigger = with.Trigger
	}
	if with.Before != nil {
		c.Before = with.Before
	}
	if with.After != nil {
		c.After = with.After
	}
	c.Signals = append(c.Signals, sig)
}

// settle reports the pending compaction, and then its estimate as the pressure.
func (s *State) settle() []Observation {
	c, estimated := *s.pending, s.estimated
	s.pending, s.estimated = nil, nil
	s.settled++
	if c.Trigger == "" {
		c.Trigger = "unknown"
	}
	out := []Observation{c}
	if estimated != nil {
		out = append(out, s.sample(*estimated)...)
	}
	return out
}
