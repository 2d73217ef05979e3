package kernel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"lifeloop/attempt"
	"lifeloop/canon"
	"lifeloop/lifeloop"
	"lifeloop/session"
	"lifeloop/synth"
	"lifeloop/telemetry"
)

// A Fact is something that became true. Facts are the only thing the ledger
// stores and the only thing that changes hard state. They hold ids, names,
// sizes, digests, numbers and times; never text of the session (DECISIONS F1).
type Fact interface{ isFact() }

type (
	// Began is the first fact of every session: what this run is.
	Began struct {
		SessionID      string   `json:"session_id"`
		AdapterID      string   `json:"adapter_id"`
		AdapterVersion string   `json:"adapter_version"`
		Program        string   `json:"program"`     // base name only
		Args           int      `json:"args"`        // how many; their text may be a prompt
		ArgsDigest     string   `json:"args_digest"` // sha256 over the NUL-joined arguments
		WorkDir        string   `json:"work_dir"`
		Version        string   `json:"version"` // of the wrapper
		PID            int      `json:"pid"`     // of the wrapper
		PTY            bool     `json:"pty"`
		Clients        []string `json:"clients"`
		Policy         string   `json:"policy"` // "none" without one (DECISIONS G2)
		// TokenDigest is of the session's token; empty where none was issued.
		TokenDigest string `json:"session_token_digest,omitempty"`
		// Budget is what attempts may use up; nil where there is one and no more.
		Budget *Budget `json:"budget,omitempty"`
		// Meta is the user object: what its owner calls this session. It is theirs,
		// passed on as it came and never looked at.
		Meta map[string]string `json:"meta,omitempty"`
	}
	// Negotiated records what one client, or the owner, asked for and got.
	Negotiated struct {
		Client     string `json:"client"`
		Capability string `json:"capability"`
		Level      string `json:"level"`
		Outcome    string `json:"outcome"`
		Have       string `json:"have"`
	}
	// Weakened records a capability that this launch lacks from its start.
	Weakened struct {
		Capability string `json:"capability"`
		Reason     string `json:"reason"`
	}
	// SessionMoved records a move of the session machine.
	SessionMoved struct {
		From   session.State `json:"from"`
		To     session.State `json:"to"`
		Reason string        `json:"reason"`
	}
	// Launching records that the harness is about to be started, and of which
	// attempt that is.
	Launching struct {
		Run   string `json:"run"`   // harness_run_id
		Cause string `json:"cause"` // first, retry, fallback or restart
		// Attempt counts the launches of the profile from 1, Profile is its index
		// and Name its name.
		Attempt int    `json:"attempt"`
		Profile int    `json:"profile"`
		Name    string `json:"name"`
		Adapter string `json:"adapter_id"`
		// Checkpoint is what this launch goes on from, with the units that had
		// been counted when it was saved; empty for a fresh start.
		Checkpoint      string `json:"checkpoint,omitempty"`
		CheckpointUnits int64  `json:"checkpoint_units,omitempty"`
	}
	// Running records that the harness runs.
	Running struct {
		Run string `json:"run"`
		PID int    `json:"pid"`
	}
	// TimerSet records that a timer of the attempt was armed for the first time
	// in this launch.
	TimerSet struct {
		Timer   Timer `json:"timer"`
		AfterMS int64 `json:"after_ms"`
	}
	// DeadlineSet records an instant that outlives a crash: the session's end.
	DeadlineSet struct {
		Timer Timer     `json:"timer"`
		At    time.Time `json:"at"`
	}
	// TimedOut records that nothing came in time. The harness is then stopped.
	TimedOut struct {
		Timer     Timer  `json:"timer"`
		ElapsedMS int64  `json:"elapsed_ms"`
		Tool      string `json:"tool,omitempty"` // the call that took too long
	}
	// RulesChecked records what guardrails came to in one phase: pre while the
	// harness runs, post after it has ended.
	RulesChecked struct {
		Phase string               `json:"phase"`
		Units int64                `json:"units"`
		Rules []attempt.RuleResult `json:"rules"`
	}
	// DriftSeen records that the harness does the same thing over and over.
	DriftSeen struct {
		Types      []string `json:"types"`
		Confidence float64  `json:"confidence"`
		Units      int64    `json:"units"`
	}
	// ToolCalled and ToolReturned record the harness's own call of a tool: its
	// name, and of arguments and result digest and size alone (DECISIONS F1).
	ToolCalled struct {
		Tool string           `json:"tool"` // the call's id
		Name string           `json:"name"`
		Args *telemetry.Sized `json:"arguments,omitempty"`
	}
	ToolReturned struct {
		Tool       string           `json:"tool"`
		Name       string           `json:"name"`
		Result     *telemetry.Sized `json:"result,omitempty"`
		Error      string           `json:"error,omitempty"` // its type; empty where the tool did what it should
		DurationMS int64            `json:"duration_ms"`
	}
	// CheckpointSaved records that a continuation from here is possible, and
	// CheckpointDropped that it is not: the next profile cannot take it, or what
	// it leads to broke a guardrail.
	CheckpointSaved struct {
		Checkpoint string `json:"checkpoint"`
		Units      int64  `json:"units"`
	}
	CheckpointDropped struct {
		Checkpoint string `json:"checkpoint"`
		Reason     string `json:"reason"`
	}
	// LimitMet records a rate limit that the harness met, and what is done
	// about it by the owner's choice.
	LimitMet struct {
		Until  *time.Time      `json:"until"`
		Action attempt.OnLimit `json:"action"`
		Source string          `json:"source"`
	}
	// AttemptEnded records how an attempt ended and what follows. It is written
	// when the harness is gone and was read to its end.
	AttemptEnded struct {
		Run     string        `json:"run"` // empty where none was under way
		Attempt int           `json:"attempt"`
		Profile int           `json:"profile"`
		Name    string        `json:"name"`
		Cause   attempt.Cause `json:"cause,omitempty"` // empty: it completed
		// Detail says more of the cause: which timer, which rule, the code of a
		// network's error.
		Detail  string                `json:"detail,omitempty"`
		Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
		// Evidence is what says that it completed or failed; the raw exit stands
		// beside it.
		Evidence string `json:"evidence"`
		Code     int    `json:"code"`
		Signal   int    `json:"signal"`
		// Recovery is what follows a failure; empty after a completed attempt.
		Recovery attempt.Recovery `json:"recovery,omitempty"`
		Reason   string           `json:"reason,omitempty"` // a sentence for people
		Retry    *RetryPlan       `json:"retry,omitempty"`
		// Next is the profile that is launched next, and Skipped those that could
		// not be.
		Next    int      `json:"next"`
		Skipped []string `json:"skipped,omitempty"`
		GaveUp  bool     `json:"gave_up,omitempty"`

		// Short counts the launches in a row that ended soon after they began.
		Short int `json:"short,omitempty"`

		Units      int64 `json:"units"`
		Bytes      int64 `json:"bytes"`
		DurationMS int64 `json:"duration_ms"` // from its first sign of life
	}
	// Exited records how a launch ended.
	Exited struct {
		Run      string `json:"run"`
		Code     int    `json:"code"`
		Signal   int    `json:"signal"`
		Leftover int    `json:"leftover"`
		Lost     bool   `json:"lost,omitempty"`
		// Unseen says that nobody saw how it ended, for the wrapper had died before.
		Unseen bool `json:"unseen,omitempty"`
		// OutputLost says that output could not be written where it was to go.
		OutputLost bool `json:"output_lost,omitempty"`
		// NotStarted says that there never was a process.
		NotStarted bool `json:"not_started,omitempty"`
		// Transient says of that that another moment may be a better one.
		Transient bool `json:"passing,omitempty"`
	}
	// HarnessSessionOpened begins a scope: what follows belongs to a new
	// harness session. ID is empty while it is not known.
	HarnessSessionOpened struct {
		Scope int    `json:"scope"`
		ID    string `json:"id"`
		Cause string `json:"cause"`
		// Adopted says that it was live before we came.
		Adopted bool `json:"adopted,omitempty"`
	}
	// FrameAdopted begins a frame that was open before we came, or gives an open
	// one that had none the name that the harness has for its turn.
	FrameAdopted struct {
		Frame string `json:"frame"`
		Turn  string `json:"turn"`
	}
	// Bound records that a scope's id became known or changed, and why.
	Bound struct {
		Scope  int    `json:"scope"`
		ID     string `json:"id"`
		Was    string `json:"was"`
		Reason string `json:"reason"`
	}
	// Observed records one told lifecycle event and who is to hear of it.
	Observed struct {
		Record     lifeloop.EventRecord `json:"record"`
		Invocation string               `json:"invocation"`
		Scope      int                  `json:"scope"`
		Calls      []CallRef            `json:"calls"`
		// Degradation is set on capability.degraded.
		Degradation *lifeloop.Degradation `json:"degradation,omitempty"`
	}
	// Dispatched records that a call is handed to its client.
	Dispatched struct {
		Call   string `json:"call"`
		Client string `json:"client"`
	}
	// Answered records what a client answered, before its payloads are placed.
	Answered struct {
		Call     string                `json:"call"`
		Status   lifeloop.Status       `json:"status,omitempty"`
		Failure  lifeloop.FailureClass `json:"failure,omitempty"`
		Retry    lifeloop.RetryClass   `json:"retry,omitempty"`
		Warnings []string              `json:"warnings,omitempty"`
		Payloads []PayloadFact         `json:"payloads,omitempty"`
	}
	// Placing records that payloads are about to be handed to a hook's slot.
	Placing struct {
		Hook  string      `json:"hook"`
		Event string      `json:"event"`
		Slot  string      `json:"slot"`
		Bytes int         `json:"bytes"` // of the whole transport envelope
		Items []PlacedRef `json:"items"`
	}
	// PayloadSettled records what became of one payload.
	PayloadSettled struct {
		Call      string                    `json:"call"`
		Index     int                       `json:"index"`
		Placement lifeloop.PayloadPlacement `json:"placement"`
		Status    lifeloop.Status           `json:"status"`
		Class     lifeloop.Placement        `json:"class,omitempty"`   // the slot that took it
		Support   lifeloop.Support          `json:"support,omitempty"` // how well that slot is supported
		Failure   lifeloop.FailureClass     `json:"failure,omitempty"`
		Why       string                    `json:"why,omitempty"`
	}
	// CallOver records the end of a call that makes no receipt: the telling of
	// receipt.emitted.
	CallOver struct {
		Call string `json:"call"`
	}
	// HookAnswered records one call of a harness's hook and how it was answered.
	HookAnswered struct {
		Hook      string `json:"hook"`
		Event     string `json:"event"`
		Session   string `json:"session,omitempty"`
		Turn      string `json:"turn,omitempty"`
		Payloads  int    `json:"payloads"`
		Delivered bool   `json:"delivered"`
	}
	// ReceiptIssued records a receipt exactly as clients will read it.
	ReceiptIssued struct {
		Receipt lifeloop.Receipt `json:"receipt"`
		Call    string           `json:"call,omitempty"`
		Scope   int              `json:"scope"`
	}
	// CommandReceived records a command of the session socket and its outcome.
	CommandReceived struct {
		What    string                `json:"what"`
		Reason  string                `json:"reason,omitempty"` // of whoever asked
		Frame   string                `json:"frame,omitempty"`
		Failure lifeloop.FailureClass `json:"failure,omitempty"`
	}
	// AbortRequested records that the wrapper was told to end.
	AbortRequested struct {
		Signal int    `json:"signal"`
		Reason string `json:"reason,omitempty"`
	}
	// PauseRequested and ResumeRequested record what somebody asked for at the
	// session's door.
	PauseRequested struct {
		Reason string `json:"reason,omitempty"`
	}
	ResumeRequested struct {
		Reason string `json:"reason,omitempty"`
		// RetryAt is when the next try is made, whose wait stood still meanwhile.
		RetryAt *time.Time `json:"retry_at,omitempty"`
	}
	// PausedAgain records that the harness was seen to go on although it is paused,
	// and is stopped once more.
	PausedAgain struct{}
	// Resumed records that another wrapper took the session up after its first
	// one died, at the latest at LastAt.
	Resumed struct {
		PID    int       `json:"pid"`
		LastAt time.Time `json:"last_at"`
		// Budget is what its attempts may use up from here on; nil where there is
		// one and no more.
		Budget *Budget `json:"budget,omitempty"`
	}
	// StopSent records one rung of the way down.
	StopSent struct {
		Rung   int  `json:"rung"`
		Signal int  `json:"signal"`
		Tree   bool `json:"tree,omitempty"`
	}
	// StopResult records what a rung of the way down came to.
	StopResult struct {
		Rung   int    `json:"rung"`
		Effect string `json:"effect"` // ended, partly where some outlived the harness, or none
	}
	// ActivitySeen is a sign of life, coalesced; it is not synced.
	ActivitySeen struct {
		Output int64  `json:"output,omitempty"` // bytes written by the harness so far
		Source string `json:"source,omitempty"` // what else gave the sign
	}
	// ActivityMoved records what the harness seems to be doing, by one source.
	// It is uncertain until ActivityConfirmed, but for the end of a process.
	ActivityMoved struct {
		To     string `json:"to"`
		Source string `json:"source"`
		Detail string `json:"detail,omitempty"`
		// Until is when a limit_wait ends, where the harness told that.
		Until *time.Time `json:"until,omitempty"`
	}
	// ActivityConfirmed records that a second kind of source says the same.
	ActivityConfirmed struct {
		To     string `json:"to"`
		Source string `json:"source"`
		Detail string `json:"detail,omitempty"`
	}
	// BindRefused records that a source spoke of a session which nothing proves
	// to be this one.
	BindRefused struct {
		Scope  int    `json:"scope"`
		ID     string `json:"id"`
		Reason string `json:"reason"`
	}
	// VersionSeen records the harness's version, and what is unproven of one
	// that was not tested.
	VersionSeen struct {
		Version  string   `json:"version"`
		Source   string   `json:"source"`
		Detail   string   `json:"detail,omitempty"`
		Unproven []string `json:"unproven,omitempty"` // capabilities
	}
	// UsageCounted records what the model calls of the session add up to so far.
	UsageCounted struct{ synth.Usage }
	// UnknownCounted records how many records of each type a source has told so
	// far that nobody understands.
	UnknownCounted struct {
		Source string         `json:"source"`
		Types  map[string]int `json:"types"`
	}
	// SourceNamed records that the harness named a file as its own, which is
	// why it is read.
	SourceNamed struct {
		Path string `json:"path"`
		By   string `json:"by"`
	}
	// SourceRead records how far a telemetry source was read.
	SourceRead struct {
		Source string `json:"source"`
		Position
	}
	// SourceTroubled records that a source cannot be read as it should.
	SourceTroubled struct {
		Source string `json:"source"`
		What   string `json:"what"`
	}
	// DrainBegan records that the harness ended and clients have until Until.
	DrainBegan struct {
		Until time.Time `json:"until"`
	}
)

// A Timer is one of the timers that can end an attempt or a session.
type Timer string

const (
	TimerInitial Timer = "initial"
	TimerInter   Timer = "inter"
	TimerTool    Timer = "tool"
	TimerSession Timer = "session"
	TimerIdle    Timer = "idle"
)

// A Budget is what the policy allows to the attempts of a session.
type Budget struct {
	Attempts   int      `json:"attempts"`    // counted retries of a profile
	MaxRetries int      `json:"max_retries"` // retries of every kind, in all
	Profiles   []string `json:"profiles"`    // the primary, then the fallbacks
}

// A RetryPlan says when another try is made.
type RetryPlan struct {
	Number  int          `json:"number"` // of this profile's retries, from 1
	Of      int          `json:"of"`     // counted retries that the profile may have
	Counted bool         `json:"counted"`
	DelayMS int64        `json:"delay_ms"`
	Wait    attempt.Wait `json:"wait"`
	At      time.Time    `json:"at"` // when it is made
}

// A CallRef names the call that tells one client of an event.
type CallRef struct {
	Call           string `json:"call"`
	Client         string `json:"client"`
	IdempotencyKey string `json:"idempotency_key"`
}

// A PayloadFact is what may be kept of a payload: never its body.
type PayloadFact struct {
	ID          string  `json:"payload_id"`
	PayloadKind string  `json:"payload_kind"`
	Size        int64   `json:"byte_size"`
	Digest      *string `json:"content_digest,omitempty"`
	Required    bool    `json:"required,omitempty"`
	// Key is the client's idempotency key, and Content the digest of what it
	// was used for; both only when there is a key.
	Key     *string      `json:"idempotency_key,omitempty"`
	Content canon.Digest `json:"content,omitempty"`
	// First is the placement that a receipt names when the payload is given up.
	First lifeloop.PayloadPlacement `json:"first_placement"`
}

// A PlacedRef is one payload in a slot.
type PlacedRef struct {
	Call      string                    `json:"call"`
	Index     int                       `json:"index"`
	PayloadID string                    `json:"payload_id"`
	Placement lifeloop.PayloadPlacement `json:"placement"`
	Support   lifeloop.Support          `json:"support"`
}

// A Position is where a source was read to: enough to go on there after a
// crash without a line lost or told twice.
type Position struct {
	Path   string `json:"path"`
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	Prefix string `json:"prefix"`
	Offset int64  `json:"offset"`
}

func (Began) isFact()                {}
func (Negotiated) isFact()           {}
func (Weakened) isFact()             {}
func (SessionMoved) isFact()         {}
func (Launching) isFact()            {}
func (Running) isFact()              {}
func (Exited) isFact()               {}
func (HarnessSessionOpened) isFact() {}
func (FrameAdopted) isFact()         {}
func (Bound) isFact()                {}
func (Observed) isFact()             {}
func (Dispatched) isFact()           {}
func (Answered) isFact()             {}
func (Placing) isFact()              {}
func (PayloadSettled) isFact()       {}
func (CallOver) isFact()             {}
func (HookAnswered) isFact()         {}
func (ReceiptIssued) isFact()        {}
func (CommandReceived) isFact()      {}
func (AbortRequested) isFact()       {}
func (StopSent) isFact()             {}
func (TimerSet) isFact()             {}
func (DeadlineSet) isFact()          {}
func (TimedOut) isFact()             {}
func (RulesChecked) isFact()         {}
func (DriftSeen) isFact()            {}
func (ToolCalled) isFact()           {}
func (ToolReturned) isFact()         {}
func (CheckpointSaved) isFact()      {}
func (CheckpointDropped) isFact()    {}
func (LimitMet) isFact()             {}
func (AttemptEnded) isFact()         {}
func (PauseRequested) isFact()       {}
func (ResumeRequested) isFact()      {}
func (PausedAgain) isFact()          {}
func (Resumed) isFact()              {}
func (StopResult) isFact()           {}
func (ActivitySeen) isFact()         {}
func (ActivityMoved) isFact()        {}
func (ActivityConfirmed) isFact()    {}
func (BindRefused) isFact()          {}
func (VersionSeen) isFact()          {}
func (UsageCounted) isFact()         {}
func (UnknownCounted) isFact()       {}
func (SourceNamed) isFact()          {}
func (SourceRead) isFact()           {}
func (SourceTroubled) isFact()       {}
func (DrainBegan) isFact()           {}

// kinds is the closed set of facts by the name that the ledger gives them. The
// names are part of the ledger's format and do not change.
var kinds = []struct {
	name string
	fact Fact // its zero value
}{
	{"began", Began{}},
	{"negotiated", Negotiated{}},
	{"weakened", Weakened{}},
	{"session_moved", SessionMoved{}},
	{"launching", Launching{}},
	{"running", Running{}},
	{"exited", Exited{}},
	{"harness_session_opened", HarnessSessionOpened{}},
	{"frame_adopted", FrameAdopted{}},
	{"bound", Bound{}},
	{"observed", Observed{}},
	{"dispatched", Dispatched{}},
	{"answered", Answered{}},
	{"placing", Placing{}},
	{"payload_settled", PayloadSettled{}},
	{"call_over", CallOver{}},
	{"hook_heard", HookAnswered{}},
	{"receipt_issued", ReceiptIssued{}},
	{"asked", CommandReceived{}},
	{"abort_requested", AbortRequested{}},
	{"stop_sent", StopSent{}},
	{"activity_seen", ActivitySeen{}},
	{"activity_moved", ActivityMoved{}},
	{"activity_confirmed", ActivityConfirmed{}},
	{"bind_refused", BindRefused{}},
	{"version_told", VersionSeen{}},
	{"usage_counted", UsageCounted{}},
	{"unknown_counted", UnknownCounted{}},
	{"source_named", SourceNamed{}},
	{"source_read", SourceRead{}},
	{"source_troubled", SourceTroubled{}},
	{"timer_set", TimerSet{}},
	{"deadline_set", DeadlineSet{}},
	{"timed_out", TimedOut{}},
	{"rules_held", RulesChecked{}},
	{"drift_seen", DriftSeen{}},
	{"tool_called", ToolCalled{}},
	{"tool_returned", ToolReturned{}},
	{"checkpoint_saved", CheckpointSaved{}},
	{"checkpoint_dropped", CheckpointDropped{}},
	{"limit_met", LimitMet{}},
	{"attempt_ended", AttemptEnded{}},
	{"pause_requested", PauseRequested{}},
	{"resume_requested", ResumeRequested{}},
	{"held_again", PausedAgain{}},
	{"resumed", Resumed{}},
	{"stop_took", StopResult{}},
	{"drain_began", DrainBegan{}},
}

// Kind is the name that the ledger gives to a fact.
func Kind(f Fact) string {
	for _, k := range kinds {
		if reflect.TypeOf(k.fact) == reflect.TypeOf(f) {
			return k.name
		}
	}
	return ""
}

// Encode renders a fact for the ledger.
func Encode(f Fact) (kind string, body json.RawMessage, err error) {
	kind = Kind(f)
	if kind == "" {
		return "", nil, fmt.Errorf("kernel: %T is not a known fact", f)
	}
	body, err = json.Marshal(f)
	return kind, body, err
}

// Decode reads a fact back. An unknown kind is an error: a ledger written by a
// newer version is not half understood.
func Decode(kind string, body json.RawMessage) (Fact, error) {
	for _, k := range kinds {
		if k.name != kind {
			continue
		}
		v := reflect.New(reflect.TypeOf(k.fact))
		if err := json.Unmarshal(body, v.Interface()); err != nil {
			return nil, fmt.Errorf("fact %q: %w", kind, err)
		}
		return v.Elem().Interface().(Fact), nil
	}
	return nil, fmt.Errorf("unknown fact %q", kind)
}

// An Entry is a fact with its place and time in the ledger.
type Entry struct {
	Seq uint64
	At  time.Time
	Fact
}

// mustSync says which facts must be on the disk before anything is done about
// them: a receipt, a move, an effect with a consequence (DECISIONS F3).
func mustSync(f Fact) bool {
	switch f := f.(type) {
	case ActivitySeen, ActivityMoved, ActivityConfirmed, BindRefused, VersionSeen, UsageCounted, UnknownCounted, SourceNamed, SourceRead, SourceTroubled, Negotiated, Weakened, CommandReceived, Running, Bound, HarnessSessionOpened, FrameAdopted, TimerSet, ToolCalled, ToolReturned, StopResult:
		return false
	case HookAnswered:
		return f.Payloads > 0
	case Observed:
		return f.Record.Event != lifeloop.SupervisorTick
	case Dispatched, Answered, PayloadSettled, CallOver:
		return false // the receipt that follows is; before it, nothing was promised
	}
	return true
}

// hard is the fold of every fact so far. It changes only in apply.
type hard struct {
	State      session.State
	Began      Began
	Run        string
	Number     int  // launches so far
	Alive      bool // the harness runs
	Exit       *Exited
	AbortAsked bool // somebody asked us to end
	AbortBy    int  // by what signal, if there was something to end
	AbortWhy   string
	Refused    lifeloop.FailureClass
	RefusedWhy string

	Scope    int // the current harness session, counted from 1
	Sessions map[int]*harnessSession
	Frames   []frame         // open, outermost first
	Past     map[string]bool // turns that were told to their end, the newest 10,000
	PastIn   []string

	Keys    map[string]*keyed // payloads by client and idempotency key, the newest 10,000
	KeysIn  []string
	Calls   map[string]*call // open: told, but without a receipt
	Parents map[string]string
	Level   string                      // last told pressure level
	Support map[string]lifeloop.Support // capabilities whose support moved
	// Versions are those that the harness was told to have, Unproven the
	// capabilities that nobody has seen of an untested one.
	Versions []string
	Unproven map[string]bool
	Usage    synth.Usage
	CallsN   int
	Weak     map[string]bool // capabilities that were never there

	Spent attempt.Spent
	Next  *AttemptEnded // what the next launch follows, while it waits
	Last  *AttemptEnded // how the newest attempt ended
	// Checkpoint is what the next launch may go on from, and CheckpointBy the
	// profile that made it.
	Checkpoint      string
	CheckpointUnits int64
	CheckpointBy    int
	Broke           string    // the guardrail that this attempt broke first
	SessionEnd      time.Time // when the session's time is over; zero without a limit
	TimedOut        *TimedOut // the session's own timer
	Limit           *LimitMet
	Held            bool // somebody paused it
}

type harnessSession struct {
	ID       string
	Cause    string
	Told     bool // session.starting was told
	Started  bool
	Ending   bool
	Reason   string // as session.ending told it
	Ended    bool
	Asked    bool  // a prompt was told in it
	Receipts int64 // issued, where this scope keeps the numbers
	// Numbers is the scope that keeps the numbers of this one's receipts: its
	// own, or the first of several in a row that never learned an id, which are
	// one (DECISIONS L2).
	Numbers int
}

type frame struct {
	ID      string
	Turn    string
	Parent  string // empty for a top-level frame
	Client  bool   // opened by a client, through the session's door
	Opened  bool   // frame.opened was told
	Ending  bool   // frame.ending was told
	Outcome string
	Failure lifeloop.FailureClass
}

// keyed is the first payload that came with an idempotency key.
type keyed struct {
	Content   canon.Digest
	Call      string
	Index     int
	Status    lifeloop.Status // empty while it waits for a slot
	Placement lifeloop.PayloadPlacement
}

// A call is one event on its way to one client, until its receipt.
type call struct {
	ID, Client, Idempotency string
	N                       int // in the order in which calls were made
	Event                   lifeloop.Event
	EventID, Invocation     string
	Mode                    lifeloop.IntegrationMode
	Frame                   *lifeloop.FrameContext
	Data                    map[string]any
	Scope                   int
	Dispatched              bool
	Answer                  *Answered
	Settled                 []*PayloadSettled // by payload index; nil while it waits
	Degradation             *lifeloop.Degradation
}

func newHard() hard {
	return hard{Sessions: map[int]*harnessSession{}, Past: map[string]bool{}, Keys: map[string]*keyed{}, Calls: map[string]*call{},
		Parents: map[string]string{}, Support: map[string]lifeloop.Support{}, Unproven: map[string]bool{}, Weak: map[string]bool{}}
}

// exitCode is the wrapper's exit code (CLI.md, run). Without a policy (acts is
// false) `run` changes nothing but what it records: a harness that says it went
// well is taken at its word, whatever else was seen.
func (h *hard) exitCode(acts bool) int {
	e := h.Exit
	switch {
	case h.TimedOut != nil:
		return 124
	case h.Limit != nil && h.Limit.Action == attempt.LimitExit && h.Last != nil && h.Last.Cause == attempt.RateLimit:
		return 75
	case e == nil && h.AbortBy != 0:
		return 128 + h.AbortBy
	case e == nil: // refused, or nothing was launched
		return 125
	case e.Unseen && h.AbortBy != 0:
		return 128 + h.AbortBy
	case e.Lost, e.Unseen:
		return 125
	case e.NotStarted:
		return e.Code
	case e.Signal != 0:
		return 128 + e.Signal
	case e.Code == 0 && h.AbortBy != 0:
		return 128 + h.AbortBy
	case e.Code == 0 && e.OutputLost:
		return 125
	case e.Code == 0 && h.State == session.Failed && acts:
		return 1
	}
	return e.Code
}

// pastLimit bounds the memory of closed turns.
const pastLimit = 10_000

// apply is the only place hard state changes.
func (k *Kernel) apply(f Fact) {
	h := &k.hard
	switch f := f.(type) {
	case Began:
		h.Began = f
	case SessionMoved:
		h.State = f.To
		if f.To == session.Rejected {
			h.Refused, h.RefusedWhy = lifeloop.CapabilityUnsupported, f.Reason
		}
	case Launching:
		h.Broke = ""
		if h.Run, h.Number, h.Exit, h.Next = f.Run, h.Number+1, nil, nil; f.Profile != h.Spent.Profile {
			h.Spent = attempt.Spent{Profile: f.Profile, Total: h.Spent.Total}
		}
		h.Spent.Launches = f.Attempt
	case Weakened:
		h.Weak[f.Capability] = true
	case AttemptEnded:
		h.attemptEnded(f)
	case CheckpointSaved:
		h.Checkpoint, h.CheckpointUnits, h.CheckpointBy = f.Checkpoint, f.Units, h.Spent.Profile
	case RulesChecked:
		for _, r := range f.Rules {
			if !r.Passed && r.Severity != attempt.Warning && h.Broke == "" {
				h.Broke = r.ID
			}
		}
	case CheckpointDropped:
		h.Checkpoint, h.CheckpointUnits, h.CheckpointBy = "", 0, 0
	case DeadlineSet:
		h.SessionEnd = f.At
	case TimedOut:
		if f.Timer == TimerSession || f.Timer == TimerIdle {
			h.TimedOut = &f
		}
	case LimitMet:
		h.Limit = &f
	case PauseRequested:
		h.Held = true
	case ResumeRequested:
		h.Held = false
		if f.RetryAt != nil && h.Next != nil && h.Next.Retry != nil {
			n := *h.Next
			r := *n.Retry
			r.At, n.Retry = *f.RetryAt, &r
			h.Next = &n
		}
	case Resumed:
		h.Began.PID = f.PID
	case UsageCounted:
		h.Usage = f.Usage
	case Running:
		h.Alive = true
	case Exited:
		h.Alive, h.Exit = false, &f
	case HarnessSessionOpened:
		h.Scope = f.Scope
		numbers := f.Scope
		if before := h.Sessions[f.Scope-1]; before != nil && before.ID == "" {
			numbers = before.Numbers
		}
		h.Sessions[f.Scope] = &harnessSession{ID: f.ID, Numbers: numbers, Cause: f.Cause, Told: f.Adopted, Started: f.Adopted}
		h.Level = ""
	case FrameAdopted:
		if fr := h.frame(f.Frame); fr.ID == f.Frame {
			fr.Turn = f.Turn
			break
		}
		h.Frames = append(h.Frames, frame{ID: f.Frame, Turn: f.Turn, Opened: true})
	case Bound:
		h.Sessions[f.Scope].ID = f.ID
	case Observed:
		h.observe(f)
	case Dispatched:
		if c := h.Calls[f.Call]; c != nil {
			c.Dispatched = true
		}
	case Answered:
		if c := h.Calls[f.Call]; c != nil {
			c.Answer = &f
			c.Settled = make([]*PayloadSettled, len(f.Payloads))
			for i, p := range f.Payloads {
				h.key(c, i, p)
			}
		}
	case PayloadSettled:
		if c := h.Calls[f.Call]; c != nil && f.Index < len(c.Settled) {
			c.Settled[f.Index] = &f
			if k := h.keyOf(c.Client, c.Answer.Payloads[f.Index].Key); k != nil && k.Call == f.Call && k.Index == f.Index {
				k.Status, k.Placement = f.Status, f.Placement
			}
		}
	case ReceiptIssued:
		h.receipt(f)
	case AbortRequested:
		h.AbortAsked = true
		// Once the harness has ended and nothing follows, its exit code is ours
		// whatever comes.
		if h.AbortBy == 0 && (h.Exit == nil || h.Next != nil) {
			h.AbortBy, h.AbortWhy = f.Signal, cmp.Or(f.Reason, signalName(f.Signal))
		}
	case CallOver:
		delete(h.Calls, f.Call)
	case VersionSeen:
		h.Versions = append(h.Versions, f.Version)
		for _, c := range f.Unproven {
			h.Unproven[c] = true
		}
	case Negotiated, CommandReceived, PausedAgain, Placing, TimerSet, DriftSeen, ToolCalled, ToolReturned, StopResult, HookAnswered, StopSent, ActivitySeen, ActivityMoved, ActivityConfirmed, BindRefused, UnknownCounted, SourceNamed, SourceRead, SourceTroubled, DrainBegan:
		// told for readers; they change nothing here
	default:
		panic(fmt.Sprintf("kernel: apply does not know %T", f))
	}
}

// attemptEnded folds what an attempt used up, and what is to follow it.
func (h *hard) attemptEnded(f AttemptEnded) {
	h.Last, h.Next = &f, nil
	h.Spent.Short = f.Short
	switch f.Recovery {
	case attempt.Retry:
		h.Next = &f
		h.Spent.Total++
		if f.Retry.Wait == attempt.WaitQuarantine {
			h.Spent.Short = 0
		}
		if f.Retry.Counted {
			h.Spent.Counted++
		} else {
			h.Spent.Uncounted++
		}
	case attempt.Fallback:
		h.Next = &f
	}
}

func (h *hard) observe(f Observed) {
	r := f.Record
	hs := h.Sessions[f.Scope]
	switch r.Event {
	case lifeloop.SessionStarting:
		hs.Told = true
	case lifeloop.SessionStarted:
		hs.Started = true
	case lifeloop.SessionEnding:
		hs.Ending = true
		hs.Reason, _ = r.Data["reason"].(string)
	case lifeloop.SessionEnded:
		hs.Ended = true
	case lifeloop.FrameOpening:
		turn, _ := r.Data["turn"].(string)
		fr := frame{ID: r.FrameContext.FrameID, Turn: turn, Client: f.ByClient()}
		if p := r.FrameContext.ParentFrameID; p != nil {
			fr.Parent = *p
		}
		h.Frames = append(h.Frames, fr)
		hs.Asked = hs.Asked || !fr.Client
	case lifeloop.FrameOpened:
		h.frame(r.FrameContext.FrameID).Opened = true
	case lifeloop.FrameEnding:
		fr := h.frame(r.FrameContext.FrameID)
		fr.Ending = true
		fr.Outcome, _ = r.Data["outcome"].(string)
		class, _ := r.Data["failure_class"].(string)
		fr.Failure = lifeloop.FailureClass(class)
	case lifeloop.FrameEnded:
		for i, fr := range h.Frames {
			if fr.ID == r.FrameContext.FrameID {
				h.Frames = append(h.Frames[:i:i], h.Frames[i+1:]...)
				h.remember(fr)
				break
			}
		}
	case lifeloop.ContextPressureObserved:
		h.Level, _ = r.Data["level"].(string)
	case lifeloop.ContextCompacted:
		h.Level = ""
	case lifeloop.CapabilityDegraded:
		if f.Degradation != nil {
			h.Support[f.Degradation.Capability] = f.Degradation.CurrentSupport
			if f.Degradation.CurrentSupport.Stronger(lifeloop.Partial) {
				delete(h.Unproven, f.Degradation.Capability) // it is not unproven any more
			}
		}
	}
	for _, c := range f.Calls {
		h.CallsN++
		h.Calls[c.Call] = &call{ID: c.Call, N: h.CallsN, Client: c.Client, Idempotency: c.IdempotencyKey, Event: r.Event,
			EventID: r.EventID, Invocation: f.Invocation, Mode: r.IntegrationMode, Frame: r.FrameContext, Data: r.Data,
			Scope: f.Scope, Degradation: f.Degradation}
	}
}

// ByClient says that a client asked for the frame that this tells of.
func (f Observed) ByClient() bool {
	return len(f.Record.Evidence) > 0 && f.Record.Evidence[0].Source == clientSource
}

// ByHarness says that the harness itself told this, by whatever source, and not
// the wrapper or a client.
func (f Observed) ByHarness() bool { return byHarness(f.Record.Evidence) }

func byHarness(evidence []lifeloop.Evidence) bool {
	return len(evidence) > 0 && evidence[0].Source != wrapperSource && evidence[0].Source != clientSource
}

func (h *hard) frame(id string) *frame {
	for i := range h.Frames {
		if h.Frames[i].ID == id {
			return &h.Frames[i]
		}
	}
	return &frame{}
}

// remember keeps a closed frame's names: its turn is told to its end, and its
// id is not given out again.
func (h *hard) remember(fr frame) {
	for _, name := range []string{fr.Turn, fr.ID} {
		if name == "" || h.Past[name] {
			continue
		}
		h.Past[name] = true
		h.PastIn = append(h.PastIn, name)
	}
	for len(h.PastIn) > pastLimit {
		delete(h.Past, h.PastIn[0])
		h.PastIn = h.PastIn[1:]
	}
}

// key notes the first use of an idempotency key. What was not delivered may be
// tried again with the same key, so it gives its place up.
func (h *hard) key(c *call, i int, p PayloadFact) {
	if p.Key == nil {
		return
	}
	first := h.keyOf(c.Client, p.Key)
	if first != nil && (first.Status == "" || first.Status == lifeloop.Delivered) {
		return
	}
	name := keyName(c.Client, *p.Key)
	if first == nil {
		h.KeysIn = append(h.KeysIn, name)
	}
	h.Keys[name] = &keyed{Content: p.Content, Call: c.ID, Index: i}
	if len(h.KeysIn) > pastLimit {
		delete(h.Keys, h.KeysIn[0])
		h.KeysIn = h.KeysIn[1:]
	}
}

func (h *hard) keyOf(client string, key *string) *keyed {
	if key == nil {
		return nil
	}
	return h.Keys[keyName(client, *key)]
}

func keyName(client, key string) string { return client + "\x00" + key }

// numbers is the scope that keeps the numbers of a scope's receipts.
func (h *hard) numbers(scope int) *harnessSession { return h.Sessions[h.Sessions[scope].Numbers] }

func (h *hard) receipt(f ReceiptIssued) {
	r := f.Receipt
	if r.Sequence != nil {
		h.numbers(f.Scope).Receipts = *r.Sequence
	}
	delete(h.Calls, f.Call)
	// A parent is needed only while the same invocation may tell more to the
	// same client.
	key := r.ClientID + "\x00" + r.InvocationID
	h.Parents[key] = r.ReceiptID
	if len(h.Parents) > 4*pastLimit {
		h.Parents = map[string]string{key: r.ReceiptID}
	}
}
