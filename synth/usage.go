package synth

import "lifeloop/telemetry"

// Calls is the sum of model calls: their number and their tokens. The parts of
// the input do not overlap, as in [telemetry.Usage].
type Calls struct {
	Calls      int64 `json:"calls"`
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`
}

func (c *Calls) add(u telemetry.Usage, sign int64) {
	c.plus(Calls{sign, sign * u.Input, sign * u.CacheRead, sign * u.CacheWrite, sign * u.Output, sign * u.Reasoning})
}

func (c *Calls) plus(d Calls) {
	c.Calls += d.Calls
	c.Input += d.Input
	c.CacheRead += d.CacheRead
	c.CacheWrite += d.CacheWrite
	c.Output += d.Output
	c.Reasoning += d.Reasoning
}

// Usage is the sum of a session's model calls by chain: the session's own turns,
// sub-agents, and side calls (titles, compactions).
type Usage struct {
	Main   Calls `json:"main"`
	Agents Calls `json:"agents"`
	Side   Calls `json:"side"`
}

// Plus returns the sum of u and v.
func (u Usage) Plus(v Usage) Usage {
	u.Main.plus(v.Main)
	u.Agents.plus(v.Agents)
	u.Side.plus(v.Side)
	return u
}

// Less returns the difference of u and v, with 0 for each part that would be
// negative.
func (u Usage) Less(v Usage) Usage {
	u.Main.less(v.Main)
	u.Agents.less(v.Agents)
	u.Side.less(v.Side)
	return u
}

func (c *Calls) less(d Calls) {
	*c = Calls{max(0, c.Calls-d.Calls), max(0, c.Input-d.Input), max(0, c.CacheRead-d.CacheRead), max(0, c.CacheWrite-d.CacheWrite),
		max(0, c.Output-d.Output), max(0, c.Reasoning-d.Reasoning)}
}

// A Meter adds up model calls. Each call counts once: records with the same
// session, id and request are one call, and the record with the most output
// counts. Several sources report the same call under names that cannot be
// matched, so each source has its own sums. The total uses the best source for
// the main chain of each harness session. For the calls of all sub-agents it uses
// one best source, because not every source names their sessions. For all side
// calls it also uses one best source. The zero value is ready to use.
type Meter struct{ books []*book }

// maxCalls is how many of a source's newest calls are kept with their usage, so that
// a later record of the same call, with more output, replaces it. Harnesses write such
// a record within the same turn of the agent, so a few are enough. A repeat of a call
// that is no longer kept is ignored, as long as [telemetry.Calls] remembers it.
const maxCalls = 256

// A book has the calls that one source reported.
type book struct {
	source       string
	main         map[string]*Calls // harness session → sum of its calls; the key is "" if the source does not name the session
	agents, side Calls
	calls        map[callName]*entry // the newest calls, at most maxCalls
	order        []callName          // oldest first
	counted      telemetry.Calls     // remembers which calls were counted
}

type callName struct{ session, id, request string }

type entry struct {
	chain *Calls
	usage telemetry.Usage
}

// See adds a signal's usage. It reports whether the sums of the signal's source changed.
func (m *Meter) See(sig telemetry.Signal) bool {
	u := sig.Usage
	if sig.Kind != telemetry.UsageSeen || u == nil || u.Estimate {
		return false
	}
	if u.Input == 0 && u.CacheRead == 0 && u.CacheWrite == 0 && u.Output == 0 {
		return false // this usage is only the size of the context, not a call
	}
	b := m.book(sig.Source)
	chain := b.main[sig.Session]
	switch {
	case sig.Side != "":
		chain = &b.side
	case sig.Agent != "":
		chain = &b.agents
	case chain == nil:
		chain = &Calls{}
		b.main[sig.Session] = chain
	}
	name := callName{sig.Session, u.ID, u.Request}
	if u.ID == "" && u.Request == "" { // without an id, a repeat cannot be detected
		chain.add(*u, 1)
		return true
	}
	if known := b.calls[name]; known != nil {
		if u.Output <= known.usage.Output {
			return false
		}
		known.chain.add(known.usage, -1)
		known.chain, known.usage = chain, *u
		chain.add(*u, 1)
		return true
	}
	if !b.counted.News(name.session, name.id, name.request, 0) {
		return false
	}
	chain.add(*u, 1)
	b.calls[name] = &entry{chain, *u}
	b.order = append(b.order, name)
	if len(b.order) > maxCalls {
		delete(b.calls, b.order[0])
		b.order = b.order[1:]
	}
	return true
}

// Total returns the sum so far.
func (m *Meter) Total() Usage {
	var u Usage
	if b := m.best(func(b *book) bool { return b.agents.Calls > 0 }); b != nil {
		u.Agents = b.agents
	}
	if b := m.best(func(b *book) bool { return b.side.Calls > 0 }); b != nil {
		u.Side = b.side
	}
	named := false
	for session := range m.sessions() {
		b := m.best(func(b *book) bool { return b.main[session] != nil })
		u.Main.plus(*b.main[session])
		named = true
	}
	// Calls without a session may be the same as those of a named session. So they
	// count only if no source names a session.
	if b := m.best(func(b *book) bool { return b.main[""] != nil }); b != nil && !named {
		u.Main.plus(*b.main[""])
	}
	return u
}

// sessions returns the sessions that any source named.
func (m *Meter) sessions() map[string]bool {
	all := map[string]bool{}
	for _, b := range m.books {
		for session := range b.main {
			if session != "" {
				all[session] = true
			}
		}
	}
	return all
}

// best returns the book of the best source among those that match, or nil.
func (m *Meter) best(match func(*book) bool) *book {
	var best *book
	for _, b := range m.books {
		if match(b) && (best == nil || worth(b.source) > worth(best.source)) {
			best = b
		}
	}
	return best
}

// worth ranks sources by how completely they report a session's calls. The
// harness's own files are complete; records that the harness sends can be lost.
func worth(source string) int {
	switch source {
	case "transcript", "rollout", "store":
		return 4
	case "stream":
		return 3
	case "otlp":
		return 2
	case "hook":
		return 1
	}
	return 0
}

func (m *Meter) book(source string) *book {
	for _, b := range m.books {
		if b.source == source {
			return b
		}
	}
	b := &book{source: source, main: map[string]*Calls{}, calls: map[callName]*entry{}}
	m.books = append(m.books, b)
	return b
}
