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

// said is what a consumer did, in words.
func said(out []view.HCPOutcome) string {
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

// TestHCPConsumer plays what HCP L2 says of an event that comes again, that
// comes early, that is missing, and that comes too late. A step is a number
// that comes, seconds that pass ("+2"), or the end of the input.
func TestHCPConsumer(t *testing.T) {
	for _, c := range []struct {
		name   string
		window int
		steps  string
		want   string
	}{
		{"in order", 64, "a1 a2 a3", "a1 | a2 | a3"},
		{"a repeat is dropped, whether the channel calls it one or not", 64, "a1 a2 a2 a1 a3", "a1 | a2 |  |  | a3"},
		{"out of order within the window", 64, "a1 a3 a4 a2", "a1 |  |  | a2, a3, a4"},
		{"a repeat of what is held", 64, "a1 a3 a3 a2 a3", "a1 |  |  | a2, a3 | "},
		{"what never comes is a gap when its time is over", 64, "a1 a3 +1 a5 +1 +1", "a1 |  |  |  | gap a2, a3 | gap a4, a5"},
		{"the time is that of each event, not of the first", 64, "a1 a5 +1 a3 +1", "a1 |  |  |  | gap a2, a3, gap a4, a5"},
		{"a gap of many is told once", 64, "a1 a9 +2 a10", "a1 |  | gap a2-8, a9 | a10"},
		{"a window that is full gives way", 2, "a1 a3 a5 a7", "a1 |  |  | gap a2, a3"},
		{"what follows goes along", 2, "a1 a3 a4 a6", "a1 |  |  | gap a2, a3, a4"},
		{"no window, no patience", 0, "a1 a3 a2 a4", "a1 | gap a2, a3 | late a2 | a4"},
		{"what was passed over is late, and not handed on", 64, "a1 a4 +2 a2 a3 a2 a5", "a1 |  | gap a2-3, a4 | late a2 | late a3 | late a2 | a5"},
		{"the end of the input ends the waiting", 64, "a1 a5 a3 b2 b1 b4 end", "a1 |  |  |  | b1, b2 |  | gap a2, a3, gap a4, a5, gap b3, b4"},
		{"a session that is met in its midst has no gap before", 64, "a40 +2 a39 a41", " | a40 |  | a41"},
		{"each session by itself", 64, "a1 b1 a2 b3 a3 b2", "a1 | b1 | a2 |  | a3 | b2, b3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			consumer, now := view.NewHCPConsumer(c.window, view.HCPWindowTime), epoch
			var got []string
			for _, step := range strings.Fields(c.steps) {
				var n uint64
				switch {
				case step == "end":
					got = append(got, said(consumer.End()))
				case step[0] == '+':
					_, err := fmt.Sscanf(step, "+%d", &n)
					require.NoError(t, err)
					now = now.Add(time.Duration(n) * time.Second)
					got = append(got, said(consumer.Wake(now)))
				default:
					_, err := fmt.Sscanf(step[1:], "%d", &n)
					require.NoError(t, err)
					got = append(got, said(consumer.See(now, envelope(t, step[:1], n))))
				}
			}
			require.Equal(t, c.want, strings.Join(got, " | "))
		})
	}
}

// TestHCPConsumerState: what was handed on and what was passed over is known
// after a restart; what was only held is not, and must come again.
func TestHCPConsumerState(t *testing.T) {
	first := view.NewHCPConsumer(64, view.HCPWindowTime)
	for _, n := range []uint64{1, 4} {
		first.See(epoch, envelope(t, "a", n))
	}
	first.Wake(epoch.Add(view.HCPWindowTime))
	first.See(epoch, envelope(t, "a", 6))
	first.See(epoch, envelope(t, "a", 2))
	first.See(epoch, envelope(t, "b", 9)) // held: nothing is known of b
	state, err := first.State()
	require.NoError(t, err)
	require.JSONEq(t, `{"sessions":{"a":{"last_processed_sequence":4,"skipped":[[2,3]],"late":1}}}`, string(state))

	second := view.NewHCPConsumer(64, view.HCPWindowTime)
	require.NoError(t, second.Restore(state))
	require.Equal(t, "", said(second.See(epoch, envelope(t, "a", 4))))
	require.Equal(t, "late a3", said(second.See(epoch, envelope(t, "a", 3))))
	require.Equal(t, "a5", said(second.See(epoch, envelope(t, "a", 5))))
	require.Equal(t, "a6", said(second.See(epoch, envelope(t, "a", 6))))

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

// TestLawHCPConsumer lets events of several sessions come in any order, again
// and not at all, while time passes and the consumer is restarted, and keeps
// its own books: each event once, in order; what was passed over is named once
// and by one gap; nothing is held too long or too many at a time; nothing that
// came is gone without a word.
func TestLawHCPConsumer(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	reached := map[string]int{}
	rapid.Check(t, func(r *rapid.T) { consume(r, reached) })
	for _, what := range []string{"gap", "late", "repeat", "restart", "in order", "full"} {
		require.NotZero(t, reached[what], "no world got to %s", what)
	}
}

// books are what the law keeps of one session.
type books struct {
	applied []uint64
	named   map[uint64]int // numbers that a gap named
	came    map[uint64]bool
	since   map[uint64]time.Time // held, as far as an onlooker knows
}

func consume(r *rapid.T, reached map[string]int) {
	window := rapid.SampledFrom([]int{0, 1, 3, 64}).Draw(r, "window")
	hold := rapid.SampledFrom([]time.Duration{0, time.Second, view.HCPWindowTime}).Draw(r, "hold")
	c, now := view.NewHCPConsumer(window, hold), epoch
	all := map[string]*books{}
	of := func(id string) *books {
		if all[id] == nil {
			all[id] = &books{named: map[uint64]int{}, came: map[uint64]bool{}, since: map[uint64]time.Time{}}
		}
		return all[id]
	}
	last := func(b *books) uint64 {
		if len(b.applied) == 0 {
			return 0
		}
		return b.applied[len(b.applied)-1]
	}
	take := func(out []view.HCPOutcome) {
		for _, o := range out {
			if n := o.Warning; n != nil {
				b := of(n.SessionID)
				require.LessOrEqual(r, n.From, n.To)
				reached[n.Warning]++
				for seq := n.From; seq <= n.To; seq++ {
					if n.Warning == "late" {
						require.Equal(r, 1, b.named[seq], "late is what a gap passed over")
						continue
					}
					require.Positive(r, last(b), "nothing was handed on before, so nothing is known to be missing")
					require.Greater(r, seq, last(b))
					b.named[seq]++
					require.Equal(r, 1, b.named[seq], "named by one gap")
				}
				continue
			}
			b := of(o.Event.SessionID)
			require.True(r, b.came[o.Event.Sequence])
			require.Greater(r, o.Event.Sequence, last(b), "once, and in order")
			for seq := last(b) + 1; len(b.applied) > 0 && seq < o.Event.Sequence; seq++ {
				require.Equal(r, 1, b.named[seq], "%d is passed over without a word", seq)
			}
			b.applied = append(b.applied, o.Event.Sequence)
			delete(b.since, o.Event.Sequence)
		}
	}
	check := func() {
		for id, b := range all {
			require.LessOrEqual(r, len(b.since), window, "session %s: more is held than the window", id)
			for seq, since := range b.since {
				require.Less(r, now.Sub(since), max(hold, 1), "event %d is held too long", seq)
				require.NotEqual(r, last(b)+1, seq, "the next one is held")
			}
		}
		at, ok := c.Deadline()
		want := time.Time{}
		for _, b := range all {
			for _, since := range b.since {
				if due := since.Add(hold); want.IsZero() || due.Before(want) {
					want = due
				}
			}
		}
		require.Equal(r, !want.IsZero(), ok)
		require.True(r, at.Equal(want), "the deadline is %s, want %s", at, want)
	}
	for range rapid.IntRange(1, 80).Draw(r, "steps") {
		switch rapid.IntRange(0, 9).Draw(r, "what") {
		case 0:
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 3 * time.Second}).Draw(r, "for"))
			take(c.Wake(now))
		case 1:
			if rapid.IntRange(0, 3).Draw(r, "restart") == 0 {
				reached["restart"]++
				state, err := c.State()
				require.NoError(r, err)
				c = view.NewHCPConsumer(window, hold)
				require.NoError(r, c.Restore(state))
				for _, b := range all {
					clear(b.since) // not processed: it must come again
				}
			}
		default:
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "session")
			b := of(id)
			seq := last(b) + 1
			if rapid.IntRange(0, 2).Draw(r, "next") > 0 {
				seq = uint64(rapid.IntRange(1, int(last(b))+6).Draw(r, "sequence"))
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(r, "ms")) * time.Millisecond)
			take(c.Wake(now)) // whoever calls it wakes it at its deadline
			before, held := len(b.applied), len(b.since)
			_, again := b.since[seq]
			repeat := seq <= last(b) || again
			b.came[seq] = true
			if !repeat {
				b.since[seq] = now
			}
			out := c.See(now, envelope(r, id, seq))
			take(out)
			switch {
			case repeat && b.named[seq] == 1 && !again:
				require.Len(r, out, 1, "late")
			case repeat:
				reached["repeat"]++
				require.Empty(r, out, "a repeat is dropped without a word")
			case seq == last(b) && len(b.applied) == before+1:
				reached["in order"]++
			case held == window && window > 0:
				reached["full"]++
				require.NotEmpty(r, out, "a full window gives way")
			}
		}
		check()
	}
	take(c.End())
	for _, b := range all {
		require.Empty(r, b.since, "the end leaves nothing held")
		require.True(r, slices.IsSorted(b.applied))
	}
	_, waits := c.Deadline()
	require.False(r, waits)
}

// FuzzHCPEnvelope: whatever comes, the parser ends in an error or in an
// envelope that says what any JSON reader reads there, that parses again as
// itself, and of which a consumer hands on the first and drops the second.
func FuzzHCPEnvelope(f *testing.F) {
	for _, c := range envelopeCases {
		f.Add([]byte(c.line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := view.ParseHCPEvent(line)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of two lines: %q", err)
			}
			return
		}
		if !json.Valid(e.Line) {
			t.Fatalf("accepted, and no JSON: %q", line)
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
	{"a token is somebody's own", around(`"event_type":"session_created","sequence":1,"data":{"state":"RUNNING","risk_level":"R2","session_token":"t"}`), ""},
	{"a partial result", around(`"event_type":"intermediate_result","sequence":1,"data":{"result_type":"text","data":{"a":1},"is_partial":true}`), ""},
	{"a partial result without a part", around(`"event_type":"intermediate_result","sequence":1,"data":{"result_type":"text","is_partial":true}`), "payload.data.data is missing or not what it must be"},
	{"a partial result of the wrong type", around(`"event_type":"intermediate_result","sequence":1,"data":{"result_type":"text","data":1,"is_partial":"yes"}`), "payload.data.is_partial is missing or not what it must be"},
	{"a state that is none", around(`"event_type":"session_closed","sequence":1,"data":{"final_state":"DONE","reason":"r"}`), "payload.data.final_state is missing or not what it must be"},
	{"a level that is none", around(`"event_type":"log","sequence":1,"data":{"level":"loud"}`), "payload.data.level is missing or not what it must be"},
	{"a percentage in words", around(`"event_type":"progress","sequence":1,"data":{"percent":"half"}`), "payload.data.percent is missing or not what it must be"},
	{"an event type of a later version", around(`"event_type":"tool_start","sequence":1,"data":{}`), ""},
	{"a member of a later version", strings.Replace(around(`"event_type":"log","sequence":1,"data":{},"x":1`), `"1.0"`, `"1.7"`, 1), ""},
	{"another version", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"1.0"`, `"2.0"`, 1), "hcp_version is not 1.x"},
	{"no version", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"hcp_version":"1.0",`, ``, 1), "hcp_version is missing or not a string"},
	{"no session", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"s"`, `null`, 1), "session_id is missing or not a string"},
	{"another message", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"event"`, `"task_completed"`, 1), "type is not event"},
	{"a name in other letters", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"type"`, `"Type"`, 1), "type is missing or not a string"},
	{"no payload", `{"hcp_version":"1.0","message_id":"m","timestamp":"t","session_id":"s","type":"event"}`, "payload is not an object"},
	{"number nought", around(`"event_type":"log","sequence":0,"data":{}`), "payload.sequence is not a whole number from 1 on"},
	{"a negative number", around(`"event_type":"log","sequence":-1,"data":{}`), "payload.sequence is not a whole number from 1 on"},
	{"a broken number", around(`"event_type":"log","sequence":1.5,"data":{}`), "payload.sequence is not a whole number from 1 on"},
	{"a number in words", around(`"event_type":"log","sequence":"1","data":{}`), "payload.sequence is not a whole number from 1 on"},
	{"a number that not every reader can tell", around(`"event_type":"log","sequence":9007199254740992,"data":{}`), "payload.sequence is not a whole number from 1 on"},
	{"no data", around(`"event_type":"log","sequence":1`), "payload.data is not an object"},
	{"data that is null", around(`"event_type":"log","sequence":1,"data":null`), "payload.data is not an object"},
	{"a list", `[1]`, "it is not a JSON object"},
	{"half a line", `{"hcp_version":"1.0"`, "it is not a JSON object"},
	{"not even text", "{\"\xff\":1}", "it is not UTF-8"},
	{"an id without end", strings.Replace(around(`"event_type":"log","sequence":1,"data":{}`), `"s"`, `"`+strings.Repeat("s", 257)+`"`, 1), "session_id is longer than 256 bytes"},
}

// around is an envelope around a payload's members.
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

// TestOwnEnvelopesAreRead: what we tell is what a consumer takes, all of it and
// in order.
func TestOwnEnvelopesAreRead(t *testing.T) {
	c := view.NewHCPConsumer(view.HCPWindow, view.HCPWindowTime)
	var hcp view.HCP
	told := 0
	for _, e := range entries(t) {
		for _, m := range hcp.Apply(e) {
			line, err := json.Marshal(m)
			require.NoError(t, err)
			read, err := view.ParseHCPEvent(line)
			require.NoError(t, err)
			require.Len(t, c.See(e.At, read), 1)
			told++
		}
	}
	require.NotZero(t, told)
	require.Empty(t, c.End())
}
