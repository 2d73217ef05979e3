package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/telemetry"
)

// fakeResetter decodes the replies of a plugin that begins fresh sessions: records like
// "fresh rnw_1 S2", "fresh rnw_1 hooked", "fresh rnw_1 busy" and "place hook_1_2 failed".
type fakeResetter struct{ fakeRequests }

func (*fakeResetter) Ask(r telemetry.PluginRequest) []byte {
	line, _ := json.Marshal(r)
	return line
}

func (*fakeResetter) Reply(record []byte) (r telemetry.PluginReply, is bool) {
	words := strings.Fields(string(record))
	if len(words) != 3 {
		return r, false
	}
	r.Op, r.ID = telemetry.PluginOp(words[0]), words[1]
	switch what := words[2]; {
	case what == "busy":
		r.Busy = true
	case what == "failed":
		r.Failure = what
	case what == "hooked": // the plugin has reported the session by a hook, before this reply
	case r.Op == telemetry.Fresh:
		r.Call = telemetry.HookCall{Event: "fresh", Session: what, Signals: []telemetry.Signal{{Kind: telemetry.SessionLive, Source: "plugin", Detail: "fresh", Session: what, Cause: "clear"}}}
		r.Call.Fill(telemetry.SlotSession)
	}
	return r, true
}

// fakeRenewer hands out one continuation.
type fakeRenewer struct{ *rig }

func (fakeRenewer) Asks(string, []byte) string { return "" }
func (fakeRenewer) Reads(string) []string      { return nil }
func (fakeRenewer) Prepare(context.Context, effect.RenewalRef) (string, *time.Time, error) {
	return "sha256:1", nil, nil
}
func (r fakeRenewer) Continue(context.Context, effect.RenewalRef, string) (lifeloop.Opaque, error) {
	r.note("consumed")
	return lifeloop.NewOpaque("go on"), nil
}
func (fakeRenewer) Discard(effect.RenewalRef, string) error { return nil }

// A fakePlugin answers each request with the entry of replies for the request's Op. Without
// such an entry, it does not answer.
type fakePlugin struct {
	*rig
	lock    sync.Mutex                    // guards replies
	replies map[telemetry.PluginOp]string // the last word of the reply
	records chan<- string
	gone    bool // a request cannot be sent
}

func (p *fakePlugin) send(line []byte) error {
	if p.gone {
		return errors.New("broken pipe")
	}
	var r telemetry.PluginRequest
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	p.note("plugin %s %s %s", r.Op, r.Session, r.Text)
	p.lock.Lock()
	word := p.replies[r.Op]
	p.lock.Unlock()
	if word == "hooked" {
		p.post(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.SessionLive, Source: "hook", Detail: "fresh", Session: "S2", Cause: "clear"}}})
	}
	if word != "" {
		go func() { p.records <- string(r.Op) + " " + r.ID + " " + word }()
	}
	return nil
}

// renewsByPlugin plays a session whose plugin resets the harness. It returns the rig and
// the last move of the renewal.
func renewsByPlugin(t *testing.T, prepare func(p *fakePlugin), then func(r *rig, p *fakePlugin)) (r *rig, last renewal.Move) {
	r = newRig(t)
	p := &fakePlugin{rig: r, replies: map[telemetry.PluginOp]string{telemetry.Fresh: "S2", telemetry.Place: "done"}}
	prepare(p)
	r.launcher.asks, r.launcher.resets, r.launcher.send = &fakeResetter{}, true, p.send
	r.renewer, r.profile = fakeRenewer{r}, renewal.Rules{Profile: "handoff", Client: "notes", Paths: []renewal.Path{renewal.InPlace}}
	r.launcher.play = func(post func(input.Input)) {
		r.hook("Start", "")
		p.records = r.streams(hookKey, 7)
		post(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.Idle, Source: "plugin", Session: "S1"}}})
		time.Sleep(time.Second)
		post(input.RenewAsked{Ask: "a1"})
		time.Sleep(time.Second)
		synctest.Wait()
		if then != nil {
			then(r, p)
			synctest.Wait()
		}
		close(p.records)
		r.launcher.child.end(input.ChildExited{})
	}
	_, err := r.run()
	require.NoError(t, err)
	for _, f := range r.ledger.facts {
		if f, ok := f.(kernel.RenewalMoved); ok {
			last = f.Move
		}
	}
	return r, last
}

// The continuation is consumed before the plugin is asked for a fresh session. It is sent
// to the plugin only after the fresh session has begun and the placement is recorded.
func TestPluginBeginsAFreshSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, last := renewsByPlugin(t, func(*fakePlugin) {}, nil)
		require.Equal(t, renewal.Delivered, last.To, last.Why)
		steps := []string{"renewal_called", "consumed", "renewal_typed", "plugin fresh", "placing", "plugin place S2"}
		at := 0
		for _, step := range steps {
			next := r.first(step)
			if step == "renewal_called" {
				for i, l := range r.trace { // the second renewal_called is that of the continue command
					if strings.Contains(l, step) {
						next = i
					}
				}
			}
			require.GreaterOrEqual(t, next, at, "%s:\n%s", step, strings.Join(r.trace, "\n"))
			at = next
		}
		require.Contains(t, r.trace[at], "go on")
	})
}

// A plugin that has reported the fresh session by a hook gets the continuation as the
// answer to a later hook, and not by a request.
func TestPluginReportsTheSessionItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, last := renewsByPlugin(t, func(p *fakePlugin) { p.replies[telemetry.Fresh] = "hooked" }, func(r *rig, _ *fakePlugin) {
			require.Contains(t, string(r.hook("Context", "").out), "go on")
		})
		require.Equal(t, renewal.Delivered, last.To, strings.Join(r.trace, "\n"))
		require.Empty(t, r.lines("plugin place"))
	})
}

func TestPluginDoesNotBeginASession(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(p *fakePlugin)
		then    func(r *rig, p *fakePlugin)
		to      renewal.State
		why     []string // one of these
	}{
		"it fails": {prepare: func(p *fakePlugin) { p.replies[telemetry.Fresh] = "failed" }, to: renewal.Failed, why: []string{"the plugin began no fresh session: failed"}},
		"it does not read": {prepare: func(p *fakePlugin) { p.gone = true }, to: renewal.Failed,
			why: []string{"the plugin began no fresh session: no plugin is connected"}},
		"it is silent": {prepare: func(p *fakePlugin) { delete(p.replies, telemetry.Fresh) },
			then: func(r *rig, p *fakePlugin) {
				time.Sleep(20 * time.Second)
				require.Len(r.t, r.lines("plugin stop"), 2, "once when its time is over, and once to take it back")
			}, to: renewal.Failed, why: []string{"the harness began no fresh session within 15s"}},
		"it is busy first": {prepare: func(p *fakePlugin) { p.replies[telemetry.Fresh] = "busy" },
			then: func(r *rig, p *fakePlugin) {
				p.lock.Lock()
				p.replies[telemetry.Fresh] = "S2"
				p.lock.Unlock()
				time.Sleep(5 * time.Second)
				require.Len(r.t, r.lines("plugin fresh"), 2)
			}, to: renewal.Delivered, why: []string{""}},
		"the text is not accepted": {prepare: func(p *fakePlugin) { p.replies[telemetry.Place] = "failed" }, to: renewal.Failed,
			why: []string{"the hook ended before the answer was written"}},
		"the text has no reply": {prepare: func(p *fakePlugin) { delete(p.replies, telemetry.Place) },
			then: func(*rig, *fakePlugin) { time.Sleep(10 * time.Second) }, to: renewal.Failed, why: []string{"the hook ended before the answer was written"}},
		"it ends meanwhile": {prepare: func(p *fakePlugin) { delete(p.replies, telemetry.Fresh) }, to: renewal.Failed,
			why: []string{"the attempt ended", "the plugin began no fresh session: no plugin is connected"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, last := renewsByPlugin(t, tc.prepare, tc.then)
				require.Equal(t, tc.to, last.To, strings.Join(r.trace, "\n"))
				require.Contains(t, tc.why, last.Why)
				require.LessOrEqual(t, len(r.lines("plugin place")), 1)
			})
		})
	}
}

// If the newest of two streams ends first, requests go to the stream that is still open.
func TestARequestGoesToAnOpenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, last := renewsByPlugin(t, func(p *fakePlugin) { p.replies[telemetry.Fresh] = "busy" }, func(r *rig, p *fakePlugin) {
			ended := &fakePlugin{rig: r, gone: true}
			r.launcher.send = ended.send
			newest := r.streams(hookKey, 7)
			newest <- "begins"
			close(newest)
			synctest.Wait()
			p.lock.Lock()
			p.replies[telemetry.Fresh] = "S2"
			p.lock.Unlock()
			time.Sleep(5 * time.Second)
		})
		require.Equal(t, renewal.Delivered, last.To, "%s\n%s", last.Why, strings.Join(r.trace, "\n"))
	})
}
