package opencode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

// codeTime is the start of the tests' time line, in milliseconds since 1970.
const codeTime = 1795247312000

func codeEvent(n int64, kind, props string) string {
	return fmt.Sprintf(`{"id":"evt_%012x0000","type":%q,"properties":{"sessionID":"S",%s}}`, (codeTime+n)*0x1000&(1<<48-1), kind, props)
}

func codeUser(n int64, id string, created int64) string {
	return codeEvent(n, "message.updated", fmt.Sprintf(`"info":{"id":%q,"role":"user","time":{"created":%d}}`, id, codeTime+created))
}

func codePart(n int64, message, rest string) string {
	return codeEvent(n, "message.part.updated", fmt.Sprintf(`"part":{"id":"p","messageID":%q,%s}`, message, rest))
}

// codeAnswer returns the event of an answer; rest is the part after its times.
func codeAnswer(n int64, id, parent string, created, completed int64, rest string) string {
	times := fmt.Sprintf(`{"created":%d}`, codeTime+created)
	if completed > 0 {
		times = fmt.Sprintf(`{"created":%d,"completed":%d}`, codeTime+created, codeTime+completed)
	}
	return codeEvent(n, "message.updated", fmt.Sprintf(`"info":{"id":%q,"role":"assistant","parentID":%q,"mode":"build","modelID":"m","providerID":"p","time":%s%s}`, id, parent, times, rest))
}

const (
	codeTyped = `"type":"text","text":"secret"`
	codeStop  = `,"finish":"stop","tokens":{"total":30,"input":10,"output":3,"reasoning":2,"cache":{"read":7,"write":8}}`
)

func codeCreated(n int64, rest string) string {
	return codeEvent(n, "session.created", fmt.Sprintf(`"info":{"id":"S","time":{"created":%d}%s}`, codeTime, rest))
}

func codeBusy(n int64) string { return codeEvent(n, "session.status", `"status":{"type":"busy"}`) }

func codeIdle(n int64) string { return codeEvent(n, "session.idle", `"x":1`) }

// codeRows converts events to rows of the store.
func codeRows(events ...string) []string {
	var rows []string
	for i, e := range events {
		id := e[len(`{"id":"`) : len(`{"id":"`)+20]
		kind := strings.Split(e, `"`)[7]
		_, data, _ := strings.Cut(e, `"properties":`)
		rows = append(rows, fmt.Sprintf(`{"id":%q,"aggregate_id":"S","seq":%d,"type":"%s.1","data":%s`, id, i, kind, data))
	}
	return rows
}

func codeUpdated(n, tokens int64) string {
	return codeEvent(n, "session.updated", fmt.Sprintf(`"info":{"id":"S","title":"secret","tokens":{"input":%d}}`, tokens))
}

func TestBus(t *testing.T) {
	// signal adds the members that are the same in every signal.
	signal := func(ms int, rest string) string {
		kind, rest, _ := strings.Cut(rest, " ")
		detail, rest, _ := strings.Cut(rest, " ")
		return strings.TrimSuffix(fmt.Sprintf(`%s from=stream detail=%s at=07:48:32.%03d session=S %s`, kind, detail, ms, rest), " ")
	}
	const used = `used=30 call=%s input=10 cache_read=7 cache_write=8 output=5 reasoning=2 model=p/m`
	live := signal(0, "session_live session.created cause=unknown")
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"a turn with a repeated message and two idle events", []string{
			codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeBusy(3), codeAnswer(4, "a1", "u1", 4, 0, ""), codeUser(5, "u1", 1), codeBusy(6),
			codeAnswer(7, "a1", "u1", 4, 7, codeStop), codeAnswer(8, "a1", "u1", 4, 7, codeStop), codeIdle(9), codeIdle(10), codeUser(11, "u1", 1),
		}, []string{live, signal(3, "working session.status:busy"), signal(4, "prompt message.updated turn=u1"),
			signal(7, "usage a1 turn=u1 "+fmt.Sprintf(used, "a1")), signal(9, "turn_end session.idle turn=u1 outcome=completed")}},
		{"a message without an answer is not a prompt, also when a shell command follows", []string{
			codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeBusy(3), codeUser(4, "u2", 4), codePart(5, "u2", codeTyped+`,"synthetic":true`),
			codeAnswer(6, "a1", "u2", 6, 7, ""), codeIdle(8),
		}, []string{live, signal(3, "working session.status:busy"), signal(8, "idle session.idle")}},
		{"a message sent into a running turn is answered in it", []string{
			codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeBusy(3), codeAnswer(4, "a1", "u1", 4, 0, ""), codeUser(5, "u2", 5), codePart(6, "u2", codeTyped),
			codeAnswer(7, "a1", "u1", 4, 7, codeStop), codeAnswer(8, "a2", "u2", 8, 0, ""), codeAnswer(9, "a2", "u2", 8, 9, codeStop), codeIdle(10), codeBusy(11), codeIdle(12),
		}, []string{live, signal(3, "working session.status:busy"), signal(4, "prompt message.updated turn=u1"),
			signal(7, "usage a1 turn=u1 "+fmt.Sprintf(used, "a1")), signal(9, "usage a2 turn=u1 "+fmt.Sprintf(used, "a2")),
			signal(10, "turn_end session.idle turn=u1 outcome=completed"), signal(11, "working session.status:busy"), signal(12, "idle session.idle")}},
		{"a turn that fails before it is answered", []string{
			codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeBusy(3),
			codeEvent(4, "session.error", `"error":{"name":"ProviderAuthError","data":{"message":"secret"}}`), codeIdle(5),
		}, []string{live, signal(3, "working session.status:busy"), signal(4, "prompt message.updated turn=u1"),
			signal(5, "turn_end session.idle turn=u1 outcome=failed error=auth")}},
		{"a turn that continues after an error", []string{
			codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeBusy(3), codeAnswer(4, "a1", "u1", 4, 0, ""),
			codeEvent(5, "session.error", `"error":{"name":"ContextOverflowError","data":{}}`), codeBusy(6), codeAnswer(7, "a1", "u1", 4, 7, codeStop), codeIdle(8),
		}, []string{live, signal(3, "working session.status:busy"), signal(4, "prompt message.updated turn=u1"),
			signal(6, "fault session.error turn=u1 error=context_full"), signal(7, "usage a1 turn=u1 "+fmt.Sprintf(used, "a1")),
			signal(8, "turn_end session.idle turn=u1 outcome=completed")}},
		{"an error when nothing is done", []string{codeCreated(0, ""), codeIdle(1), codeEvent(2, "session.error", `"error":{"name":"UnknownError"}`), codeBusy(3)},
			[]string{live, signal(1, "idle session.idle"), signal(2, "fault session.error error=unknown"), signal(3, "working session.status:busy")}},
		{"the events between two turns were lost", []string{
			codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeBusy(3), codeAnswer(4, "a1", "u1", 4, 0, ""),
			`{"id":"evt_000000000000","type":"server.connected","properties":{}}`,
			codeUser(20, "u2", 20), codePart(21, "u2", codeTyped), codeAnswer(22, "a2", "u2", 22, 0, ""), codeAnswer(23, "a2", "u2", 22, 23, codeStop), codeIdle(24),
		}, []string{live, signal(3, "working session.status:busy"), signal(4, "prompt message.updated turn=u1"), signal(22, "prompt message.updated turn=u2"),
			signal(23, "usage a2 turn=u2 "+fmt.Sprintf(used, "a2")), signal(24, "turn_end session.idle turn=u2 outcome=completed")}},
		{"without a total the parts are the tokens in use; without tokens there is no usage", []string{
			codeAnswer(1, "a1", "u1", 1, 2, `,"finish":"stop","tokens":{"input":10,"output":3,"reasoning":2,"cache":{"read":7,"write":8}}`),
			codeAnswer(3, "a2", "u1", 3, 4, `,"finish":"stop","tokens":{"total":9,"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}`),
		}, []string{signal(1, "working message.updated"), signal(1, "usage a1 "+fmt.Sprintf(used, "a1"))}},
		{"questions to a person", []string{
			codeCreated(0, ""), codeEvent(1, "permission.asked", `"permission":"bash","patterns":["secret"]`), codeEvent(2, "permission.replied", `"reply":"reject"`),
			codeEvent(3, "question.asked", `"questions":[]`), codeEvent(4, "question.rejected", `"x":1`), codeEvent(5, "permission.asked", `"permission":"a sentence"`),
		}, []string{live, signal(1, "needs_input permission.asked:bash"), signal(2, "working permission.replied"), signal(3, "needs_input question.asked"),
			signal(4, "working question.rejected"), signal(5, "needs_input permission.asked")}},
		{"a compaction that was switched to no continuation, and one whose request was not seen", []string{
			codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", `"type":"compaction","auto":true`), codePart(3, "u1", `"type":"compaction","auto":true`),
			codeEvent(4, "session.compacted", `"x":1`), codeEvent(5, "session.compacted", `"x":1`),
		}, []string{live, signal(2, "compacting compaction:auto"), signal(4, "compacted session.compacted half=hook trigger=auto"),
			signal(5, "compacted session.compacted half=hook trigger=unknown")}},
		{"a long answer is a sign of life each second", []string{
			codeCreated(0, ""), codeEvent(500, "message.part.delta", `"delta":"secret"`), codeEvent(999, "message.part.delta", `"delta":"secret"`),
			codeEvent(1000-1+1, "message.part.delta", `"delta":"secret"`),
		}, []string{live, `alive from=stream detail=message.part.delta at=07:48:33.000 session=S`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := telemetrytest.Decoded(t, Bus, c.records...)
			require.Equal(t, c.want, got)
			require.NotContains(t, fmt.Sprint(got), "secret")
		})
	}
}

func TestStore(t *testing.T) {
	signal := func(ms int, rest string) string {
		kind, rest, _ := strings.Cut(rest, " ")
		detail, rest, _ := strings.Cut(rest, " ")
		if strings.Contains(detail, "~") {
			detail = `"` + strings.ReplaceAll(detail, "~", " ") + `"`
		}
		return strings.TrimSuffix(fmt.Sprintf(`%s from=store detail=%s at=07:48:32.%03d session=S %s`, kind, detail, ms, rest), " ")
	}
	const used = `used=30 call=%s input=10 cache_read=7 cache_write=8 output=5 reasoning=2 model=p/m`
	live := signal(0, "session_live session.created cause=unknown")
	begin := []string{codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeAnswer(4, "a1", "u1", 4, 0, "")}
	begun := []string{live, signal(4, "prompt message.updated turn=u1"), signal(4, "working message.updated turn=u1")}
	with := func(more ...string) []string { return append(begin[:len(begin):len(begin)], more...) }
	then := func(more ...string) []string { return append(begun[:len(begun):len(begun)], more...) }
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"a turn is over when its tokens are added up; a title adds none", codeRows(with(
			codeAnswer(7, "a1", "u1", 4, 7, codeStop), codeUpdated(8, 0), codeUpdated(9, 10), codeUser(11, "u1", 1))...),
			then(signal(7, "usage a1 turn=u1 "+fmt.Sprintf(used, "a1")), signal(9, "turn_end session.updated turn=u1 outcome=completed"))},
		{"a message sent into a running turn is answered in it", codeRows(with(codeUser(5, "u2", 5), codePart(6, "u2", codeTyped),
			codeAnswer(7, "a1", "u1", 4, 7, codeStop), codeAnswer(8, "a2", "u2", 8, 0, ""), codeUpdated(8, 10), codeAnswer(9, "a2", "u2", 8, 9, codeStop), codeUpdated(10, 20))...),
			then(signal(7, "usage a1 turn=u1 "+fmt.Sprintf(used, "a1")), signal(9, "usage a2 turn=u1 "+fmt.Sprintf(used, "a2")),
				signal(10, "turn_end session.updated turn=u1 outcome=completed"))},
		{"the program was killed in mid-answer: the next prompt is one", codeRows(with(codeUser(50, "u2", 50), codePart(51, "u2", codeTyped), codeAnswer(52, "a2", "u2", 52, 0, ""))...),
			then(signal(52, "prompt message.updated turn=u2"))},
		{"the program was killed between two steps: the next prompt is one", codeRows(with(
			codeAnswer(7, "a1", "u1", 4, 7, `,"finish":"tool-calls","tokens":{"input":0}`), codeUser(50, "u2", 50), codePart(51, "u2", codeTyped), codeAnswer(52, "a2", "u2", 52, 0, ""))...),
			then(signal(52, "prompt message.updated turn=u2"))},
		{"rows that are missing, and rows that come again", append(codeRows(begin...),
			`{"id":"x","aggregate_id":"S","seq":9,"type":"session.diff.1","data":{"sessionID":"S"}}`,
			`{"id":"x","aggregate_id":"S","seq":3,"type":"message.updated.1","data":{"sessionID":"S","info":{"id":"u9","role":"user"}}}`),
			then(signal(4, `gap seq~9 turn=u1`))},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := telemetrytest.Decoded(t, Store, c.records...)
			require.Equal(t, c.want, got)
			require.NotContains(t, fmt.Sprint(got), "secret")
		})
	}
}

// OpenCode may exit before it writes the row that ends a turn.
func TestEndOfTheStore(t *testing.T) {
	begin := []string{codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeAnswer(4, "a1", "u1", 4, 0, "")}
	then := func(more ...string) []string { return codeRows(append(begin[:4:4], more...)...) }
	answered := func(rest string) string { return codeAnswer(7, "a1", "u1", 4, 7, rest) }
	const over = "turn_end from=store detail=a1 at=07:48:32.007 session=S turn=u1 outcome="
	refused := codePart(6, "a1", `"type":"tool","tool":"bash","callID":"c1","state":{"status":"error","error":"secret"}`)
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"the answer is complete", then(answered(`,"finish":"stop"`)), []string{over + "completed"}},
		{"the answer ends at its limit", then(answered(`,"finish":"length"`)), []string{over + "completed"}},
		{"a refused tool", then(refused, answered(`,"finish":"tool-calls"`)), []string{over + "interrupted"}},
		{"a provider that reports stop after a tool call", then(refused, answered(`,"finish":"stop"`)), []string{over + "interrupted"}},
		{"the answer after a tool call", then(refused, answered(`,"finish":"tool-calls"`), codeAnswer(8, "a2", "u1", 8, 9, `,"finish":"stop"`)),
			[]string{strings.NewReplacer("a1", "a2", "007", "009").Replace(over) + "completed"}},
		{"the answer is a compaction's summary", then(answered(`,"finish":"stop","summary":true`)), nil},
		{"another message was sent", then(answered(`,"finish":"stop"`), codeUser(8, "u2", 8)), nil},
		{"the turn was ended by its row", then(answered(`,"finish":"stop"`), codeUpdated(9, 10)), nil},
		{"the answer is not complete", then(), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, run := newStore(), StoreOfRun().(telemetry.Holder)
			for _, r := range c.records {
				d.Decode([]byte(r))
				run.Decode([]byte(r))
			}
			var got, ofRun []string
			for _, s := range d.End() {
				got = append(got, telemetrytest.Line(s))
			}
			for _, s := range run.End() {
				ofRun = append(ofRun, telemetrytest.Line(s))
			}
			require.Equal(t, c.want, got)
			require.Equal(t, strings.ReplaceAll(strings.Join(c.want, "\n"), " turn=u1", ""), strings.Join(ofRun, "\n"))
			require.Empty(t, d.End())
		})
	}
}

func TestErrors(t *testing.T) {
	for failure, want := range map[string]string{
		`{"name":"APIError","data":{"statusCode":400}}`: "outcome=failed error=invalid_request",
		`{"name":"APIError","data":{"statusCode":401}}`: "outcome=failed error=auth",
		`{"name":"APIError","data":{"statusCode":402}}`: "outcome=failed error=billing",
		`{"name":"APIError","data":{"statusCode":429}}`: "outcome=failed error=rate_limit",
		`{"name":"APIError","data":{"statusCode":503}}`: "outcome=failed error=server_error",
		`{"name":"APIError","data":{"message":"x"}}`:    "outcome=failed error=network",
		`{"name":"ContextOverflowError","data":{}}`:     "outcome=failed error=context_full",
		`{"name":"ProviderAuthError","data":{}}`:        "outcome=failed error=auth",
		`{"name":"MessageAbortedError","data":{}}`:      "outcome=interrupted",
		`{"name":"a sentence and no name","data":{}}`:   "outcome=failed error=unknown",
		`null`: "outcome=completed",
	} {
		rest := codeStop + `,"error":` + failure
		bus := telemetrytest.Decoded(t, Bus, codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeAnswer(4, "a1", "u1", 4, 7, rest), codeIdle(8))
		require.Equal(t, `turn_end from=stream detail=session.idle at=07:48:32.008 session=S turn=u1 `+want, bus[len(bus)-1], failure)
		store := telemetrytest.Decoded(t, Store, codeRows(codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeAnswer(4, "a1", "u1", 4, 7, rest), codeUpdated(9, 9))...)
		end := store[len(store)-1]
		require.True(t, strings.HasPrefix(end, "turn_end ") && strings.HasSuffix(end, " session=S turn=u1 "+want), "%s: %s", failure, end)
	}
}

// TestSourcesAgree checks that the bus and the store of one program report the
// same turns, ends and calls.
func TestSourcesAgree(t *testing.T) {
	truth := func(d telemetry.Decoder, file string, sessions map[string]bool) []string {
		by := map[string][]string{}
		var order []string
		for _, r := range telemetrytest.Records(t, filepath.Join("testdata", file)) {
			for _, s := range d.Decode(r) {
				s.Source, s.Detail, s.At, s.Window, s.WindowSource = "x", "", time.Time{}, 0, ""
				switch s.Kind {
				case telemetry.SessionLive, telemetry.Prompt, telemetry.TurnEnd, telemetry.UsageSeen, telemetry.Compacting, telemetry.Compacted:
				default:
					continue
				}
				if c := s.Compaction; c != nil {
					s.Compaction = &telemetry.Compaction{Trigger: c.Trigger}
				}
				if len(by[s.Session]) == 0 {
					order = append(order, s.Session)
				}
				by[s.Session] = append(by[s.Session], telemetrytest.Line(s))
			}
		}
		var out []string
		for _, id := range order {
			if sessions == nil || sessions[id] {
				out = append(out, by[id]...)
			}
		}
		require.NotEmpty(t, out)
		return out
	}
	for _, name := range []string{"serve-queued-abort-permission-retry", "serve-subagent-failed-compaction-fork-delete"} {
		// The rows of a deleted session no longer exist.
		kept := map[string]bool{"ses_e01e54056ffeGIh9eQk7gGHw4T": true, "ses_e01ec380fffeQ9eaHUFYiH456K": true,
			"ses_e01ebd700ffesfWt58B0jZXXlC": true, "ses_e01ebd019ffeW6Kp14ffmtUEk6": true}
		require.Equal(t, truth(Bus(), "bus/"+name+".jsonl", kept), truth(Store(), "store/"+name+".jsonl", kept), name)
	}
	first, second := map[string]bool{"ses_e02ebf0afffeOlSdLY8WwkhVU5": true}, map[string]bool{"ses_e02eb0b1bffeNEIbxmpvhM289s": true}
	for _, of := range []map[string]bool{first, second} {
		want := truth(Store(), "store/db-event.jsonl", of)
		require.Equal(t, want, truth(Bus(), "bus/tui-session.jsonl", of))
		require.Equal(t, want, truth(Bus(), "bus/plugin-log-tui-session.jsonl", of))
	}
}

// The sum that the store has for a session equals the sum of the reported
// calls.
func TestCountsAgreeWithTheStore(t *testing.T) {
	d := Store()
	got := map[string][2]int64{}
	for _, r := range telemetrytest.Records(t, filepath.Join("testdata", "store", "db-event.jsonl")) {
		for _, s := range d.Decode(r) {
			if u := s.Usage; u != nil {
				sum := got[s.Session]
				got[s.Session] = [2]int64{sum[0] + u.Input, sum[1] + u.Output}
			}
		}
	}
	require.Equal(t, map[string][2]int64{ // the columns tokens_input and tokens_output of the table session
		"ses_e02eb0b1bffeNEIbxmpvhM289s": {15000, 36},
		"ses_e02ebf0afffeOlSdLY8WwkhVU5": {409000, 60},
		"ses_e02ecb8bbffePthoMw81mLsr1l": {10000, 24},
	}, got)
}

// A hook and the store use the same message id for a turn.
func TestHookNamesTheSameTurn(t *testing.T) {
	call, err := Hooks{}.Decode("chat.message", []byte(`{"session_id":"S","turn_id":"u1"}`))
	require.NoError(t, err)
	d := Bus()
	var prompt telemetry.Signal
	for _, r := range []string{codeCreated(0, ""), codeUser(1, "u1", 1), codePart(2, "u1", codeTyped), codeAnswer(4, "a1", "u1", 4, 0, "")} {
		for _, s := range d.Decode([]byte(r)) {
			if s.Kind == telemetry.Prompt {
				prompt = s
			}
		}
	}
	require.Equal(t, call.Signals[0].Turn, prompt.Turn)
	require.Equal(t, call.Signals[0].Session, prompt.Session)
}

func TestTimes(t *testing.T) {
	near := time.UnixMilli(codeTime).UTC()
	for id, want := range map[string]time.Time{
		"evt_1fd140f5700136QWiuMoU1SW2M": time.Date(2026, 11, 21, 7, 48, 32, 727e6, time.UTC),
		"evt_1fd140f57":                  near,
		"evt_xxxxxxxxxxxx":               near,
		"msg_1fd140f57001":               near,
		"":                               near,
	} {
		require.Equal(t, want, timeOf(id, near), id)
	}
	require.Zero(t, timeOf("evt_1fd140f57001", time.Time{}))
	// turn is a time at which the 36 bits of an id start again at 0. Of the possible times,
	// timeOf returns the one that is nearest to its argument near.
	turn := time.UnixMilli(27 << 36).UTC()
	require.Equal(t, turn.Add(time.Second), timeOf("evt_0000003e8000", turn.Add(-time.Hour)))
	require.Equal(t, turn.Add(-time.Millisecond), timeOf("evt_fffffffff000", turn.Add(time.Hour)))
}

func TestUnknown(t *testing.T) {
	d := Bus()
	for _, r := range []string{`{"type":"session.next.moved","properties":{"sessionID":"s"}}`, `{"type":"lsp.updated","properties":{}}`, `{"k":"new.hook","o":{}}`,
		`{"type":"session.status","properties":{"sessionID":"s","status":{"type":"dreaming"}}}`, `{"type":"brand.new","properties":{}}`, `{"type":"x"}`, `[]`, ``} {
		require.Empty(t, d.Decode([]byte(r)), r)
	}
	require.Equal(t, map[string]int{"session.next.moved": 1, "hook/new.hook": 1, "session.status/dreaming": 1, "brand.new": 1, "x": 1, "malformed": 2}, d.Unknown())
	s := Store().(*store)
	for _, r := range []string{`{"aggregate_id":"s","seq":0,"type":"message.updated.2","data":{}}`, `{"aggregate_id":"s","type":"message.updated.1","data":{}}`} {
		require.Empty(t, s.Decode([]byte(r)), r)
	}
	require.Equal(t, map[string]int{"message.updated.2": 1, "malformed": 1}, s.Unknown())

	// Only the newest sessions of a large store are remembered.
	for i := range 5 * maxSessions {
		s.Decode(fmt.Appendf(nil, `{"aggregate_id":"s%d","seq":0,"type":"session.created.1","data":{"sessionID":"s%d","info":{}}}`, i, i))
	}
	require.LessOrEqual(t, len(s.sessions), maxSessions)
	_, err := os.Stat(filepath.Join("testdata", "store", "opencode.db"))
	require.NoError(t, err, "the database that these rows were read of")
}
