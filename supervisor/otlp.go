package supervisor

import (
	"context"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"lifeloop/kernel"
	"lifeloop/otlp"
	"lifeloop/profiles"
	"lifeloop/telemetry"
)

// Exports are what a harness exports to us as telemetry, one more source of a
// run. What the user exported themself goes on to where it went.
type Exports struct {
	receiver *otlp.Receiver
	log      zerolog.Logger
	decoder  telemetry.Decoder // owned by the receiver's handing goroutine, with told
	told     int               // how many records it had missed when that was told last
	post     func(kernel.Input)

	mu     sync.Mutex // guards what follows: bodies are lost on several goroutines
	losses map[string]int
	fresh  map[string]bool // losses of a kind that the loop has not heard of
}

// exported is the name of this source in evidence.
const exported = "otlp"

// NewExports opens the port that the harness is to export to, below a path
// that nobody guesses.
func NewExports(path string, log zerolog.Logger) (*Exports, error) {
	e := &Exports{log: log, losses: map[string]int{}, fresh: map[string]bool{}}
	var err error
	e.receiver, err = otlp.New(otlp.Config{Deliver: e.deliver, Lost: e.lost, Path: path})
	return e, err
}

// Endpoint is the base address for the harness's exporter.
func (e *Exports) Endpoint() string { return e.receiver.Endpoint() }

// Close gives the port back, where nothing is exported after all.
func (e *Exports) Close() { _ = e.receiver.Close() }

// Prepared takes what the profile made of the address. It must come before Run.
func (e *Exports) Prepared(x profiles.Export) error {
	e.decoder = x.Decoder()
	if x.Chain == "" {
		return nil
	}
	return e.receiver.PassOn(map[otlp.Signal]otlp.Target{otlp.Logs: {URL: x.Chain, Header: x.Headers}})
}

// Run receives until ctx ends, and then tells what came until then.
func (e *Exports) Run(ctx context.Context, post func(kernel.Input)) error {
	e.post = post
	err := e.receiver.Run(ctx)
	if e.decoder.Missed() > e.told {
		e.post(kernel.UnknownSeen{Source: exported, Types: e.decoder.Unknown()})
	}
	e.tellLosses()
	return err
}

func (e *Exports) deliver(b otlp.Body) {
	if b.Signal == otlp.Logs {
		if signals := e.decoder.Decode(b.Data); len(signals) > 0 {
			e.post(kernel.SignalsSeen{Signals: signals})
		}
		if n := e.decoder.Missed(); n > 0 && n >= 2*e.told {
			e.told = n
			e.post(kernel.UnknownSeen{Source: exported, Types: e.decoder.Unknown()})
		}
	}
	e.tellLosses()
}

// lost notes a body that was given up. It is told with the next one that comes,
// or at the end: the exporter waits for its answer meanwhile.
func (e *Exports) lost(l otlp.Loss) {
	what := "lost"
	if l.Upstream {
		what = "not_passed_on"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.losses[what]++
	e.fresh[what] = e.losses[what] == 1 || e.fresh[what]
	e.log.Warn().Str("source", exported).Str("signal", string(l.Signal)).Str("what", what).Str("why", l.Why).Int("so_far", e.losses[what]).Msg("a body of telemetry")
}

// tellLosses tells each kind of loss once; how many there were is in the log.
func (e *Exports) tellLosses() {
	e.mu.Lock()
	var tell []string
	for _, what := range []string{"lost", "not_passed_on"} {
		if e.fresh[what] {
			e.fresh[what] = false
			tell = append(tell, what)
		}
	}
	e.mu.Unlock()
	for _, what := range tell {
		e.post(kernel.SourceTrouble{Source: exported, What: what})
	}
}

// Launched does nothing: the harness knows where to export to.
func (e *Exports) Launched(int) {}

// Watch does nothing: files are others' business.
func (e *Exports) Watch(string) {}

// Join is sources as one.
func Join(sources ...Sources) Sources { return joined(sources) }

type joined []Sources

// Run returns when all have, with what went wrong first in their order.
func (t joined) Run(ctx context.Context, post func(kernel.Input)) error {
	errs := make([]error, len(t))
	var wg sync.WaitGroup
	for i, s := range t {
		wg.Go(func() { errs[i] = s.Run(ctx, post) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("follow sources: %w", err)
		}
	}
	return nil
}

func (t joined) Launched(pid int) {
	for _, s := range t {
		s.Launched(pid)
	}
}

func (t joined) Watch(path string) {
	for _, s := range t {
		s.Watch(path)
	}
}
