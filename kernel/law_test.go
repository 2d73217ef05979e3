package kernel_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/profiles"
	"lifeloop/renewal"
	"lifeloop/session"
	"lifeloop/synth"
	"lifeloop/telemetry"
)

// A judge checks the laws on one kernel from outside. It sees every input and
// every output, and keeps its own record of what they mean.
type judge struct {
	t      require.TestingT
	cfg    kernel.Config
	k      *kernel.Kernel
	shadow *kernel.Kernel // a second kernel that replays the ledger, as a restart would
	now    time.Time

	sessionAccount
	launchAccount
	eventAccount
	callAccount
	frameAccount
	skipAccount
	renewalAccount
	guardAccount
	dialectJudges
	reach map[string]int // case → how often this session reached the case; TestLaws requires certain cases
}

type dialectJudges struct {
	hcp hcpJudge
	l0  l0Judge
}

type sessionAccount struct {
	over       bool // a terminal state was recorded
	ledgerLost bool
	refused    bool
	aborted    bool     // an abort was requested
	paused     bool     // a command paused the session
	asking     string   // the id of the command that this step handles
	owes       []string // ids of the commands that may be answered in a later step
}

type launchAccount struct {
	launched  int
	released  int
	drains    int
	running   bool // a launch was requested, and has not ended
	due       bool // the harness has ended, and its sources are still to be read
	suspended bool // the harness is stopped for a pause
	crashed   int  // launches that were under way when the wrapper died
	spent     spent
	closed    map[string]int // launch → how often its attempt ended
	questionAccount
}

// A questionAccount holds the last question to the program of the retry policy,
// and its answer.
type questionAccount struct {
	question  *kernel.RetryAsked
	answer    *kernel.RetryAnswered // the answer to question, until the attempt ends
	questions []string              // the ids of all questions
}

type eventAccount struct {
	scope    int
	id       string // the id of the open harness session
	sessions map[int][]lifeloop.Event
	frames   map[string][]lifeloop.Event
	open     []string // the ids of the open frames, in the order in which they were opened
	parent   map[string]string
	sequence map[int]int64
	numbers  map[int]int // scope → the first scope of the same sequence of receipts
	// idNumbers maps the id of a harness session to the first scope of its sequence of
	// receipts.
	idNumbers map[string]int
	identityAccount
}

// An identityAccount records the launch and the harness session of each event.
type identityAccount struct {
	now      identity
	ids      map[int]string      // scope → id
	contexts map[int]int         // scope → the first scope with the same context
	of       map[string]identity // event id → the identity at the time of the event
	scopeOf  map[string]int      // event id → scope
	starting []string            // events of a launch that is not recorded yet
	claimed  map[string]identity // event id → the identity in the documents of this output
}

// An identity is what a request and its receipts say about their origin.
type identity struct{ adapter, run, session string }

type callAccount struct {
	receivers map[string]string         // event id → the ids of the clients that must get a receipt, sorted and joined
	receipts  map[string]map[string]int // event id → client → receipts
	issued    map[string]lifeloop.Receipt
	numbered  map[string]bool   // pairs of harness session and sequence that a receipt has
	calls     map[string]string // call → client, for calls that wait to be dispatched
	orderAccount
	flying   map[string]string // client → call
	payloads map[string]int    // call#index → how often it was settled
	// keyed maps call#index to the client and the idempotency key of a payload, and
	// delivered has the deliveries by context, adapter, client and key.
	keyed     map[string]string
	delivered map[string]bool
	asked     map[string]*asked // hook id → the call of the hook
}

// An orderAccount is the order of the events that each client receives.
type orderAccount struct {
	made     map[string]madeCall
	received map[string]int      // client → the place of the newest call it received
	owed     map[string][]string // client → calls whose receipts are still to come, in order
	drainDue time.Time           // when the clients' time to answer ends
	hurry    bool                // this step is an abort, or the recovery of a crash
}

// A madeCall is one call: its place in the order of observation, and its event.
type madeCall struct {
	place int
	scope int
	event lifeloop.Event
	id    string // the id of the event
	to    string // the client
}

// spent is what the attempts have used up, by the judge's own count.
type spent struct {
	profile, attempt, counted, total int
	free                             int // retries that count toward no budget
	next                             *kernel.AttemptEnded
	run                              string
}

// asked is one call of a hook.
type asked struct {
	capacity          int
	deadline          time.Time
	opened            string // the id of the frame that the harness opened for the prompt of this call
	waits             bool   // the call opened no frame; a later step may open the frame of its prompt
	clears            bool   // its answer can empty the context
	foreign           bool   // the hook is of another session
	answers, recorded int
	gone              bool
}

func newJudge(t require.TestingT, cfg kernel.Config, now time.Time) *judge {
	return &judge{t: t, cfg: cfg, k: kernel.New(cfg), shadow: kernel.New(cfg), now: now, reach: map[string]int{},
		launchAccount: launchAccount{closed: map[string]int{}},
		eventAccount: eventAccount{sessions: map[int][]lifeloop.Event{}, frames: map[string][]lifeloop.Event{}, parent: map[string]string{},
			sequence: map[int]int64{}, numbers: map[int]int{}, idNumbers: map[string]int{},
			identityAccount: identityAccount{now: identity{adapter: cfg.Manifest.AdapterID}, ids: map[int]string{}, contexts: map[int]int{},
				of: map[string]identity{}, scopeOf: map[string]int{}, claimed: map[string]identity{}}},
		callAccount: callAccount{receivers: map[string]string{}, receipts: map[string]map[string]int{}, issued: map[string]lifeloop.Receipt{}, numbered: map[string]bool{},
			calls: map[string]string{}, flying: map[string]string{},
			orderAccount: orderAccount{made: map[string]madeCall{}, received: map[string]int{}, owed: map[string][]string{}},
			keyed:        map[string]string{}, delivered: map[string]bool{},
			payloads: map[string]int{}, asked: map[string]*asked{}},
		renewalAccount: newRenewalAccount(),
		guardAccount:   newGuardAccount(),
		skipAccount:    skipAccount{newest: map[string][]string{}, before: map[string][]string{}},
		frameAccount:   frameAccount{owners: map[string]owner{}, ordinal: map[string]int{}, placed: map[string]bool{}, about: map[string]*lifeloop.FrameContext{}}}
}

// step gives one input to the kernel and checks the output against the laws.
func (j *judge) step(in input.Input) kernel.Output {
	j.input(in)
	wasOver := j.over
	out := j.k.Step(j.now, in)
	if wasOver {
		j.asking, j.owes = "", nil
		require.Empty(j.t, out, "terminal is terminal: %T", in)
		return out
	}
	must := false
	call, hooked := in.(input.HookCalled)
	if hooked {
		a := j.asked[call.Hook]
		a.opened = opened(out)
		a.waits = a.opened == "" && j.cfg.Means == renewal.ByHook
	}
	for _, a := range j.asked {
		if a.waits && a.answers == 0 {
			a.opened = cmp.Or(opened(out), a.opened)
		}
	}
	for _, f := range out.Facts {
		if j.over {
			require.Fail(j.t, "a fact after the terminal state", factLine(f))
		}
		j.fact(f)
		back := decoded(j.t, f)
		kernel.Apply(j.shadow, back)
		j.hcp.fact(j.t, kernel.Entry{At: j.now, Fact: f}, kernel.Entry{At: j.now, Fact: back})
		j.l0.fact(j.t, kernel.Entry{At: j.now, Fact: f}, kernel.Entry{At: j.now, Fact: back})
		switch f.(type) {
		case kernel.ReceiptIssued, kernel.SessionMoved, kernel.Launching, kernel.StopSent, kernel.Placing, kernel.Exited:
			must = true
		}
	}
	if len(out.Facts) > 0 || j.over {
		checkReplay(j.t, j.k, j.shadow)
	}
	checkOutput(j.t, out)
	if hooked {
		j.asked[call.Hook].foreign = j.foreign(call.Call.Session)
	}
	j.outlived()
	require.True(j.t, out.Sync || !must, "on the disk before any effect")
	for _, e := range out.Effects {
		j.effect(e)
	}
	j.identities()
	require.False(j.t, j.suspended && !j.paused, "the harness is stopped and the session is not paused")
	require.Empty(j.t, j.asking, "a command is answered in its step")
	j.deadline()
	return out
}

// input notes what an input means for the account.
func (j *judge) input(in input.Input) {
	j.hurry, j.given = false, false
	switch in := in.(type) {
	case input.Restarted:
		j.begun, j.hurry, j.launches = false, true, 0 // the gate is asked again about a launch that it allowed
	case input.HookCalled:
		j.asked[in.Hook] = &asked{capacity: in.Call.Capacity, deadline: in.Deadline, clears: in.Call.Clears}
	case input.HookClosed:
		if a := j.asked[in.Hook]; a != nil && a.answers == 0 {
			a.gone = true
		}
	case input.LedgerLost:
		j.ledgerLost = true
	case input.LineSeen:
		j.begun = in.Begun
	case input.FrameRequested:
		j.asking = in.Ask
	case input.PauseAsked:
		j.asking = in.Ask
	case input.ResumeAsked:
		j.asking = in.Ask
	case input.RenewAsked:
		if j.asking = in.Ask; j.cfg.Gate != "" { // the command may be answered in a later step
			j.asking, j.owes = "", append(j.owes, in.Ask)
		}
	case input.ApprovalGiven:
		j.asking, j.given = in.Ask, in.Approve
	case input.AbortAsked:
		j.asking, j.aborted, j.hurry = in.Ask, true, true
	case input.SourcesDrained:
		j.due = false
	case input.Returned:
		j.landed(in.Call)
	}
}

// landed notes that a call is not in flight any more.
func (j *judge) landed(call string) {
	maps.DeleteFunc(j.flying, func(_, flying string) bool { return flying == call })
}

// deadline checks when the kernel wants to wake.
func (j *judge) deadline() {
	at, ok := j.k.Deadline()
	for id, a := range j.asked {
		if !a.gone && a.answers == 0 {
			require.True(j.t, j.now.Before(a.deadline), "hook %s is not answered at its deadline", id)
			require.True(j.t, ok && !at.After(a.deadline), "the kernel does not wake for hook %s", id)
		}
	}
	if ok {
		require.True(j.t, at.After(j.now), "the next deadline %s is not after now, %s: a busy loop", at, j.now)
	}
	_, done := j.k.Done()
	require.Equal(j.t, j.over, done, "Done agrees with the facts")
	require.False(j.t, done && ok, "no deadline after the end")
}

func (j *judge) fact(f kernel.Fact) {
	j.reach["fact "+kernel.Kind(f)]++
	j.guarded(f)
	j.renewalFact(f)
	switch f := f.(type) {
	case kernel.SessionMoved:
		require.NoError(j.t, session.Check(f.From, f.To))
		j.over = f.To.Terminal()
		j.refused = j.refused || f.To == session.Rejected
		j.reach["state "+string(f.To)]++
	case kernel.HarnessSessionOpened:
		j.sessionOpened(f)
	case kernel.Bound:
		require.Equal(j.t, j.scope, f.Scope)
		require.NotEqual(j.t, f.Was, f.ID)
		j.contexts[f.Scope] = f.Scope
		j.sameContext(f.Scope, f.ID, f.Empty)
		j.id, j.ids[f.Scope] = f.ID, f.ID
		j.sameNumbers(f.Scope, f.ID)
	case kernel.Observed:
		j.observed(f)
		j.locate(f)
	case kernel.Dispatched:
		require.Contains(j.t, j.calls, f.Call, "dispatched once, and before its receipt")
		delete(j.calls, f.Call)
		place := j.made[f.Call].place
		require.Less(j.t, j.received[f.Client], place, "%s receives %s out of order", f.Client, f.Call)
		j.received[f.Client] = place
	case kernel.Answered:
		j.answered(f)
	case kernel.Placing:
		j.placing(f)
	case kernel.PayloadSettled:
		key := fmt.Sprint(f.Call, "#", f.Index)
		require.Contains(j.t, j.payloads, key)
		j.payloads[key]++
		require.Equal(j.t, 1, j.payloads[key], "payload %s is settled twice", key)
		require.False(j.t, j.owners[f.Call].failed && f.Status != lifeloop.Skipped, "a failed answer places payload %s", key)
		j.once(f)
		j.reach["settled "+string(f.Status)+" "+f.Why]++
	case kernel.HookAnswered:
		a := j.asked[f.Hook]
		require.NotNil(j.t, a)
		a.recorded++
		require.Equal(j.t, 1, a.recorded, "hook %s is recorded twice", f.Hook)
	case kernel.ReceiptIssued:
		j.receipt(f)
	case kernel.Launching:
		j.begun = false
		j.launching(f)
	case kernel.Exited:
		j.running, j.suspended = false, false
	case kernel.DrainBegan:
		j.drainDue = f.Until
	case kernel.PauseRequested:
		j.paused = true
	case kernel.ResumeRequested:
		j.paused = false
	case kernel.RetryAsked:
		require.Nil(j.t, j.question, "two questions at once")
		j.question, j.questions = &f, append(j.questions, f.Ask)
	case kernel.RetryAnswered:
		j.decision(f)
	case kernel.AttemptEnded:
		j.decided(f)
		j.attemptEnded(f)
	case kernel.TimedOut:
		if f.Timer != "session" && f.Timer != "idle" {
			require.False(j.t, j.paused, "a timer of the attempt in a paused session")
			require.True(j.t, j.running)
		}
		j.reach["timed out "+string(f.Timer)]++
	}
}

func (j *judge) sessionOpened(f kernel.HarnessSessionOpened) {
	require.Equal(j.t, j.scope+1, f.Scope, "scopes count from 1")
	j.numbers[f.Scope] = f.Scope
	if j.scope > 0 {
		require.Contains(j.t, j.sessions[j.scope], lifeloop.SessionEnded, "one harness session at a time")
		if j.id == "" && f.ID == "" {
			j.numbers[f.Scope] = j.numbers[j.scope] // scopes in a row without an id count as one
		}
	}
	j.sameNumbers(f.Scope, f.ID)
	j.contexts[f.Scope] = f.Scope
	j.sameContext(f.Scope, f.ID, f.Cause == "startup" || f.Cause == "clear" || f.Cause == "renewal")
	j.scope, j.id, j.ids[f.Scope] = f.Scope, f.ID, f.ID
	j.reach[fmt.Sprint("scope ", min(f.Scope, 3))]++
}

// sameContext gives a scope the context of the newest earlier scope with the same id. If
// empty is true, the scope keeps its own context.
func (j *judge) sameContext(scope int, id string, empty bool) {
	for n := scope - 1; n > 0 && id != "" && !empty; n-- {
		if j.ids[n] == id {
			j.contexts[scope] = j.contexts[n]
			return
		}
	}
}

// locate notes the launch and the harness session of an event. A launch is recorded only
// after the session.starting that it causes; located then notes the launch of that event.
func (j *judge) locate(f kernel.Observed) {
	at := j.identityAccount.now
	at.session = j.ids[f.Scope]
	if about, ok := f.Record.Data["receipt_id"].(string); ok && f.Record.Event == lifeloop.ReceiptEmitted {
		r := j.issued[about] // the event belongs to the launch and the session of the receipt that it reports
		at = identityOf(r.AdapterID, r.HarnessRunID, r.HarnessSessionID)
	}
	j.of[f.Record.EventID], j.scopeOf[f.Record.EventID] = at, f.Scope
	if f.Record.Event == lifeloop.SessionStarting && f.Record.Evidence[0].Detail == "launch" {
		j.starting = []string{f.Record.EventID}
	} else if len(j.starting) > 0 {
		j.starting = append(j.starting, f.Record.EventID)
	}
}

// located gives the identity of a launch to those of its events that were observed before
// the launch was recorded.
func (j *judge) located(f kernel.Launching) {
	a := &j.identityAccount
	a.now = identity{adapter: j.cfg.Manifest.AdapterID, run: f.Run}
	if f.Profile < len(j.cfg.Manifests) {
		a.now.adapter = j.cfg.Manifests[f.Profile].AdapterID
	}
	require.Equal(j.t, a.now.adapter, f.Adapter)
	for _, id := range a.starting {
		a.of[id] = identity{a.now.adapter, a.now.run, a.of[id].session}
	}
	a.starting = nil
}

func identityOf(adapter string, run, scope *string) identity {
	id := identity{adapter: adapter}
	if run != nil {
		id.run = *run
	}
	if scope != nil {
		id.session = *scope
	}
	return id
}

// claim notes the identity that a document states for an event. All documents of the
// event in one output must state the same identity.
func (j *judge) claim(event, adapter string, run, scope *string) {
	said := identityOf(adapter, run, scope)
	if before, twice := j.claimed[event]; twice {
		require.Equal(j.t, before, said, "documents of %s", event)
	}
	j.claimed[event] = said
}

// identities checks that the documents of one output carry the identity of the
// launch and the harness session in which their events were observed.
func (j *judge) identities() {
	for event, said := range j.claimed {
		if was, observed := j.of[event]; observed { // a session that is refused has no events
			require.Equal(j.t, was, said, "the identity of %s", event)
			if was.run != j.identityAccount.now.run {
				j.reach["document of an earlier launch"]++
			}
			if was.adapter != j.identityAccount.now.adapter {
				j.reach["document of another adapter"]++
			}
		}
	}
	clear(j.claimed)
}

// sameNumbers makes a scope continue the sequence of receipts of the earlier scopes with
// the same harness session id.
func (j *judge) sameNumbers(scope int, id string) {
	if n, known := j.idNumbers[id]; known && id != "" {
		j.reach["sequence continued"]++
		j.numbers[scope] = n
	}
	j.idNumbers[id] = j.numbers[scope]
}

// launching checks the number of an attempt against what ended before it.
func (j *judge) launching(f kernel.Launching) {
	j.located(f)
	j.permitted = false
	require.Nil(j.t, j.question, "a launch before the question about it is answered")
	n := j.spent.next
	j.spent.run, j.spent.next, j.fresh = f.Run, nil, false
	switch {
	case f.Cause == "renewal":
		require.Nil(j.t, n, "a renewal of an attempt that has ended")
		j.renewing(f)
	case n == nil:
		require.Equal(j.t, "first", f.Cause)
		j.spent.attempt = 1
	default:
		require.False(j.t, j.aborted, "a launch after an abort")
		if n.Retry != nil {
			require.Equal(j.t, j.spent.profile, f.Profile)
			require.False(j.t, j.now.Before(n.Retry.At) && n.Retry.Wait != attempt.WaitRestart, "launched before its wait was over")
			j.spent.attempt++
		} else {
			require.Greater(j.t, f.Profile, j.spent.profile, "profiles are taken in order")
			j.spent.profile, j.spent.attempt, j.spent.counted = f.Profile, 1, 0
		}
	}
	require.Equal(j.t, []int{j.spent.profile, j.spent.attempt}, []int{f.Profile, f.Attempt})
	require.False(j.t, j.paused, "a launch in a paused session")
	j.reach["launch for "+f.Cause]++
}

// decision checks that a question is answered once.
func (j *judge) decision(f kernel.RetryAnswered) {
	require.NotNil(j.t, j.question)
	require.Nil(j.t, j.answer, "a question is answered twice")
	require.Equal(j.t, j.question.Ask, f.Ask)
	j.answer = &f
	j.reach[strings.TrimSpace(fmt.Sprint("answered ", f.Retry, " ", f.Failure))]++
}

// decided checks the end of an attempt against the answer of the policy's program,
// which may refuse the retry or choose its delay. Without an answer the policy's
// own rule applies.
func (j *judge) decided(f kernel.AttemptEnded) {
	q, a := j.question, j.answer
	j.question, j.answer = nil, nil
	if q == nil {
		return
	}
	require.NotNil(j.t, a, "an attempt ends before the question about it is answered")
	require.Equal(j.t, q.Planned.AttemptRef, f.AttemptRef)
	if !a.Retry {
		require.Equal(j.t, q.Refused, f)
		return
	}
	delay := q.Planned.Retry.DelayMS
	if a.DelayMS != nil && a.Failure == "" {
		delay = min(*a.DelayMS, (24 * time.Hour).Milliseconds())
	}
	want := *q.Planned.Retry
	want.DelayMS, want.At = delay, j.now.Add(time.Duration(delay)*time.Millisecond).UTC()
	require.Equal(j.t, want, *f.Retry)
	require.Equal(j.t, attempt.Retry, f.Recovery)
}

func (j *judge) attemptEnded(f kernel.AttemptEnded) {
	p := j.cfg.Policy
	if f.Run == "" {
		require.NotNil(j.t, j.spent.next, "no wait has ended")
	} else {
		require.Equal(j.t, j.spent.run, f.Run)
		require.False(j.t, j.running, "an attempt ends before its harness")
		j.closed[f.Run]++
		require.Equal(j.t, 1, j.closed[f.Run], "an attempt ends once")
	}
	j.spent.next = nil
	j.reach[strings.TrimSpace("attempt "+string(f.Cause)+" "+string(f.Recovery))]++
	require.Equal(j.t, f.Cause == "", f.Recovery == "", "a completed attempt needs no recovery, every other one has one")
	switch f.Recovery {
	case attempt.Retry:
		require.NotNil(j.t, f.Retry)
		if f.Retry.Wait != attempt.WaitRestart {
			require.True(j.t, p.On[f.Cause] || f.Retry.Wait == attempt.WaitLimit)
			require.NotEqual(j.t, attempt.Fatal, f.Cause)
		}
		switch j.spent.total++; {
		case f.Retry.Free:
			j.spent.free++
		case f.Retry.Counted:
			j.spent.counted++
			require.LessOrEqual(j.t, j.spent.counted, p.Attempts, "the profile's budget")
		}
		require.LessOrEqual(j.t, j.spent.total-j.spent.free, p.MaxRetries, "the session's budget")
		j.spent.next = &f
	case attempt.Fallback:
		require.Less(j.t, f.Next, len(p.Profiles))
		require.Empty(j.t, p.Profiles[f.Next].Missing)
		j.spent.next = &f
	}
}

var frameOrder = []lifeloop.Event{lifeloop.FrameOpening, lifeloop.FrameOpened, lifeloop.FrameEnding, lifeloop.FrameEnded}

func (j *judge) observed(f kernel.Observed) {
	r := f.Record
	j.reach["event "+string(r.Event)]++
	require.NotContains(j.t, j.receivers, r.EventID)
	had := j.sessions[f.Scope]
	switch {
	case r.Event == lifeloop.SessionStarting:
		require.Empty(j.t, had)
		j.sessions[f.Scope] = append(had, r.Event)
	case r.Event.Session():
		order := []lifeloop.Event{lifeloop.SessionStarting, lifeloop.SessionStarted, lifeloop.SessionEnding, lifeloop.SessionEnded}
		last := slices.Index(order, had[len(had)-1])
		at := slices.Index(order, r.Event)
		require.True(j.t, at == last+1 || r.Event == lifeloop.SessionEnding && last == 0, "%s after %v", r.Event, had)
		j.sessions[f.Scope] = append(had, r.Event)
		if r.Event == lifeloop.SessionEnded {
			require.Empty(j.t, j.open, "a frame outlives its session")
		}
	case r.Event.Frame():
		require.Equal(j.t, lifeloop.SessionStarted, had[len(had)-1], "a frame outside of a session")
		id := r.FrameContext.FrameID
		before := j.frames[id]
		require.Less(j.t, len(before), len(frameOrder), "frame %s is over", id)
		require.Equal(j.t, frameOrder[len(before)], r.Event, "frame %s had %v", id, before)
		j.frames[id] = append(before, r.Event)
		switch r.Event {
		case lifeloop.FrameOpening:
			require.NotContains(j.t, j.open, id)
			if p := r.FrameContext.ParentFrameID; p != nil {
				require.Contains(j.t, j.open, *p, "the parent of %s", id)
				j.parent[id] = *p
				j.reach["frame inside another"]++
			}
			j.open = append(j.open, id)
		case lifeloop.FrameEnded:
			for _, other := range j.open {
				require.NotEqual(j.t, id, j.parent[other], "%s outlives its parent: innermost first", other)
			}
			j.open = slices.DeleteFunc(j.open, func(s string) bool { return s == id })
			j.reach[fmt.Sprint("frame ", r.Data["outcome"])]++
		}
	case r.Event == lifeloop.ContextPressureObserved, r.Event == lifeloop.ContextCompacted:
		require.NotContains(j.t, had, lifeloop.SessionEnded, "%s of a session that is over", r.Event)
	}
	var receivers []string
	for _, c := range j.cfg.Clients {
		// A client that requires the lost capability is called even without a subscription.
		lost := slices.ContainsFunc(c.Wants, func(w negotiate.Want) bool {
			return f.Degradation != nil && w.Capability == f.Degradation.Capability && w.Level == lifeloop.Required
		})
		if (c.Events[r.Event] || lost) && !j.ledgerLost {
			receivers = append(receivers, c.ID)
		}
		for _, also := range f.Also { // a capability that a client wants has its own event, and is not listed in Also
			require.False(j.t, slices.ContainsFunc(c.Wants, func(w negotiate.Want) bool { return w.Capability == also.Capability }), "%+v", f)
			require.Equal(j.t, f.Degradation.PreviousSupport.Stronger(f.Degradation.CurrentSupport), also.PreviousSupport.Stronger(also.CurrentSupport), "%+v", f)
		}
	}
	j.owns(f)
	j.skips(f)
	calls := slices.Clone(f.Skipped)
	for _, c := range f.Calls {
		calls = append(calls, c.Client)
		j.calls[c.Call] = c.Client
		j.made[c.Call] = madeCall{len(j.made) + 1, f.Scope, r.Event, r.EventID, c.Client}
		if r.Event != lifeloop.ReceiptEmitted {
			j.owed[c.Client] = append(j.owed[c.Client], c.Call)
		}
	}
	if r.Event == lifeloop.ReceiptEmitted {
		require.Subset(j.t, receivers, calls)
		return // receipt.emitted makes no receipt of its own, and a client that is behind does not receive it
	}
	require.ElementsMatch(j.t, receivers, calls, "the clients that subscribed to %s are called once each, or skipped", r.Event)
	if len(j.cfg.Clients) == 0 && (j.cfg.Ledger || !j.cfg.Observing) && r.Event != lifeloop.SupervisorTick {
		receivers = []string{"lifeloop-wrap"}
	}
	slices.Sort(receivers)
	j.receivers[r.EventID] = strings.Join(receivers, " ")
}

func (j *judge) receipt(f kernel.ReceiptIssued) {
	r := f.Receipt
	j.claim(r.EventID, r.AdapterID, r.HarnessRunID, r.HarnessSessionID)
	j.reach["receipt "+string(r.Status)]++
	j.inOrder(f)
	if f.Replay {
		j.replayed(f)
		return
	}
	if j.cfg.Ledger && !j.ledgerLost {
		require.NotNil(j.t, r.Sequence)
		n := j.numbers[f.Scope]
		if id := r.HarnessSessionID; id != nil {
			n = j.idNumbers[*id] // the scope may have another id by now
			if n != j.numbers[f.Scope] {
				j.reach["number of an earlier id"]++
			}
		}
		j.sequence[n]++
		require.Equal(j.t, j.sequence[n], *r.Sequence, "dense from 1")
		if r.HarnessSessionID != nil {
			key := fmt.Sprint(*r.HarnessSessionID, " #", *r.Sequence)
			require.False(j.t, j.numbered[key], "two receipts %s", key)
			j.numbered[key] = true
		}
	} else {
		require.Nil(j.t, r.Sequence, "a receipt has a number without a ledger")
	}
	if r.ParentReceiptID != nil {
		parent, known := j.issued[*r.ParentReceiptID]
		require.True(j.t, known, "a parent comes first")
		if f.Renewal == "" { // the receipts of a renewal are linked across invocations
			require.Equal(j.t, []string{r.ClientID, r.InvocationID}, []string{parent.ClientID, parent.InvocationID})
		}
	}
	require.NotContains(j.t, j.issued, r.ReceiptID, "a receipt's id is its own")
	j.issued[r.ReceiptID] = r
	require.Equal(j.t, j.about[r.EventID], f.Frame, "a receipt names the frame of its event")
	j.linked(f)
	j.transitions(r)
	delete(j.calls, f.Call)
	if f.Skipped != nil {
		j.skipped(f)
		return
	}
	if f.Call == "" && j.receivers[r.EventID] == "" {
		return // receipts of a session that was refused
	}
	j.credit(r.EventID, r.ClientID)
}

// transitions checks that a receipt lists only capabilities that changed, each one once.
func (j *judge) transitions(r lifeloop.Receipt) {
	named := map[string]bool{}
	for _, d := range r.CapabilityDegradations {
		require.False(j.t, named[d.Capability], "%s is listed twice", d.Capability)
		require.NotEqual(j.t, d.PreviousSupport, d.CurrentSupport, "%s did not change", d.Capability)
		named[d.Capability] = true
		if d.Capability == "placement."+string(lifeloop.DeveloperEquivalentFrame) {
			require.Equal(j.t, j.cfg.Manifest.Placement[lifeloop.PreSession].Support, d.PreviousSupport, "the slot is as claimed")
			j.reach["another voice"]++
		}
	}
}

// replayed checks a receipt that is issued again: it is unchanged, and of the same
// client and the same harness session.
func (j *judge) replayed(f kernel.ReceiptIssued) {
	first, known := j.issued[f.Receipt.ReceiptID]
	require.True(j.t, known, "a replay of no receipt")
	require.Equal(j.t, first, f.Receipt)
	call := j.made[f.Call]
	require.Equal(j.t, j.contexts[call.scope], j.contexts[j.scopeOf[first.EventID]], "a replay across harness sessions")
	require.Equal(j.t, j.of[call.id].adapter, first.AdapterID, "a replay across adapters")
	if call.scope != j.scopeOf[first.EventID] {
		j.reach["receipt replayed in a continued session"]++
	}
	delete(j.calls, f.Call)
	j.reach["receipt replayed"]++
	j.credit(call.id, first.ClientID)
}

// once checks that a payload is not delivered again under its key in one harness
// session of one adapter.
func (j *judge) once(f kernel.PayloadSettled) {
	key, call := j.keyed[fmt.Sprint(f.Call, "#", f.Index)], j.made[f.Call]
	if key == "" || f.Status != lifeloop.Delivered || f.Why == "replayed" {
		return
	}
	key = fmt.Sprint(j.contexts[call.scope], " ", j.of[call.id].adapter, " ", key)
	require.False(j.t, j.delivered[key], "%s is delivered twice", key)
	j.delivered[key] = true
}

// credit checks that a client gets only one receipt for an event.
func (j *judge) credit(event, client string) {
	if j.receipts[event] == nil {
		j.receipts[event] = map[string]int{}
	}
	j.receipts[event][client]++
	require.Equal(j.t, 1, j.receipts[event][client], "one receipt per event and client")
}

// inOrder checks that the receipts of a client follow the order of observation, and
// that no event of a session or a frame was dropped. Such an event may be dropped only
// at an abort, at a recovery, without a ledger, or after the clients' time to answer.
func (j *judge) inOrder(f kernel.ReceiptIssued) {
	if f.Call == "" {
		return // a receipt of the wrapper as its own client, or of skipped events
	}
	owed := j.owed[f.Receipt.ClientID]
	require.NotEmpty(j.t, owed)
	require.Equal(j.t, owed[0], f.Call, "a receipt before those of earlier events")
	j.owed[f.Receipt.ClientID] = owed[1:]
	event := j.made[f.Call].event
	if _, waits := j.calls[f.Call]; waits && (event.Session() || event.Frame()) {
		over := !j.drainDue.IsZero() && !j.now.Before(j.drainDue)
		require.True(j.t, over || j.hurry || j.ledgerLost, "%s is dropped", event)
	}
}

func (j *judge) effect(e effect.Effect) {
	j.reach[strings.Replace(fmt.Sprintf("%T", e), "effect.", "effect ", 1)]++
	if j.cfg.Gate != "" {
		j.guardAccount.effect(j.t, e)
	}
	switch e := e.(type) {
	case effect.PrepareRenewal, effect.ContinueRenewal, effect.DiscardToken, effect.TypeKeys:
		j.renewalEffect(e)
	case effect.Launch:
		j.launched++
		j.permitted = true
		require.Equal(j.t, e.Fresh, j.fresh, "a fresh start is that of a renewal")
		require.False(j.t, j.running || j.due, "one harness at a time, and read to its end")
		require.Equal(j.t, j.launched+j.withheld, e.Number)
		j.running = true
	case effect.Suspend, effect.Continue:
		_, j.suspended = e.(effect.Suspend)
		require.True(j.t, j.running)
	case effect.Release:
		j.released++
	case effect.DrainSources:
		j.drains++
		j.due = true
	case effect.EndClients:
		require.Empty(j.t, j.flying, "a client is ended while it is called")
	case effect.Dispatch:
		require.False(j.t, j.ledgerLost, "a client is called although the ledger is lost")
		require.Positive(j.t, e.Timeout)
		require.NotContains(j.t, j.flying, e.Client, "one call in flight per client")
		j.flying[e.Client] = e.Call
		r := e.Envelope.Request
		j.claim(r.EventID, r.AdapterID, r.HarnessRunID, r.HarnessSessionID)
	case effect.Reply:
		if i := slices.Index(j.owes, e.Ask); j.asking == "" && i >= 0 {
			j.owes = slices.Delete(j.owes, i, i+1)
		} else {
			require.Equal(j.t, j.asking, e.Ask)
			j.asking = ""
		}
		j.reach["reply "+string(e.Failure)]++
	case effect.Cancel:
		j.landed(e.Call)
	case effect.HookAnswer:
		a := j.asked[e.Hook]
		require.NotNil(j.t, a)
		require.False(j.t, a.gone && !a.waits, "an answer to a hook that is gone")
		j.renewalEffect(e)
		a.answers++
		require.Equal(j.t, 1, a.answers, "hook %s is answered twice", e.Hook)
		if e.Context.Len() > 0 {
			j.reach["effect HookAnswer with payloads"]++
			require.False(j.t, j.ledgerLost, "a payload is placed although the ledger is lost")
			require.LessOrEqual(j.t, e.Context.Len(), a.capacity)
		}
	}
}

// crash kills the wrapper: only the ledger is left.
func (j *judge) crash() {
	j.k = kernel.Replay(j.cfg, slices.Values(j.hcp.entries))
	checkReplay(j.t, j.k, j.shadow)
	if j.running {
		j.crashed++
	}
	j.running, j.due, j.suspended, j.asking, j.owes = false, false, false, "", nil
	j.forget()
	clear(j.flying)
	clear(j.placed)
	maps.DeleteFunc(j.asked, func(_ string, a *asked) bool { return a.recorded == 0 || !a.gone && a.answers == 0 })
	j.reach["crash"]++
}

// ended checks what must be true at the end.
func (j *judge) ended() {
	_, done := j.k.Done()
	require.Empty(j.t, j.owes, "every command is answered")
	require.True(j.t, done, "not done, although the harness is gone, the sources are read and the drain is over")
	j.hcp.ended(j.t, j.refused, j.reach)
	j.hcp.readAgain(j.t)
	j.l0.ended(j.t, j.reach)
	j.l0.readAgain(j.t)
	if j.refused {
		require.Zero(j.t, j.launched)
		require.Empty(j.t, j.receivers, "a refused session has an event")
		return
	}
	if !j.cfg.Observing {
		require.Positive(j.t, j.launched)
		require.Equal(j.t, j.launched-j.crashed, j.released, "the terminal is given back once for each launch")
		require.Nil(j.t, j.spent.next, "a next attempt is planned after the end")
		require.Len(j.t, j.closed, j.launched+j.withheld-j.renewals, "each attempt has its end")
		require.Empty(j.t, j.open, "frames are left open")
		for scope := 1; scope <= j.scope; scope++ {
			require.Contains(j.t, j.sessions[scope], lifeloop.SessionEnded, "scope %d", scope)
		}
	}
	j.renewalsEnded()
	for event, clients := range j.receivers {
		require.Equal(j.t, clients, strings.Join(slices.Sorted(maps.Keys(j.receipts[event])), " "), "receipts of %s", event)
	}
	for key, n := range j.payloads {
		require.Equal(j.t, 1, n, "payload %s", key)
	}
	for id, a := range j.asked {
		require.Equal(j.t, 1, a.recorded, "hook %s is on the ledger once", id)
		if !a.gone {
			require.Equal(j.t, 1, a.answers, "hook %s is answered once", id)
		}
	}
	require.Empty(j.t, j.flying, "a client is left running")
}

// A fate draws one random world: inputs of the right type, in an order that is
// possible for the supervisor, with values that need not make sense.
type fate struct {
	*judge
	r       *rapid.T
	calm    int // a larger number makes unexpected inputs rarer
	hooks   int
	turns   int
	old     []string                                // calls that were in flight earlier
	sent    map[string][][]lifeloop.PayloadEnvelope // payloads with keys, by client
	alive   bool
	pending bool // the harness was launched and does not run yet
	bytes   int64
	past    []moment
}

type moment struct {
	now time.Time
	in  input.Input
}

// String describes a world whose test failed.
func (w *fate) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "a world of %+v\n", w.cfg)
	for _, m := range w.past {
		words, err := json.Marshal(m.in)
		if err != nil {
			words = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s  %s %s\n", m.now.Format("15:04:05.000"), strings.TrimPrefix(fmt.Sprintf("%T", m.in), "kernel."), words)
	}
	return b.String()
}

// roll draws one of n numbers with equal probability. rapid prefers small numbers,
// which is right for sizes and wrong for probabilities. rapid can still shrink the
// numbers of a failing world to 0.
func roll(r *rapid.T, label string, n int) int {
	x := rapid.Uint16().Draw(r, label)
	return int(uint64(x) * 0x9E3779B97F4A7C15 >> 40 % uint64(n))
}

func pick[T any](r *rapid.T, label string, from ...T) T { return from[roll(r, label, len(from))] }

func chance(r *rapid.T, label string, of int) bool { return roll(r, label, of) == of-1 }

func (w *fate) feed(in input.Input) {
	w.past = append(w.past, moment{w.now, in})
	launched := w.launched
	w.step(in)
	if w.launched > launched {
		w.pending, w.alive = true, false
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// drawConfig draws what is fixed for the life of a kernel.
func drawConfig(r *rapid.T) kernel.Config {
	n := map[string]int{}
	cfg := kernel.Config{
		Session: "sess", Ledger: !chance(r, "no ledger", 5), ClientDrain: pick(r, "drain", time.Second, 5*time.Second),
		Limits:    setup.Limits{AbortGrace: 5 * time.Second, FirstHook: pick(r, "first hook", 0, 2*time.Second), ClientPatience: pick(r, "patience", 0, 0, -1, 300*time.Millisecond, 10*time.Second), MaxQueue: pick(r, "max queue", 0, 1, 2, 3), MaxCalls: pick(r, "max calls", 0, 0, 2, 5)},
		Observing: chance(r, "observing", 10),
		Tick:      pick(r, "tick", 0, 30*time.Second),
		NewID:     func(p string) string { n[p]++; return fmt.Sprint(p, n[p]) },
		Began:     kernel.Began{SessionID: "sess", AdapterID: "fake", Clients: []string{}},
		Launch: setup.Launch{Injected: setup.Injected{Hooks: !chance(r, "no hooks", 4)}, NoTelemetry: chance(r, "no telemetry", 8),
			HarnessSession: pick(r, "id", "S1", "S1", ""), Versions: setup.Versions{Tested: pick(r, "tested", nil, []string{"1"}, []string{"1", "2"})},
			Manifest: lifeloop.Manifest{AdapterID: "fake", AdapterVersion: "0.1.0", LifecycleEvents: map[lifeloop.Event]lifeloop.EventClaim{},
				ContextPressure: lifeloop.Claim{Support: drawSupport(r, "context pressure")},
				Receipts:        lifeloop.ReceiptClaims{ReceiptLedger: lifeloop.Synthesized},
				Placement:       map[lifeloop.Placement]lifeloop.PlacementClaim{}}},
	}
	cfg.Rests = profiles.RestsOf("claude").Reading("hooks", "transcript", "registry")
	for _, source := range []string{"hooks", "transcript"} {
		cfg.Manifest.TelemetrySources = append(cfg.Manifest.TelemetrySources, lifeloop.TelemetrySource{Name: source, Support: drawSupport(r, "claim "+source)})
	}
	cfg.HookAtPrompt = chance(r, "first hook with the first prompt", 4)
	if chance(r, "expected", 2) {
		cfg.Expected = []string{"transcript"}
	}
	cfg.Synth = synth.Config{Hooks: cfg.Hooks, Statusline: chance(r, "statusline", 2)}
	for _, e := range lifeloop.Events() {
		cfg.Manifest.LifecycleEvents[e] = lifeloop.EventClaim{Support: drawSupport(r, "claim "+string(e)), Modes: []lifeloop.IntegrationMode{lifeloop.NativeHook, lifeloop.TelemetryOnly}}
	}
	for _, p := range lifeloop.Placements() {
		limit := pick(r, "limit", int64(64), 8192)
		cfg.Manifest.Placement[p] = lifeloop.PlacementClaim{Support: drawSupport(r, "claim "+string(p)), MaxBytes: &limit,
			SeenAs: pick(r, "seen as", "", lifeloop.SeenAsUser, lifeloop.SeenAsDeveloper)}
	}
	if chance(r, "weak", 4) {
		cfg.Weak = []setup.Weakness{{Capability: string(lifeloop.FrameOpening), Reason: "the user turned it off"}, {Capability: "placement.pre_session"}}
	}
	if chance(r, "policy", 2) {
		cfg.Policy = drawPolicy(r)
		cfg.Resumes, cfg.Quit = chance(r, "resumes", 2), pick(r, "quit", 0, 2)
		for i := range cfg.Policy.Profiles {
			m := cfg.Manifest
			if i > 0 && !chance(r, "same adapter", 3) {
				m.AdapterID = fmt.Sprint("fake", i)
			}
			cfg.Policy.Profiles[i].Adapter = m.AdapterID
			cfg.Manifests = append(cfg.Manifests, m)
		}
	}
	drawRenewals(r, &cfg)
	drawGate(r, &cfg)
	if cfg.Observing {
		cfg.Policy, cfg.Renewals = attempt.Policy{}, nil
		cfg.Hooks, cfg.Synth.Hooks, cfg.NoTelemetry, cfg.HarnessSession, cfg.Weak = false, false, false, "", nil
	}
	for i := range roll(r, "clients", 4) {
		c := setup.Client{ID: fmt.Sprint("client", i+1), Events: map[lifeloop.Event]bool{}, Timeout: pick(r, "timeout", time.Second, 30*time.Second)}
		for _, e := range lifeloop.Events() {
			c.Events[e] = !chance(r, "does not want "+string(e), 4)
		}
		if chance(r, "wants", 4) {
			c.Wants = []negotiate.Want{{Capability: pick(r, "want", "frame.opening", "approval_surface", "context_pressure"),
				Level: pick(r, "level", lifeloop.Required, lifeloop.Preferred, lifeloop.Preferred)}}
		}
		cfg.Clients = append(cfg.Clients, c)
	}
	return cfg
}

// drawPolicy draws how attempts are supervised. Budgets are small, so that
// worlds use them up.
func drawPolicy(r *rapid.T) attempt.Policy {
	p := attempt.Policy{Retries: attempt.Retries{Attempts: pick(r, "attempts", 0, 1, 2, 2), MaxRetries: pick(r, "max retries", 0, 3, 6, 6), On: attempt.DefaultOn(),
		Backoff: attempt.Backoff{Kind: pick(r, "backoff", attempt.Fixed, attempt.Linear, attempt.Exponential),
			Base: pick(r, "base", 0, time.Second, 10*time.Second), Jitter: pick(r, "jitter", attempt.NoJitter, attempt.FullJitter, attempt.FixedJitter)},
		OnLimit: pick(r, "on limit", attempt.LimitOff, attempt.LimitOff, attempt.LimitWait, attempt.LimitFallback, attempt.LimitExit)},
		Timeouts: attempt.Timeouts{Initial: pick(r, "initial", 0, 0, 0, time.Second, time.Minute),
			Inter:   pick(r, "inter", 0, 0, 0, time.Second, time.Minute),
			Tool:    pick(r, "tool time", 0, time.Second, time.Second, time.Minute),
			Session: pick(r, "session time", 0, 0, 0, 0, 20*time.Second, time.Hour),
			Idle:    pick(r, "idle time", 0, 0, 0, 0, 20*time.Second, time.Hour)},
		Profiles: []attempt.Profile{{Name: "one"}}, Continuation: chance(r, "continuation", 2), CheckpointEvery: 2,
		Checks: attempt.Checks{Repeat: pick(r, "repeat", 0, 2), ZeroOutput: chance(r, "zero output", 3)}}
	p.On[attempt.Unknown] = chance(r, "on unknown", 2)
	p.Decide = pick(r, "decide", 0, 0, 0, 2*time.Second)
	for i := range pick(r, "fallbacks", 0, 1, 2) {
		p.Profiles = append(p.Profiles, attempt.Profile{Name: fmt.Sprint("spare", i), AcceptsContinuation: chance(r, "accepts", 2),
			Missing: pick(r, "missing", "", "", "not found")})
	}
	if chance(r, "rules", 2) {
		p.Rules = []attempt.Rule{{ID: "r1", On: pick(r, "rule on", attempt.OnOutput, attempt.OnExit), Pattern: regexp.MustCompile("bad"),
			Severity: pick(r, "severity", attempt.Warning, attempt.Error, attempt.Error, attempt.Grave), Recoverable: !chance(r, "beyond recovery", 4)}}
	}
	if chance(r, "loop", 3) {
		p.Loop = attempt.CrashLoop{Launches: 2, Within: 10 * time.Second, Quarantine: time.Minute}
	}
	return p
}

func drawSupport(r *rapid.T, label string) lifeloop.Support {
	if !chance(r, label+" is weak", 4) {
		return lifeloop.Native
	}
	return pick(r, label, lifeloop.Synthesized, lifeloop.Partial, lifeloop.Manual, lifeloop.Unavailable)
}

// drawSession draws a session, mostly the one that is open.
func (w *fate) drawSession() string {
	if !chance(w.r, "another session", w.calm) {
		return w.id
	}
	return pick(w.r, "session", "", "S1", "S2", "S3")
}

// drawTurn draws a turn: mostly the newest one, else an older one or none.
func (w *fate) drawTurn() string {
	newest := fmt.Sprint("p", w.turns)
	return pick(w.r, "turn", newest, newest, newest, fmt.Sprint("p", max(1, w.turns-1)), "")
}

// drawEnding draws the frame that ends, mostly the one that is open.
func (w *fate) drawEnding() string {
	if len(w.open) > 0 && !chance(w.r, "another turn", 3) {
		return w.open[len(w.open)-1]
	}
	return w.drawTurn()
}

func (w *fate) drawSignal(source string) telemetry.Signal {
	sig := telemetry.Signal{Source: source, Detail: "r", Session: w.drawSession()}
	if chance(w.r, "agent", 12) {
		sig.Agent = "a1"
	}
	switch roll(w.r, "at", 4) {
	case 0:
		sig.At = w.now
	case 1:
		sig.At = w.now.Add(-time.Hour)
	}
	sig.Kind = pick(w.r, "kind", telemetry.SessionLive, telemetry.Prompt, telemetry.Prompt, telemetry.Prompt,
		telemetry.Working, telemetry.Working, telemetry.Idle, telemetry.Idle, telemetry.NeedsInput, telemetry.TurnStop, telemetry.TurnEnd,
		telemetry.UsageSeen, telemetry.UsageSeen, telemetry.WindowSeen, telemetry.Compacting, telemetry.Compacted, telemetry.ToolStart,
		telemetry.ToolEnd, telemetry.LimitWait, telemetry.Fault, telemetry.Gap, telemetry.Alive)
	if chance(w.r, "gone", 20) {
		sig.Kind = telemetry.SessionGone
	}
	w.detail(&sig)
	return sig
}

// detail sets the fields that belong to the kind of a signal.
func (w *fate) detail(sig *telemetry.Signal) {
	switch sig.Kind {
	case telemetry.SessionLive:
		sig.Version = pick(w.r, "version", "", "1", "2", "3")
		sig.Cause = pick(w.r, "cause", "startup", "resume", "clear", "fork", "unknown", "")
		sig.Path = pick(w.r, "path", "", "/f1", "/f2")
	case telemetry.SessionGone:
		sig.Reason = pick(w.r, "reason", "clear", "resume", "logout", "")
	case telemetry.Prompt:
		if !chance(w.r, "an old turn", 4) {
			w.turns++
		}
		sig.Turn = w.drawTurn()
	case telemetry.TurnStop, telemetry.TurnEnd:
		sig.Turn = w.drawEnding()
		sig.Outcome = pick(w.r, "outcome", telemetry.Completed, telemetry.Failed, telemetry.Interrupted, telemetry.Outcome(""))
		if sig.Kind == telemetry.TurnStop && sig.Outcome == "" {
			sig.Outcome = telemetry.Completed
		}
		if sig.Outcome == telemetry.Failed {
			sig.Error = pick(w.r, "error", telemetry.ErrServer, telemetry.ErrAuth, telemetry.ErrContextFull, telemetry.ErrUnknown)
		}
	case telemetry.UsageSeen:
		sig.Usage = &telemetry.Usage{ID: "m", Used: rapid.Int64Range(0, 250_000).Draw(w.r, "used"), Estimate: chance(w.r, "estimate", 6)}
		if chance(w.r, "with window", 2) {
			sig.Window, sig.WindowSource = 200_000, pick(w.r, "window source", "statusline", "reported", "table")
		}
		if chance(w.r, "call", 3) {
			sig.Usage.ID, sig.Usage.Input, sig.Usage.Output = pick(w.r, "call id", "m1", "m2", "m3"), 10, rapid.Int64Range(1, 9).Draw(w.r, "output")
		}
		sig.Side = pick(w.r, "side", "", "", "", "title")
	case telemetry.LimitWait:
		if chance(w.r, "until", 2) {
			sig.Until = w.now.Add(time.Minute)
		}
	case telemetry.ToolStart, telemetry.ToolEnd:
		sig.Tool = pick(w.r, "tool", "t1", "t2")
	case telemetry.WindowSeen:
		sig.Window, sig.WindowSource = pick(w.r, "window", int64(200_000), 1_000_000), pick(w.r, "window source", "statusline", "reported", "suffix")
	case telemetry.Gap:
		sig.Missing = &[2]uint64{7, 9}
	case telemetry.Compacted:
		sig.Compaction = &telemetry.Compaction{Half: pick(w.r, "half", "hook", "record"), Trigger: pick(w.r, "trigger", "auto", "manual", "unknown")}
		if chance(w.r, "knows before", 2) {
			before := int64(160_000)
			sig.Compaction.Before = &before
		}
	}
}

// drawHook draws the call of a hook: mostly one that a harness could make.
func (w *fate) drawHook() input.HookCalled {
	w.hooks++
	in := input.HookCalled{Hook: fmt.Sprint("h", w.hooks)}
	wait := pick(w.r, "wait", 4*time.Second, 4*time.Second, 500*time.Millisecond, 0, -time.Second)
	in.Deadline = w.now.Add(wait)
	sig := telemetry.Signal{Source: "hook", Session: w.drawSession()}
	c := &in.Call
	c.Capacity = pick(w.r, "capacity", 9500, 9500, 200)
	switch c.Event = pick(w.r, "event", "SessionStart", "UserPromptSubmit", "UserPromptSubmit", "UserPromptSubmit", "PostToolUse", "PostToolUse", "Stop", "PostCompact", "SessionEnd", "Other", "PreToolUse", "PreToolUse"); c.Event {
	case "SessionStart":
		c.Slot, sig.Kind = "pre_session", telemetry.SessionLive
	case "UserPromptSubmit":
		c.Slot, sig.Kind = "pre_frame_trailing", telemetry.Prompt
	case "PostToolUse":
		c.Slot, sig.Kind = "tool_result", telemetry.ToolEnd
	case "PreToolUse":
		sig.Kind = telemetry.ToolStart
		c.Use = &telemetry.ToolUse{Tool: "t1", Name: "Bash", CanAsk: chance(w.r, "can ask", 2)}
	case "Stop":
		sig.Kind = telemetry.TurnStop
		c.Clears = w.cfg.Means == renewal.ByHook && chance(w.r, "can empty the context", 2)
	case "PostCompact":
		sig.Kind = telemetry.Compacted
	case "SessionEnd":
		sig.Kind = telemetry.SessionGone
	default:
		sig.Kind = telemetry.Alive
	}
	w.detail(&sig)
	sig.Detail = c.Event
	c.Session, c.Turn, c.Signals = sig.Session, sig.Turn, []telemetry.Signal{sig}
	if chance(w.r, "two signals", 8) {
		c.Signals = append(c.Signals, w.drawSignal("hook"))
	}
	return in
}

// drawAnswer draws the answer of a client, or its failure.
func (w *fate) drawAnswer(call, client string) input.Returned {
	in := input.Returned{Call: call}
	if chance(w.r, "no answer", 5) {
		in.Failure = pick(w.r, "failure", lifeloop.Timeout, lifeloop.TransportError, lifeloop.InvalidRequest, lifeloop.FailureClass(""))
		in.Why = pick(w.r, "why", "", "said so")
		return in
	}
	r := &lifeloop.CallbackResponse{Status: pick(w.r, "status", lifeloop.Observed, lifeloop.Observed, lifeloop.Delivered, lifeloop.Skipped, lifeloop.Failed)}
	if r.Status == lifeloop.Failed {
		class := pick(w.r, "class", lifeloop.StateConflict, lifeloop.Timeout)
		r.FailureClass = &class
	}
	again, keyed := w.drawAgain(client), chance(w.r, "with keys", 2)
	if again != nil {
		r.ClientPayloads = again
	}
	for i := range pick(w.r, "payloads", 0, 0, 1, 1, 2, 3) {
		if again != nil {
			break
		}
		text := strings.Repeat("x", pick(w.r, "size", 1, 10, 100, 9000))
		body := lifeloop.NewOpaque(text)
		p := lifeloop.PayloadEnvelope{SchemaVersion: 1, PayloadID: fmt.Sprint("pay_", i+1), ClientID: client, PayloadKind: "note",
			Format: "text", ContentEncoding: "utf8", Body: &body, ByteSize: int64(len(text)), Redaction: "none", Metadata: map[string]any{}}
		places := pick(w.r, "placements",
			[]lifeloop.PayloadPlacement{lifeloop.PrePromptFrame}, []lifeloop.PayloadPlacement{lifeloop.DeveloperEquivalentFrame},
			[]lifeloop.PayloadPlacement{lifeloop.SideChannelContext}, []lifeloop.PayloadPlacement{lifeloop.ReceiptOnly},
			[]lifeloop.PayloadPlacement{lifeloop.SideChannelContext, lifeloop.PrePromptFrame},
			[]lifeloop.PayloadPlacement{lifeloop.PrePromptFrame, lifeloop.ReceiptOnly})
		if w.owners[call].next() && chance(w.r, "for the next prompt", 2) {
			places = []lifeloop.PayloadPlacement{lifeloop.PrePromptFrame}
		}
		for _, place := range places {
			p.AcceptablePlacements = append(p.AcceptablePlacements, lifeloop.AcceptablePlacement{Placement: place,
				Requirement: pick(w.r, "requirement", lifeloop.Required, lifeloop.Preferred)})
		}
		if chance(w.r, "expires", 3) {
			at := w.now.Unix() + pick(w.r, "in seconds", int64(-1), 0, 1, 3)
			p.ExpiresAtEpochS = &at
		}
		if keyed && !chance(w.r, "without a key", 8) {
			key := pick(w.r, "key", "k1", fmt.Sprint("k", len(w.old), "-", i), fmt.Sprint("k", len(w.old), "-", i))
			p.IdempotencyKey = &key
		}
		r.ClientPayloads = append(r.ClientPayloads, p)
	}
	if len(r.ClientPayloads) > 0 && again == nil && keyed {
		w.sent[client] = append(w.sent[client], r.ClientPayloads)
	}
	require.NoError(w.t, r.Validate(lifeloop.Version), "the generator draws valid answers")
	in.Response = r
	return in
}

// drawAgain draws the payloads of an earlier answer, or nothing. Their content may
// differ under the same keys.
func (w *fate) drawAgain(client string) []lifeloop.PayloadEnvelope {
	sent := w.sent[client]
	if len(sent) == 0 || !chance(w.r, "again", 3) {
		return nil
	}
	again := slices.Clone(pick(w.r, "which", sent[len(sent)-1], pick(w.r, "older", sent...)))
	if chance(w.r, "not quite", 4) {
		again[0].PayloadKind = "other"
	}
	if chance(w.r, "one of them", 6) {
		again = again[:1]
	}
	return again
}

// drawDecision draws the answer of the policy's program, mostly to the newest question.
func (w *fate) drawDecision() input.Decided {
	newest := w.questions[len(w.questions)-1]
	in := input.Decided{Ask: pick(w.r, "question", newest, newest, newest, w.questions[0]), Retry: !chance(w.r, "refused", 3)}
	switch {
	case chance(w.r, "no decision", 4):
		in.Failure, in.Why = lifeloop.TransportError, "said so"
	case chance(w.r, "a delay", 2):
		in.DelayMS = new(pick(w.r, "delay", int64(0), 1, 7000, 1<<40))
	}
	return in
}

// act draws the next input.
func (w *fate) act() {
	r := w.r
	w.pass()
	if w.pending && !chance(r, "before it runs", 8) {
		w.start()
		return
	}
	if w.due && chance(r, "read to the end", 2) {
		w.feed(input.SourcesDrained{})
		return
	}
	if len(w.unanswered()) > 0 && !chance(r, "before the gate answers", 4) {
		w.decides()
		return
	}
	if len(w.cfg.Renewals) > 0 && !chance(r, "something else", 3) && w.advance() {
		return
	}
	what := []string{"signal", "signal", "signal", "wake", "wake", "trouble", "answer", "answer", "answer", "answer", "answer", "answer"}
	if w.cfg.Observing && chance(r, "crash", w.calm) {
		what = []string{"crash"}
	}
	if !w.cfg.Observing {
		what = append(what, "hook", "hook", "hook", "hook", "close", "close", "close", "output", "frame", "frame")
		if w.cfg.Policy.On != nil { // a policy was drawn
			what = append(what, "output", "output", "output", "failure", "failure", "checkpoint", "exit", "exit", "command")
		}
		if len(w.questions) > 0 {
			what = append(what, "decision")
		}
		if w.cfg.Gate != "" {
			what = append(what, "gate", "approval", "approval")
		}
		if len(w.cfg.Renewals) > 0 {
			what = append(what, "renewal", "renewal", "renewal")
		}
		if w.question != nil && chance(r, "it decides", 3) {
			what = []string{"decision"}
		}
		if chance(r, "rare", w.calm) {
			what = []string{"rare", "stale answer"}
		}
	}
	if w.cfg.Gate != "" && w.launched == 0 { // there is no harness yet
		what = []string{"gate", "approval", "approval", "wake", "frame", "command", "rare"}
	}
	acts[pick(r, "what", what...)](w)
}

// start decides the launch that is under way: the harness runs, or the launch
// fails.
func (w *fate) start() {
	w.pending = false
	if chance(w.r, "launch fails", 30) {
		w.feed(input.LaunchFailed{Code: pick(w.r, "why", 125, 126, 127)})
		return
	}
	w.alive = true
	w.feed(input.Launched{PID: 42})
}

// acts are the inputs that act chooses from.
var acts = map[string]func(*fate){
	"signal": (*fate).signal,
	"wake":   func(w *fate) { w.feed(input.Wake{}) },
	"trouble": func(w *fate) {
		w.feed(input.SourceTrouble{Source: "transcript", What: input.Trouble(pick(w.r, "trouble", "polling", "recovered", "deleted", "truncated", "stopped"))})
		w.feed(input.UnknownSeen{Source: "transcript", Types: map[string]int{"novelty": w.hooks + 1}})
	},
	"hook": func(w *fate) { w.feed(w.drawHook()) },
	"answer": func(w *fate) {
		if len(w.flying) == 0 {
			return
		}
		client := pick(w.r, "client", slices.Sorted(maps.Keys(w.flying))...)
		call := w.flying[client]
		w.old = append(w.old, call)
		in := w.drawAnswer(call, client)
		if len(w.cfg.Renewals) > 0 && chance(w.r, "asks for a renewal", 6) {
			in.Renew = pick(w.r, "profile", "p1", "p1", "p2")
		}
		w.feed(in)
	},
	"decision":     func(w *fate) { w.feed(w.drawDecision()) },
	"stale answer": func(w *fate) { w.feed(w.drawAnswer(pick(w.r, "call", append(w.old, "call_none")...), "client1")) },
	"close": func(w *fate) {
		// A hook with an answer may report its delivery. A hook without an answer
		// may only end.
		id := fmt.Sprint("h", pick(w.r, "which", w.hooks, w.hooks, max(0, w.hooks-1), w.hooks/2))
		w.feed(input.HookClosed{Hook: id, Delivered: !chance(w.r, "not delivered", 3) && w.asked[id] != nil && w.asked[id].answers > 0})
	},
	"frame":  (*fate).frame,
	"output": (*fate).output,
	"failure": func(w *fate) {
		w.feed(input.FailureSeen{Cause: pick(w.r, "cause", attempt.Model, attempt.Network, attempt.RateLimit, attempt.Fatal, attempt.Unknown),
			Until: pick(w.r, "until", time.Time{}, w.now.Add(time.Minute)), Source: "stream"})
	},
	"checkpoint": func(w *fate) { w.feed(input.CheckpointSeen{Checkpoint: pick(w.r, "checkpoint", "T1", "T2")}) },
	"exit": func(w *fate) {
		if w.alive {
			w.exit()
		}
	},
	"command":  (*fate).command,
	"renewal":  (*fate).renews,
	"gate":     (*fate).decides,
	"approval": (*fate).approves,
	"rare":     (*fate).rare,
	"crash":    (*fate).crash,
}

func (w *fate) signal() {
	source := pick(w.r, "source", "transcript", "registry", "terminal", "statusline")
	in := input.SignalsSeen{Signals: []telemetry.Signal{w.drawSignal(source)}}
	if chance(w.r, "more", 3) {
		in.Signals = append(in.Signals, w.drawSignal(source))
	}
	if source == "transcript" {
		in.Position = &input.Position{Path: "/f1", Offset: int64(w.hooks)}
	}
	w.feed(in)
}

func (w *fate) frame() {
	in := input.FrameRequested{Ask: "a1", Open: !chance(w.r, "close", 3), Outcome: pick(w.r, "outcome", "", "failed", "oh")}
	in.Frame = pick(w.r, "frame", "c1", "c2", "c3", fmt.Sprint("c", w.hooks), fmt.Sprint("p", w.turns+1), "")
	if !in.Open && len(w.open) > 0 && !chance(w.r, "another frame", 4) {
		in.Frame = pick(w.r, "open frame", w.open...)
	}
	if in.Open && len(w.open) > 0 && !chance(w.r, "no parent", 3) {
		in.Parent = pick(w.r, "parent", append(w.open, "c9")...)
	}
	w.feed(in)
}

// output lets the harness write something, if it runs.
func (w *fate) output() {
	if !w.alive {
		return
	}
	in := input.OutputSeen{}
	if chance(w.r, "read earlier", 4) {
		w.feed(input.SignOfLife{At: w.now.Add(-pick(w.r, "ago", 0, time.Millisecond, time.Minute))})
	}
	if w.cfg.Policy.Reads() {
		in.Text = []byte(pick(w.r, "text", "working\n", "working\n", "working\n", "bad\n", "bad\n", "\x1b[2J"))
		in.Whole = chance(w.r, "whole", 3)
	}
	w.bytes += int64(len(in.Text)) + 1
	in.Total = w.bytes
	w.feed(in)
}

// command draws a command of the session socket.
func (w *fate) command() {
	switch pick(w.r, "command", "pause", "pause", "resume", "resume", "renew", "abort") {
	case "pause":
		w.feed(input.PauseAsked{Ask: "a1", Reason: pick(w.r, "reason", "", "lunch")})
	case "resume":
		w.feed(input.ResumeAsked{Ask: "a1"})
	case "renew":
		w.feed(input.RenewAsked{Ask: "a1", Profile: pick(w.r, "profile", "", "p1", "p2")})
	case "abort":
		if chance(w.r, "really", 4) {
			w.feed(input.AbortAsked{Ask: "a1", Signal: 15, Reason: "enough"})
		}
	}
}

// crash kills the wrapper, and another one recovers the session.
func (w *fate) crash() {
	if w.over || w.ledgerLost || !w.cfg.Ledger {
		return
	}
	w.cfg.Renews = w.cfg.Renews && !chance(w.r, "recovered without a terminal", 4)
	w.judge.crash()
	w.pending, w.alive = false, false
	w.feed(input.Restarted{PID: 99})
}

func (w *fate) rare() {
	switch pick(w.r, "rare", "stop", "continue", "abort", "lost", "exit", "drained", "crash", "crash") {
	case "crash":
		w.crash()
	case "stop":
		w.feed(input.ChildStopped{Signal: 19})
	case "continue":
		w.feed(input.ChildContinued{})
	case "abort":
		w.feed(input.AbortAsked{Signal: pick(w.r, "signal", 2, 15)})
	case "lost":
		if w.cfg.Ledger && !w.ledgerLost {
			w.feed(input.LedgerLost{})
		}
	case "exit":
		if w.alive && chance(w.r, "now", 3) {
			w.exit()
		}
	case "drained":
		if w.drains > 0 && !w.alive && !w.pending {
			w.feed(input.SourcesDrained{})
		}
	}
}

func (w *fate) exit() {
	w.alive, w.bytes = false, 0
	w.feed(input.ChildExited{Code: pick(w.r, "code", 0, 0, 1), Signal: pick(w.r, "by signal", 0, 0, 9), Lost: chance(w.r, "lost", 8)})
}

// pass lets time pass: often none, often to a deadline or close to it.
func (w *fate) pass() {
	switch at, ok := w.k.Deadline(); roll(w.r, "time", 6) {
	case 0:
		w.now = w.now.Add(pick(w.r, "for", time.Millisecond, 300*time.Millisecond, 2*time.Second))
	case 1:
		if ok {
			w.now = at.Add(pick(w.r, "beside", 0, -time.Millisecond, time.Millisecond, 40*time.Second))
		}
	}
}

// finish ends the world. The inputs come in an order that is possible for the supervisor.
func (w *fate) finish() {
	if w.cfg.Observing && !w.over {
		w.feed(input.SourcesDrained{})
	}
	// Clients and hooks are silent from here on.
	for range 200 {
		if _, done := w.k.Done(); done {
			break
		}
		switch {
		case w.pending:
			w.pending, w.alive = false, true
			w.feed(input.Launched{PID: 42})
		case w.alive:
			w.exit()
		case w.due:
			w.feed(input.SourcesDrained{})
		case w.judge.command != nil && chance(w.r, "the command ends", 2):
			w.feed(w.drawRenewal())
		case w.paused:
			w.feed(input.ResumeAsked{Ask: "a1"})
		default:
			at, ok := w.k.Deadline()
			require.True(w.t, ok, "it is not over, and has no deadline")
			w.now = at
			w.feed(input.Wake{})
		}
	}
	w.ended()
	for range 3 { // later inputs change nothing
		w.act()
	}
}

// depth is what the random worlds must reach, taken together.
var depth = []string{
	"effect Launch", "effect Dispatch", "effect HookAnswer", "effect HookAnswer with payloads", "effect Release", "effect DrainSources",
	"effect Suspend", "effect Continue", "launch for retry", "launch for fallback", "launch for restart", "crash",
	"timed out initial", "timed out inter", "timed out session", "timed out idle",
	"attempt", "attempt model retry", "attempt model fallback", "attempt model halt", "attempt timeout retry",

	"attempt rate_limit halt", "attempt abort halt", "attempt fatal halt", "attempt unknown retry",
	"fact checkpoint_saved", "fact limit_met", "reply capability_unsupported", "hcp checkpoint_created",
	"effect Cancel", "effect Stop", "effect Watch",
	"state REJECTED", "state PAUSED", "state ABORTED", "state COMPLETED", "state FAILED",
	"scope 2", "frame completed", "frame failed", "frame interrupted", "frame abandoned",
	"fact bound", "fact placing", "fact source_read", "fact drain_began", "fact weakened", "fact call_over",
	"frame inside another", "reply ", "reply state_conflict", "reply invalid_request",
	"event context.pressure_observed", "event context.compacted", "event capability.degraded", "event supervisor.tick", "event receipt.emitted", "event receipt.gap_detected",
	"receipt observed", "receipt delivered", "receipt skipped", "receipt degraded", "receipt failed", "receipt of skipped events", "receipt of several skipped events",
	"settled delivered ", "settled skipped expired", "settled failed the hook ended before the answer was written",
	"settled failed no acceptable placement", "document of an earlier launch", "receipt replayed", "settled failed duplicate_id_conflict", "sequence continued",
	"settled skipped its frame ended", "settled failed its frame ended",
	"settled skipped the next prompt was submitted without the payload", "settled failed no placement that the payload accepts is possible any more", "settled skipped the answer has the status failed",
	"renewal refused", "renewal delivered", "renewal rolled_back", "renewal failed", "launch for renewal", "returned to the old session",
	"renewal capability_unsupported", "renewal operator_required", "renewal payload_rejected", "renewal timeout", "renewal state_conflict",
	"fact renewal_typed",
	"gate harness.launch allow", "gate harness.launch block", "gate harness.launch require_approval",
	"gate harness.tool allow", "gate harness.tool block", "gate harness.tool require_approval", "gate harness.tool dry_run", "gate harness.tool ",
	"gate harness.renew allow", "gate harness.renew block", "gate harness.inject allow", "gate harness.inject block",
	"gate timeout", "gate transport_error", "gate state_conflict", "approved true ", "approved false ", "approved false timeout",
	"hcp session_created", "hcp state_changed", "hcp progress", "hcp log", "hcp warning", "hcp error", "hcp session_closed",
}

// deep lists the cases that at most one world in a hundred reaches. A run must reach all
// of these cases only if the number of its worlds is at least the constant many.
var deep = []string{
	"attempt rate_limit retry",
	"attempt guardrail retry",
	"attempt drift retry",
	"attempt guardrail halt",
	"timed out tool",
	"attempt network retry",
	"attempt rate_limit fallback",
	"fact checkpoint_dropped",
	"placed before the next prompt",
	"attempt zero_output halt",
	"document of another adapter",
	"renewal capability_degraded", "renewal finished after a crash", "delivered in place", "rerouted to relaunch", "keys taken back", "emptied by a hook", "delivered in place by hook",
	"answered true", "answered false", "answered true transport_error", "answered true timeout",
}

// many is the smallest number of worlds for which a run must reach all of deep. The flag
// -rapid.checks sets the number of worlds.
const many = 10_000

// play draws one world, plays it to its end, and returns what it reached.
func play(r *rapid.T) map[string]int {
	cfg := drawConfig(r)
	w := &fate{judge: newJudge(r, cfg, start), r: r, sent: map[string][][]lifeloop.PayloadEnvelope{}, calm: pick(r, "calm", 3, 20, 20, 200)}
	defer func() { r.Logf("%v", w) }() // rapid prints only the log of a failing world
	if chance(r, "aborted early", 40) {
		w.feed(input.AbortAsked{Signal: 15})
	}
	w.feed(input.Start{})
	if !w.refused {
		for range pick(r, "length", 5, 30, 60, 60) {
			w.act()
			if w.over {
				break
			}
		}
	}
	w.finish()
	return w.reach
}

// FuzzLaws lets the fuzzer choose the worlds.
func FuzzLaws(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(r *rapid.T) { play(r) }))
}

// TestLaws plays random worlds to their end.
func TestLaws(t *testing.T) {
	// The failing world is printed; a file of it below testdata would be read as
	// a scenario.
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	reached := map[string]int{}
	wanted := depth
	if n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String()); err == nil && n >= many {
		wanted = slices.Concat(depth, deep, l0Depth())
	}
	missing := func() (out []string) {
		for _, what := range wanted {
			if reached[what] == 0 {
				out = append(out, what)
			}
		}
		return out
	}
	// The random worlds prove nothing if they reach too little. A hundred
	// worlds may miss a case that one world in thirty reaches; then more
	// worlds are played.
	for round := 0; round < 40 && !t.Failed() && (round == 0 || len(missing()) > 0); round++ {
		rapid.Check(t, func(r *rapid.T) {
			for what := range play(r) {
				reached[what]++
			}
		})
	}
	if left := missing(); len(left) > 0 && !t.Failed() {
		t.Errorf("no world reached %q; they reached %v", left, slices.Sorted(maps.Keys(reached)))
	}
}
