package view_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/view"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func envelope(t require.TestingT, session string, sequence uint64) view.HCPEnvelope {
	line := fmt.Sprintf(`{"hcp_version":"1.0","message_id":"m","timestamp":"2026-01-02T03:04:05.000Z","session_id":%q,"type":"event","payload":{"event_type":"progress","sequence":%d,"data":{}}}`, session, sequence)
	e, err := view.ParseHCPEvent([]byte(line))
	require.NoError(t, err)
	return e
}

// describe lists the outcomes of a consumer.
func describe(out []view.HCPOutcome) string {
	var words []string
	for _, o := range out {
		switch {
		case o.Event != nil:
			words = append(words, fmt.Sprintf("%s%d", o.Event.SessionID, o.Event.Sequence))
		case o.Warning.From == o.Warning.To:
			words = append(words, fmt.Sprintf("%s %s%d", o.Warning.Warning, o.Warning.SessionID, o.Warning.From))
		default:
			words = append(words, fmt.Sprintf("%s %s%d-%d", o.Warning.Warning, o.Warning.SessionID, o.Warning.From, o.Warning.To))
		}
	}
	return strings.Join(words, ", ")
}

// TestHCPConsumer sends repeated, early, missing and late events. A step is an
// event ("a1"), seconds that pass ("+2"), or the end of the input.
func TestHCPConsumer(t *testing.T) {
	for _, c := range []struct {
		name   string
		window int
		steps  string
		want   string
	}{
		{"in order", 64, "a1 a2 a3", "a1 | a2 | a3"},
		{"a repeat is dropped", 64, "a1 a2 a2 a1 a3", "a1 | a2 |  |  | a3"},
		{"out of order within the window", 64, "a1 a3 a4 a2", "a1 |  |  | a2, a3, a4"},
		{"a repeat of a held event is dropped", 64, "a1 a3 a3 a2 a3", "a1 |  |  | a2, a3 | "},
		{"a missing event is a gap after the window's time", 64, "a1 a3 +1 a5 +1 +1", "a1 |  |  |  | gap a2, a3 | gap a4, a5"},
		{"each event has its own time", 64, "a1 a5 +1 a3 +1", "a1 |  |  |  | gap a2, a3, gap a4, a5"},
		{"a gap of several events is reported once", 64, "a1 a9 +2 a10", "a1 |  | gap a2-8, a9 | a10"},
		{"a full window delivers", 2, "a1 a3 a5 a7", "a1 |  |  | gap a2, a3"},
		{"events that follow are delivered too", 2, "a1 a3 a4 a6", "a1 |  |  | gap a2, a3, a4"},
		{"without a window nothing is held", 0, "a1 a3 a2 a4", "a1 | gap a2, a3 | late a2 | a4"},
		{"a late event is not delivered", 64, "a1 a4 +2 a2 a3 a2 a5", "a1 |  | gap a2-3, a4 | late a2 | late a3 | late a2 | a5"},
		{"the end of the input delivers held events", 64, "a1 a5 a3 b2 b1 b4 end", "a1 |  |  |  | b1, b2 |  | gap a2, a3, gap a4, a5, gap b3, b4"},
		{"a first event that is not number 1 has no gap before it", 64, "a40 +2 a39 a41", " | a40 |  | a41"},
		{"sessions are independent", 64, "a1 b1 a2 b3 a3 b2", "a1 | b1 | a2 |  | a3 | b2, b3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			consumer, now := view.NewHCPConsumer(c.window, view.HCPWindowTime), epoch
			var got []string
			for _, step := range strings.Fields(c.steps) {
				var n uint64
				switch {
				case step == "end":
					got = append(got, describe(consumer.End()))
				case step[0] == '+':
					_, err := fmt.Sscanf(step, "+%d", &n)
					require.NoError(t, err)
					now = now.Add(time.Duration(n) * time.Second)
					got = append(got, describe(consumer.Wake(now)))
				default:
					_, err := fmt.Sscanf(step[1:], "%d", &n)
					require.NoError(t, err)
					got = append(got, describe(consumer.See(now, envelope(t, step[:1], n))))
				}
			}
			require.Equal(t, c.want, strings.Join(got, " | "))
		})
	}
}

// TestHCPConsumerBounds checks that an event with an implausible number does not affect
// other events, that a closed session stays closed, and that the state's size is limited.
func TestHCPConsumerBounds(t *testing.T) {
	const far = 1<<53 - 1
	absurd := envelope(t, "a", far)
	c := view.NewHCPConsumer(view.HCPWindow, view.HCPWindowTime)
	require.Equal(t, "a1", describe(c.See(epoch, envelope(t, "a", 1))))
	require.Empty(t, c.See(epoch, absurd))
	require.Equal(t, "a2", describe(c.See(epoch, envelope(t, "a", 2))))
	require.Equal(t, fmt.Sprintf("implausible a%d", far), describe(c.Wake(epoch.Add(view.HCPWindowTime))))
	require.Equal(t, "a3", describe(c.See(epoch, envelope(t, "a", 3))), "the session continues")
	require.Empty(t, c.See(epoch, absurd), "the same number again proves nothing")
	require.Equal(t, fmt.Sprintf("implausible a%d", far), describe(c.End()))
	require.Equal(t, fmt.Sprintf("implausible b%d", far), describe(append(c.See(epoch, envelope(t, "b", far)), c.End()...)), "nor as the first event")
	require.Equal(t, "b1", describe(append(c.See(epoch, envelope(t, "b", 1)), c.End()...)))

	require.Empty(t, c.See(epoch, envelope(t, "a", 100_000)))
	require.Empty(t, c.See(epoch, envelope(t, "a", 100_001)))
	require.Equal(t, "gap a4-99999, a100000, a100001", describe(c.End()), "two events next to each other prove a jump")

	closed := envelope(t, "a", 100_002)
	closed.EventType = "session_closed"
	require.Equal(t, "a100002", describe(c.See(epoch, closed)))
	require.Empty(t, c.See(epoch, closed), "a repeat")
	require.Equal(t, "closed a100003", describe(c.See(epoch, envelope(t, "a", 100_003))))

	for i := range uint64(200) { // more gaps than are remembered
		c.See(epoch, envelope(t, "gaps", 2*i+1))
		c.End()
	}
	first, last := envelope(t, "s", 1), envelope(t, "s", 2)
	last.EventType = "session_closed"
	for n := range 6_000 { // more sessions than are remembered
		first.SessionID, last.SessionID = fmt.Sprint("open", n), fmt.Sprint("closed", n)
		c.See(epoch, first)
		c.See(epoch, last)
		c.End()
	}
	for n := 2_000; n < 6_000; n++ { // sessions that end one after the other
		last.SessionID = fmt.Sprint("open", n)
		c.See(epoch, last)
	}
	c.See(epoch, envelope(t, "gaps", 1))
	var state struct {
		Sessions map[string]struct {
			Skipped [][2]uint64
			Closed  bool
		}
	}
	doc, err := c.State()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(doc, &state))
	count := map[bool]int{}
	for _, s := range state.Sessions {
		count[s.Closed]++
		require.LessOrEqual(t, len(s.Skipped), 64)
	}
	require.LessOrEqual(t, count[false], 4096)
	require.LessOrEqual(t, count[true], 1024)
	require.NoError(t, view.NewHCPConsumer(0, 0).Restore(doc))
}

// TestHCPConsumerHeld checks the limit of held events over all sessions.
func TestHCPConsumerHeld(t *testing.T) {
	c := view.NewHCPConsumer(view.HCPWindow, view.HCPWindowTime)
	in, out := 0, 0
	for n := range 200 {
		for i := range uint64(40) {
			in++
			for _, o := range c.See(epoch, envelope(t, fmt.Sprint("s", n), 2+2*i)) {
				if o.Event != nil {
					out++
				}
			}
		}
	}
	require.LessOrEqual(t, in-out, 4096)
}

// TestHCPConsumerState checks that a restarted consumer knows the delivered and
// skipped numbers. Held events must be sent again.
func TestHCPConsumerState(t *testing.T) {
	first := view.NewHCPConsumer(64, view.HCPWindowTime)
	for _, n := range []uint64{1, 4} {
		first.See(epoch, envelope(t, "a", n))
	}
	first.Wake(epoch.Add(view.HCPWindowTime))
	first.See(epoch, envelope(t, "a", 6))
	first.See(epoch, envelope(t, "a", 2))
	first.See(epoch, envelope(t, "b", 9)) // this event is held, so session b has no stored state
	state, err := first.State()
	require.NoError(t, err)
	require.JSONEq(t, `{"sessions":{"a":{"last_processed_sequence":4,"skipped":[[2,3]],"late":1,"seen":5}}}`, string(state))

	second := view.NewHCPConsumer(64, view.HCPWindowTime)
	require.NoError(t, second.Restore(state))
	require.Equal(t, "", describe(second.See(epoch, envelope(t, "a", 4))))
	require.Equal(t, "late a3", describe(second.See(epoch, envelope(t, "a", 3))))
	require.Equal(t, "a5", describe(second.See(epoch, envelope(t, "a", 5))))
	require.Equal(t, "a6", describe(second.See(epoch, envelope(t, "a", 6))))

	for _, bad := range []string{
		``, `[]`, `null`, `{}`, `{"sessions":{"a":null}}`, `{"sessions":{"a":{"last_processed_sequence":0}}}`,
		`{"sessions":{"a":{"last_processed_sequence":4,"skipped":[[3,2]]}}}`,
		`{"sessions":{"a":{"last_processed_sequence":4,"skipped":[[1,2]]}}}`,
		`{"sessions":{"a":{"last_processed_sequence":4,"skipped":[[3,4]]}}}`,
		`{"sessions":{"a":{"last_processed_sequence":9,"skipped":[[3,4],[5,6]]}}}`,
	} {
		require.Error(t, view.NewHCPConsumer(64, 0).Restore([]byte(bad)), bad)
	}
}

// TestLawHCPConsumer sends events of several sessions in random order, with
// repetitions and omissions, while time passes and the consumer restarts. No
// event is delivered twice or out of order. A skipped number is reported once, by
// one gap. No event is held too long or disappears without a warning. No session
// has more held events than the window allows.
func TestLawHCPConsumer(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	reached := map[string]int{}
	rapid.Check(t, func(r *rapid.T) { consume(r, reached) })
	for _, what := range []string{"gap", "late", "repeat", "restart", "in order", "full"} {
		require.NotZero(t, reached[what], "no run reached %s", what)
	}
}

// An onlooker sends events to a consumer, and checks for each session what the
// consumer delivers and reports.
type onlooker struct {
	r        *rapid.T
	c        *view.HCPConsumer
	now      time.Time
	window   int
	hold     time.Duration
	sessions map[string]*books
	reached  map[string]int
}

// books record which events of one session arrived, were delivered or are missing.
type books struct {
	delivered []uint64
	missing   map[uint64]int // how often each number was reported in a gap
	came      map[uint64]bool
	since     map[uint64]time.Time // when each held event arrived
}

func (b *books) last() uint64 {
	if len(b.delivered) == 0 {
		return 0
	}
	return b.delivered[len(b.delivered)-1]
}

func (o *onlooker) books(id string) *books {
	if o.sessions[id] == nil {
		o.sessions[id] = &books{missing: map[uint64]int{}, came: map[uint64]bool{}, since: map[uint64]time.Time{}}
	}
	return o.sessions[id]
}

// outcomes checks what the consumer did.
func (o *onlooker) outcomes(out []view.HCPOutcome) {
	for _, outcome := range out {
		if outcome.Warning != nil {
			o.warning(*outcome.Warning)
			continue
		}
		b, seq := o.books(outcome.Event.SessionID), outcome.Event.Sequence
		require.True(o.r, b.came[seq])
		require.Greater(o.r, seq, b.last(), "once, and in order")
		for skipped := b.last() + 1; len(b.delivered) > 0 && skipped < seq; skipped++ {
			require.Equal(o.r, 1, b.missing[skipped], "%d is skipped without a warning", skipped)
		}
		b.delivered = append(b.delivered, seq)
		delete(b.since, seq)
	}
}

func (o *onlooker) warning(n view.HCPNotice) {
	b := o.books(n.SessionID)
	require.LessOrEqual(o.r, n.From, n.To)
	o.reached[n.Warning]++
	for seq := n.From; seq <= n.To; seq++ {
		if n.Warning == "late" {
			require.Equal(o.r, 1, b.missing[seq], "only a missing event can be late")
			continue
		}
		require.Positive(o.r, b.last(), "without a delivered event, nothing is known to be missing")
		require.Greater(o.r, seq, b.last())
		b.missing[seq]++
		require.Equal(o.r, 1, b.missing[seq], "reported by one gap")
	}
}

// check checks that no session holds too many events, that no event is held too long, and
// that the consumer's deadline is right.
func (o *onlooker) check() {
	var want time.Time
	for id, b := range o.sessions {
		require.LessOrEqual(o.r, len(b.since), o.window, "session %s: more is held than the window", id)
		for seq, since := range b.since {
			require.Less(o.r, o.now.Sub(since), max(o.hold, 1), "event %d is held too long", seq)
			require.NotEqual(o.r, b.last()+1, seq, "the next one is held")
			if due := since.Add(o.hold); want.IsZero() || due.Before(want) {
				want = due
			}
		}
	}
	at, ok := o.c.Deadline()
	require.Equal(o.r, !want.IsZero(), ok)
	require.True(o.r, at.Equal(want), "the deadline is %s, want %s", at, want)
}

// restart replaces the consumer by a new one with the same state. Held events
// must be sent again.
func (o *onlooker) restart() {
	o.reached["restart"]++
	state, err := o.c.State()
	require.NoError(o.r, err)
	o.c = view.NewHCPConsumer(o.window, o.hold)
	require.NoError(o.r, o.c.Restore(state))
	for _, b := range o.sessions {
		clear(b.since)
	}
}

// send gives the consumer one event, often the next one of its session.
func (o *onlooker) send() {
	id := rapid.SampledFrom([]string{"a", "b"}).Draw(o.r, "session")
	b := o.books(id)
	seq := b.last() + 1
	if rapid.IntRange(0, 2).Draw(o.r, "next") > 0 {
		seq = uint64(rapid.IntRange(1, int(b.last())+6).Draw(o.r, "sequence"))
	}
	o.now = o.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(o.r, "ms")) * time.Millisecond)
	o.outcomes(o.c.Wake(o.now)) // the consumer's deadline may have passed
	before, held := len(b.delivered), len(b.since)
	_, again := b.since[seq]
	repeat := seq <= b.last() || again
	b.came[seq] = true
	if !repeat {
		b.since[seq] = o.now
	}
	out := o.c.See(o.now, envelope(o.r, id, seq))
	o.outcomes(out)
	switch {
	case repeat && b.missing[seq] == 1 && !again:
		require.Len(o.r, out, 1, "late")
	case repeat:
		o.reached["repeat"]++
		require.Empty(o.r, out, "a repeat is dropped without a warning")
	case seq == b.last() && len(b.delivered) == before+1:
		o.reached["in order"]++
	case held == o.window && o.window > 0:
		o.reached["full"]++
		require.NotEmpty(o.r, out, "a full window delivers")
	}
}

func consume(r *rapid.T, reached map[string]int) {
	window := rapid.SampledFrom([]int{0, 1, 3, 64}).Draw(r, "window")
	hold := rapid.SampledFrom([]time.Duration{0, time.Second, view.HCPWindowTime}).Draw(r, "hold")
	o := &onlooker{r: r, c: view.NewHCPConsumer(window, hold), now: epoch, window: window, hold: hold, sessions: map[string]*books{}, reached: reached}
	for range rapid.IntRange(1, 80).Draw(r, "steps") {
		switch rapid.IntRange(0, 9).Draw(r, "what") {
		case 0:
			o.now = o.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 3 * time.Second}).Draw(r, "for"))
			o.outcomes(o.c.Wake(o.now))
		case 1:
			if rapid.IntRange(0, 3).Draw(r, "restart") == 0 {
				o.restart()
			}
		default:
			o.send()
		}
		o.check()
	}
	o.outcomes(o.c.End())
	for _, b := range o.sessions {
		require.Empty(r, b.since, "the end leaves nothing held")
		require.True(r, slices.IsSorted(b.delivered))
	}
	_, waits := o.c.Deadline()
	require.False(r, waits)
}

// FuzzHCPEnvelope checks that any input gives an error or an envelope whose
// line parses to the same envelope. A consumer delivers it once and drops the
// repeat.
func FuzzHCPEnvelope(f *testing.F) {
	for _, c := range envelopeCases {
		f.Add([]byte(c.line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := view.ParseHCPEvent(line)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error with a line break: %q", err)
			}
			return
		}
		if !json.Valid(e.Line) {
			t.Fatalf("accepted, but not JSON: %q", line)
		}
		again, err := view.ParseHCPEvent(e.Line)
		require.NoError(t, err)
		require.Equal(t, e, again)
		c := view.NewHCPConsumer(0, 0)
		require.Len(t, c.See(epoch, e), 1)
		require.Empty(t, c.See(epoch, e))
		state, err := c.State()
		require.NoError(t, err)
		restarted := view.NewHCPConsumer(0, 0)
		require.NoError(t, restarted.Restore(state))
		require.Empty(t, restarted.See(epoch, e))
	})
}

var envelopeCases = []struct{ name, line, err string }{
	{"the example of L2", around(`"event_type":"progress","sequence":42,"data":{ }`), ""},
	{"each event type, with its data", around(`"event_type":"checkpoint_created","sequence":100,"data":{"checkpoint_id":"ckpt-001","description":"d","resumable":true,"created_at":"2025-01-15T10:00:00.000Z"}`), ""},
	{"a session token", around(`"event_type":"session_created","sequence":1,"data":{"state":"RUNNING","risk_level":"R2","session_token":"t"}`), ""},
	{"a partial result", around(`"event_type":"intermediate_result","sequence":1,"data":{"result_type":"text","data":{"a":1},"is_partial":true}`), ""},
	{"a partial result without a part", around(`"event_type":"intermediate_result","sequence":1,"data":{"result_type":"text","is_partial":true}`), "payload.data.data is missing or has the wrong type or value"},
	{"a partial result of the wrong type", around(`"event_type":"intermediate_result","sequence":1,"data":{"result_type":"text","data":1,"is_partial":"yes"}`), "payload.data.is_partial is missing or has the wrong type or value"},
	{"an unknown state", around(`"event_type":"session_closed","sequence":1,"data":{"final_state":"DONE","reason":"r"}`), "payload.data.final_state is missing or has the wrong type or value"},
	{"an invalid end", around(`"event_type":"session_closed","sequence":1,"data":{"final_state":"RUNNING","reason":"r"}`), "payload.data.final_state is missing or has the wrong type or value"},
	{"an unknown level", around(`"event_type":"log","sequence":1,"data":{"level":"loud"}`), "payload.data.level is missing or has the wrong type or value"},
	{"a percentage in words", around(`"event_type":"progress","sequence":1,"data":{"percent":"half"}`), "payload.data.percent is missing or has the wrong type or value"},
	{"an event type of a later version", around(`"event_type":"tool_start","sequence":1,"data":{}`), ""},
	{"a member of a later version", strings.Replace(around(`"event_type":"log","sequence":1,"data":{},"x":1`), `"1.0"`, `"1.7"`, 1), ""},
	{"another version", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"1.0"`, `"2.0"`, 1), "hcp_version is not 1.x"},
	{"no version", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"hcp_version":"1.0",`, ``, 1), "hcp_version is missing, empty or not a string"},
	{"no session", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"s"`, `null`, 1), "session_id is missing, empty or not a string"},
	{"another message", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"event"`, `"task_completed"`, 1), "type is not event"},
	{"a name in another case", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"type"`, `"Type"`, 1), "type is missing, empty or not a string"},
	{"no payload", `{"hcp_version":"1.0","message_id":"m","timestamp":"t","session_id":"s","type":"event"}`, "payload is not an object"},
	{"number 0", around(`"event_type":"log","sequence":0,"data":{}`), "payload.sequence is not a whole number from 1 to 9007199254740991"},
	{"a negative number", around(`"event_type":"log","sequence":-1,"data":{}`), "payload.sequence is not a whole number from 1 to 9007199254740991"},
	{"a broken number", around(`"event_type":"log","sequence":1.5,"data":{}`), "payload.sequence is not a whole number from 1 to 9007199254740991"},
	{"a number in words", around(`"event_type":"log","sequence":"1","data":{}`), "payload.sequence is not a whole number from 1 to 9007199254740991"},
	{"a number that is not exact in every reader", around(`"event_type":"log","sequence":9007199254740992,"data":{}`), "payload.sequence is not a whole number from 1 to 9007199254740991"},
	{"no data", around(`"event_type":"log","sequence":1`), "payload.data is not an object"},
	{"data that is null", around(`"event_type":"log","sequence":1,"data":null`), "payload.data is not an object"},
	{"a list", `[1]`, "not a JSON object"},
	{"half a line", `{"hcp_version":"1.0"`, "not a JSON object"},
	{"not UTF-8", "{\"\xff\":1}", "not UTF-8"},
	{"an id that is too long", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"s"`, `"`+strings.Repeat("s", 257)+`"`, 1), "session_id is longer than 256 bytes"},
}

// around returns an envelope with the given members of the payload.
func around(payload string) string {
	return `{"hcp_version":"1.0","message_id":"m","timestamp":"2026-01-02T03:04:05.000Z","session_id":"s","type":"event","payload":{` + payload + `}}`
}

func TestParseHCPEvent(t *testing.T) {
	for _, c := range envelopeCases {
		e, err := view.ParseHCPEvent([]byte("  " + c.line + "\r\n"))
		if c.err != "" {
			require.EqualError(t, err, c.err, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, c.line, string(e.Line), c.name)
	}
}

// TestOwnEnvelopesAreRead checks that a consumer accepts and delivers every
// event of view.HCP in order.
func TestOwnEnvelopesAreRead(t *testing.T) {
	c := view.NewHCPConsumer(view.HCPWindow, view.HCPWindowTime)
	var hcp view.HCP
	parsed := 0
	for _, e := range entries(t) {
		for _, m := range hcp.Apply(e) {
			line, err := json.Marshal(m)
			require.NoError(t, err)
			read, err := view.ParseHCPEvent(line)
			require.NoError(t, err)
			require.Len(t, c.See(e.At, read), 1)
			parsed++
		}
	}
	require.NotZero(t, parsed)
	require.Empty(t, c.End())
}
