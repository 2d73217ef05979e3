package supervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"lifeloop/kernel/input"
	"lifeloop/otlp"
	"lifeloop/profiles"
)

// Exports is the source that receives the telemetry that a harness exports. If
// the user has configured the harness to export to an endpoint, Exports also
// forwards the telemetry to that endpoint.
type Exports struct {
	receiver *otlp.Receiver
	log      zerolog.Logger
	decoder  *decoder // owned by the receiver's delivering goroutine
	post     func(input.Input)

	mu     sync.Mutex // guards the fields below: several goroutines report losses
	losses map[input.Trouble]int
	fresh  map[input.Trouble]bool // kinds of loss that are not reported yet
}

// exported is the name of this source, for example in the Evidence of an event.
const exported = "otlp"

// NewExports opens the port for the harness's exporter. The port accepts a request only if
// path is the beginning of the path in the request's URL. path must be hard to guess,
// because every program on this machine can reach the port.
func NewExports(path string, log zerolog.Logger) (*Exports, error) {
	e := &Exports{log: log, losses: map[input.Trouble]int{}, fresh: map[input.Trouble]bool{}}
	var err error
	e.receiver, err = otlp.New(otlp.Config{Deliver: e.deliver, Lost: e.lost, Path: path})
	return e, err
}

// Endpoint returns the base address for the harness's exporter.
func (e *Exports) Endpoint() string { return e.receiver.Endpoint() }

// Close closes the port of a launch that exports nothing. Otherwise Run closes
// it.
func (e *Exports) Close() { _ = e.receiver.Close() }

// Prepared configures the decoder and the user's own endpoint. It must precede
// Run.
func (e *Exports) Prepared(x profiles.Export) error {
	e.decoder = &decoder{Decoder: x.Decoder(), source: exported}
	if x.Chain == "" {
		return nil
	}
	return e.receiver.PassOn(map[otlp.Signal]otlp.Target{otlp.Logs: {URL: x.Chain, Header: x.Headers}})
}

// Run receives telemetry until ctx ends, and posts the signals in everything
// that was received.
func (e *Exports) Run(ctx context.Context, post func(input.Input)) error {
	e.post = post
	err := e.receiver.Run(ctx)
	e.decoder.unknown(e.post, true)
	e.reportLosses()
	return err
}

func (e *Exports) deliver(b otlp.Body) {
	if b.Signal == otlp.Logs {
		if signals := e.decoder.Decode(b.Data); len(signals) > 0 {
			e.post(input.SignalsSeen{Signals: signals})
		}
		e.decoder.unknown(e.post, false)
	}
	e.reportLosses()
}

// lost counts a body of telemetry that was dropped, or not forwarded. It posts
// nothing, because the exporter still waits for its answer. The loss is reported
// with the next body or at the end.
func (e *Exports) lost(l otlp.Loss) {
	what := input.TroubleLost
	if l.Upstream {
		what = input.TroubleNotPassedOn
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.losses[what]++
	e.fresh[what] = e.losses[what] == 1 || e.fresh[what]
	e.log.Warn().Str("source", exported).Str("signal", string(l.Signal)).Str("what", string(what)).Str("why", l.Why).Int("so_far", e.losses[what]).Msg("exported telemetry was lost or not forwarded")
}

// reportLosses posts each kind of loss once in a launch; the log has the numbers.
func (e *Exports) reportLosses() {
	e.mu.Lock()
	var kinds []input.Trouble
	for _, what := range []input.Trouble{input.TroubleLost, input.TroubleNotPassedOn} {
		if e.fresh[what] {
			e.fresh[what] = false
			kinds = append(kinds, what)
		}
	}
	e.mu.Unlock()
	for _, what := range kinds {
		e.post(input.SourceTrouble{Source: exported, What: what})
	}
}

// Launched does nothing: the harness already has the endpoint.
func (e *Exports) Launched(int) {}

// Watch does nothing: Exports reads no files.
func (e *Exports) Watch(string, time.Time) {}

// Join combines several sources into one.
func Join(sources ...Sources) Sources { return joined(sources) }

type joined []Sources

// Run returns when all sources have returned, with the first error in their
// order.
func (t joined) Run(ctx context.Context, post func(input.Input)) error {
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

func (t joined) Watch(path string, since time.Time) {
	for _, s := range t {
		s.Watch(path, since)
	}
}

// Transcripts lists the transcripts of all sources that have any.
func (t joined) Transcripts() (paths []string) {
	for _, s := range t {
		paths = append(paths, transcripts(s)...)
	}
	return paths
}

// Prompted returns the harness session that got a prompt, from the first source that
// shows one.
func (t joined) Prompted(ctx context.Context) string {
	for _, s := range t {
		if session := prompted(ctx, s); session != "" {
			return session
		}
	}
	return ""
}
