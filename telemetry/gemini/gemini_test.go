package gemini

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

// chatLine writes a message of a chat file at a second of the minute.
func chatLine(second int, id, kind, rest string) string {
	return fmt.Sprintf(`{"id":"%s","timestamp":"2026-11-21T08:00:%02d.000Z","type":"%s",%s}`, id, second, kind, rest)
}

func typed(second int, id, text string) string {
	return chatLine(second, id, "user", `"content":[{"text":"`+text+`"}]`)
}

func answer(second int, id, text string, input, output int) string {
	return chatLine(second, id, "gemini", fmt.Sprintf(`"content":%q,"thoughts":[],"tokens":{"input":%d,"output":%d,"cached":0,"thoughts":0,"tool":0,"total":9},"model":"gemini-2.5-pro"`, text, input, output))
}

func history(second int, messages ...string) string {
	return fmt.Sprintf(`{"$set":{"messages":[%s],"lastUpdated":"2026-11-21T08:00:%02d.000Z"}}`, strings.Join(messages, ","), second)
}

const (
	chatHead    = `{"sessionId":"s","projectHash":"h","startTime":"2026-11-21T08:00:00.000Z","lastUpdated":"2026-11-21T08:00:00.000Z","kind":"main"}`
	chatAgain   = `{"sessionId":"s","projectHash":"h","startTime":"2026-11-21T08:00:10.000Z","lastUpdated":"2026-11-21T08:00:10.000Z","kind":"main"}`
	chatContext = `{"id":"c","timestamp":"2026-11-21T08:00:00.000Z","type":"user","content":[{"text":"<session_context>\nhere</session_context>"}]}`
	chatLive    = `session_live from=transcript detail=header at=08:00:00.000 session=s`
)

func chatPrompt(second int, id string) string {
	return fmt.Sprintf(`prompt from=transcript detail=%s at=08:00:%02d.000 session=s turn=%s`, id, second, id)
}

// chatAsked returns the signal of a model call without an outcome. chatUsage returns one
// with the outcome completed.
func chatAsked(second int, id, turn string, input, output int) string {
	return fmt.Sprintf(`usage from=transcript detail=%s at=08:00:%02d.000 session=s turn=%s used=%d call=%s input=%d output=%d model=gemini-2.5-pro`, id, second, turn, input, id, input, output)
}

func chatUsage(second int, id, turn string, input, output int) string {
	return strings.Replace(chatAsked(second, id, turn, input, output), " used=", " outcome=completed used=", 1)
}

func chatEnded(second int, id, turn, outcome string) string {
	return fmt.Sprintf(`turn_end from=transcript detail=%s at=08:00:%02d.000 session=s turn=%s outcome=%s`, id, second, turn, outcome)
}

func chatSnapshot(id string) string {
	return `{"id":"` + id + `","timestamp":"2026-11-21T08:00:05.000Z","type":"user","content":[{"text":"<state_snapshot>x</state_snapshot>"}]}`
}

func chatCompacted(second int, id string) string {
	return fmt.Sprintf(`compacted from=transcript detail=%s at=08:00:%02d.000 session=s half=record trigger=unknown`, id, second)
}

func chatWithTool(record, id string) string {
	return strings.Replace(record, `"thoughts":[]`, `"toolCalls":[{"id":"`+id+`","name":"x","args":{"id":"no"},"status":"success"}],"thoughts":[]`, 1)
}

var chatStories = []telemetrytest.Story{
	{"an answered turn is known to have been at the next prompt",
		[]string{chatHead, typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5), typed(3, "p2", "b")},
		[]string{chatLive, chatPrompt(1, "p1"), chatUsage(2, "m1", "p1", 10, 5), chatEnded(3, "p2", "p1", "completed"), chatPrompt(3, "p2")}},
	{"a turn that was not answered is left open",
		[]string{chatHead, typed(1, "p1", "a"), typed(3, "p2", "b")},
		[]string{chatLive, chatPrompt(1, "p1"), chatPrompt(3, "p2")}},
	{"text beside a tool call is not an answer",
		[]string{chatHead, typed(1, "p1", "a"), chatWithTool(answer(2, "m1", "I will look", 10, 5), "t1"), typed(3, "p2", "b")},
		[]string{chatLive, chatPrompt(1, "p1"), chatAsked(2, "m1", "p1", 10, 5),
			`tool_start from=transcript detail=m1 at=08:00:02.000 session=s turn=p1 tool=t1 name=x`,
			`tool_end from=transcript detail=m1 at=08:00:02.000 session=s turn=p1 tool=t1 name=x`, chatPrompt(3, "p2")}},
	{"a repeated message reports its usage and its calls once, and an output that has grown",
		[]string{chatHead, typed(1, "p1", "a"), answer(2, "m1", "", 10, 5), chatWithTool(answer(2, "m1", "", 10, 5), "t1"), chatWithTool(answer(2, "m1", "", 10, 7), "t1")},
		[]string{chatLive, chatPrompt(1, "p1"), chatAsked(2, "m1", "p1", 10, 5),
			`tool_start from=transcript detail=m1 at=08:00:02.000 session=s turn=p1 tool=t1 name=x`,
			`tool_end from=transcript detail=m1 at=08:00:02.000 session=s turn=p1 tool=t1 name=x`,
			chatAsked(2, "m1", "p1", 10, 7)}},
	{"the parts of a usage exclude each other",
		[]string{chatLine(2, "m1", "gemini", `"content":"x","tokens":{"input":100,"output":7,"cached":60,"thoughts":3,"tool":4,"total":114},"model":"gemma-4-31b-it"`)},
		[]string{`usage from=transcript detail=m1 at=08:00:02.000 used=100 call=m1 input=44 cache_read=60 output=10 reasoning=3 model=gemma-4-31b-it`}},
	{"a message reports its usage once it has one",
		[]string{chatHead, typed(1, "p1", "a"), chatLine(2, "m1", "gemini", `"content":"x","tokens":null`), answer(2, "m1", "x", 10, 5)},
		[]string{chatLive, chatPrompt(1, "p1"), chatUsage(2, "m1", "p1", 10, 5)}},
	{"a compaction is a summary that was not seen before",
		[]string{chatHead, history(0, chatContext), typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5),
			history(5, chatContext, chatSnapshot("z1")), history(6, chatContext, chatSnapshot("z1"), typed(1, "p1", "a")), history(7, chatContext, chatSnapshot("z2"))},
		[]string{chatLive, chatPrompt(1, "p1"), chatUsage(2, "m1", "p1", 10, 5), chatEnded(5, "z1", "p1", "completed"), chatCompacted(5, "z1"), chatCompacted(7, "z2")}},
	{"a compaction behind a tool's result is of the turn, and so is one behind a hook's denial",
		[]string{chatHead, history(0, chatContext), typed(1, "p1", "a"), chatWithTool(answer(2, "m1", "I will look", 10, 5), "t1"), history(5, chatContext, chatSnapshot("z1")),
			answer(6, "m2", "yes", 10, 5), chatLine(7, "w", "warning", `"content":"Agent execution blocked: go on"`), history(8, chatContext, chatSnapshot("z2"))},
		[]string{chatLive, chatPrompt(1, "p1"), chatAsked(2, "m1", "p1", 10, 5),
			`tool_start from=transcript detail=m1 at=08:00:02.000 session=s turn=p1 tool=t1 name=x`,
			`tool_end from=transcript detail=m1 at=08:00:02.000 session=s turn=p1 tool=t1 name=x`,
			strings.Replace(chatCompacted(5, "z1"), "session=s", "session=s turn=p1", 1), chatUsage(6, "m2", "p1", 10, 5),
			`alive from=transcript detail=w at=08:00:07.000 session=s turn=p1`, strings.Replace(chatCompacted(8, "z2"), "session=s", "session=s turn=p1", 1)}},
	{"an old summary that is written out under a new id is old",
		[]string{chatHead, history(5, chatContext, chatSnapshot("z1")),
			strings.Replace(chatContext, `"c"`, `"c2"`, 1), chatSnapshot("z2"), typed(6, "p9", "a"), chatLine(6, "m9", "gemini", `"content":[{"text":"x"}],"thoughts":[],"tokens":null`),
			history(6, strings.Replace(chatContext, `"c"`, `"c2"`, 1), chatSnapshot("z2"), typed(6, "p9", "a")), typed(7, "p2", "b")},
		[]string{chatLive, chatCompacted(5, "z1"), chatPrompt(7, "p2")}},
	{"in a file read from its middle, only the time shows a new summary",
		[]string{history(50, chatContext, chatSnapshot("z1")), history(51, chatContext, chatSnapshot("z1"))}, []string{}},
	{"a user who types the mark of a summary compacts nothing",
		[]string{chatHead, typed(1, "p1", "what is <state_snapshot>?"), history(2, chatContext, typed(1, "p1", "what is <state_snapshot>?"))},
		[]string{chatLive, chatPrompt(1, "p1")}},
	{"the context was cleared within the session",
		[]string{chatHead, history(0, chatContext), chatAgain, history(10, strings.Replace(chatContext, `"c"`, `"c2"`, 1))},
		[]string{chatLive, `cleared from=transcript detail=header at=08:00:10.000 session=s`}},
	{"the same in words, and by going back",
		[]string{chatHead, chatLine(1, "i", "info", `"content":"Conversation context has been cleared."`), `{"$rewindTo":"i"}`},
		[]string{chatLive, `cleared from=transcript detail=i at=08:00:01.000 session=s`, `cleared from=transcript detail=rewound session=s`}},
	{"the end of a turn that is read again ends no other turn",
		[]string{chatHead, typed(1, "p1", "a"), chatLine(2, "e", "error", `"content":"x"`), typed(3, "p2", "b"), chatLine(4, "i", "info", `"content":"Request cancelled."`),
			typed(5, "p3", "c"), chatLine(2, "e", "error", `"content":"x"`), chatLine(4, "i", "info", `"content":"Request cancelled."`)},
		[]string{chatLive, chatPrompt(1, "p1"), chatEnded(2, "e", "p1", "failed error=unknown"), chatPrompt(3, "p2"), chatEnded(4, "i", "p2", "interrupted"), chatPrompt(5, "p3")}},
	{"a file that is read again gives no signals",
		[]string{chatHead, history(0, chatContext), typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5), chatHead, history(0, chatContext), typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5)},
		[]string{chatLive, chatPrompt(1, "p1"), chatUsage(2, "m1", "p1", 10, 5)}},
	{"a session of another id in the same file",
		[]string{chatHead, typed(1, "p1", "a"), strings.Replace(chatHead, `"s"`, `"r"`, 1), typed(2, "p2", "b")},
		[]string{chatLive, chatPrompt(1, "p1"), strings.Replace(chatLive, "session=s", "session=r", 1), strings.Replace(chatPrompt(2, "p2"), "session=s", "session=r", 1)}},
	{"a hook gave the model more to do: one prompt",
		[]string{chatHead, typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5), chatLine(3, "w", "warning", `"content":"Agent execution blocked: go \"on\""`),
			chatLine(4, "p2", "user", `"content":[{"text":"go \"on\""}]`), answer(5, "m2", "done", 20, 5), typed(6, "p3", "b")},
		[]string{chatLive, chatPrompt(1, "p1"), chatUsage(2, "m1", "p1", 10, 5), `alive from=transcript detail=w at=08:00:03.000 session=s turn=p1`, `working from=transcript detail=p2 at=08:00:04.000 session=s turn=p1`,
			chatUsage(5, "m2", "p1", 20, 5), chatEnded(6, "p3", "p1", "completed"), chatPrompt(6, "p3")}},
	{"the same, where the hook displays another text to the user",
		[]string{chatHead, typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5), chatLine(3, "w", "warning", `"content":"Agent execution blocked: hm"`),
			chatLine(4, "p2", "user", `"content":[{"text":"go on"}],"displayContent":[{"text":"a"}]`)},
		[]string{chatLive, chatPrompt(1, "p1"), chatUsage(2, "m1", "p1", 10, 5), `alive from=transcript detail=w at=08:00:03.000 session=s turn=p1`, `working from=transcript detail=p2 at=08:00:04.000 session=s turn=p1`}},
	{"a hook refused a prompt, and the person typed another one",
		[]string{chatHead, typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5), chatLine(3, "w", "warning", `"content":"Agent execution blocked: no"`), typed(4, "p2", "b")},
		[]string{chatLive, chatPrompt(1, "p1"), chatUsage(2, "m1", "p1", 10, 5), `alive from=transcript detail=w at=08:00:03.000 session=s turn=p1`, chatEnded(4, "p2", "p1", "completed"), chatPrompt(4, "p2")}},
	{"the same prompt twice, with a hook's additions, is two prompts",
		[]string{chatHead, chatLine(1, "p1", "user", `"content":[{"text":"a"},{"text":"<hook_context>x</hook_context>"}],"displayContent":[{"text":"a"}]`),
			chatLine(2, "p2", "user", `"content":[{"text":"a"},{"text":"<hook_context>x</hook_context>"}],"displayContent":[{"text":"a"}]`)},
		[]string{chatLive, chatPrompt(1, "p1"), chatPrompt(2, "p2")}},
	{"the same prompt twice, with a picture before its text, is two prompts",
		[]string{chatHead, chatLine(1, "p1", "user", `"content":[{"inlineData":{"data":"x"}},{"text":"a"}],"displayContent":[{"text":"a"}]`),
			chatLine(2, "p2", "user", `"content":[{"inlineData":{"data":"x"}},{"text":"a"}],"displayContent":[{"text":"a"}]`)},
		[]string{chatLive, chatPrompt(1, "p1"), chatPrompt(2, "p2")}},
	{"a file before the text of a prompt that Gemini CLI asks the model to continue",
		[]string{chatHead, chatLine(1, "p1", "user", `"content":[{"fileData":{"fileUri":"x"}},{"text":"a"}]`),
			chatLine(2, "p2", "user", `"content":[{"text":"go on"}],"displayContent":[{"text":"a"}]`)},
		[]string{chatLive, chatPrompt(1, "p1"), `working from=transcript detail=p2 at=08:00:02.000 session=s turn=p1`}},
	{"after the context was cleared the session continues in another file",
		[]string{chatHead, history(0, chatContext), chatLine(1, "p1", "user", `"content":[{"text":"go on"}],"displayContent":[{"text":"a"}]`), typed(6, "p2", "b")},
		[]string{chatLive, chatPrompt(6, "p2")}},
	{"a command that replaces a prompt is a prompt",
		[]string{chatHead, chatLine(1, "p1", "user", `"content":[{"text":"Review this."}],"displayContent":[{"text":"/review"}]`)},
		[]string{chatLive, chatPrompt(1, "p1")}},
	{"a hook stopped the turn",
		[]string{chatHead, typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5), chatLine(3, "i", "info", `"content":"Agent execution stopped: enough"`),
			typed(4, "p2", "b"), chatLine(5, "j", "info", `"content":"Agent execution stopped: no"`)},
		[]string{chatLive, chatPrompt(1, "p1"), chatUsage(2, "m1", "p1", 10, 5), chatEnded(3, "i", "p1", "completed"), chatPrompt(4, "p2"), chatEnded(5, "j", "p2", "interrupted")}},
	{"cut by Esc, before and within a tool",
		[]string{chatHead, typed(1, "p1", "a"), chatLine(2, "i", "info", `"content":"Request cancelled."`), typed(3, "p2", "b"), answer(4, "m2", "", 10, 5),
			chatLine(5, "j", "info", `"content":"User cancelled the request."`), chatWithTool(chatLine(5, "m3", "gemini", `"content":"","thoughts":[]`), "t2"),
			chatLine(5, "r", "user", `"content":[{"functionResponse":{"id":"t2"}}]`)},
		[]string{chatLive, chatPrompt(1, "p1"), chatEnded(2, "i", "p1", "interrupted"), chatPrompt(3, "p2"), chatAsked(4, "m2", "p2", 10, 5), chatEnded(5, "j", "p2", "interrupted")}},
	{"an error ends a turn, and nothing without one",
		[]string{chatHead, chatLine(1, "e0", "error", `"content":"Unknown command"`), typed(2, "p1", "a"), chatLine(3, "e", "error", `"content":"[API Error: x]"`), chatLine(4, "f", "error", `"content":"more"`)},
		[]string{chatLive, chatPrompt(2, "p1"), chatEnded(3, "e", "p1", "failed") + " error=unknown"}},
	{"messages that Gemini CLI writes in the user's place are not prompts",
		[]string{chatHead,
			chatLine(1, "a", "user", `"content":[{"functionResponse":{"id":"t"}}]`),
			chatLine(1, "b", "user", `"content":[{"functionResponse":{"id":"t"}},{"inlineData":{"data":"x"}}]`),
			chatLine(1, "d", "user", `"content":[{"text":"<hook_context>hi</hook_context>"}]`),
			typed(1, "e", `I ran the following shell command:\n...`),
			typed(1, "f", "Here is the user's editor context as a JSON object. {}"),
			typed(1, "g", "User has manually exited Plan Mode. Switching to x."),
			typed(1, "h", `- **Workspace Directories:**\n`),
			chatLine(1, "i", "user", `"content":[]`), chatSnapshot("k")},
		[]string{chatLive}},
	{"prompts: with a hook's words before it, a picture, a string, a path",
		[]string{chatHead,
			typed(1, "p1", `<hook_context>x</hook_context>\n\nhello`), chatLine(2, "p2", "user", `"content":[{"inlineData":{"data":"x"}}]`),
			chatLine(3, "p3", "user", `"content":"old"`), typed(4, "p4", "/etc/hosts explain"), chatLine(5, "p5", "user", `"content":["part"]`)},
		[]string{chatLive, chatPrompt(1, "p1"), chatPrompt(2, "p2"), chatPrompt(3, "p3"), chatPrompt(4, "p4"), chatPrompt(5, "p5")}},
	{"a sub-agent has no prompts, and no turns",
		[]string{strings.Replace(chatHead, `"main"`, `"subagent"`, 1), typed(1, "p1", "a"), answer(2, "m1", "yes", 10, 5), chatLine(3, "e", "error", `"content":"x"`), typed(4, "p2", "b")},
		[]string{`session_live from=transcript detail=header at=08:00:00.000 agent=s`,
			`usage from=transcript detail=m1 at=08:00:02.000 agent=s used=10 call=m1 input=10 output=5 model=gemini-2.5-pro`}},
	{"a file read from its middle learns its session late",
		[]string{typed(1, "p1", "a"), `{"$set":{"sessionId":"s"}}`, typed(2, "p2", "b")},
		[]string{`prompt from=transcript detail=p1 at=08:00:01.000 turn=p1`, chatPrompt(2, "p2")}},
}

func TestChatStories(t *testing.T) {
	telemetrytest.RunStories(t, Chat, chatStories)
}

func TestUnknownRecordsAreCounted(t *testing.T) {
	for _, c := range []struct {
		name       string
		newDecoder func() telemetry.Decoder
		records    []string
		want       map[string]int
	}{
		{"chat", Chat, []string{`{"id":"a","type":"novel"}`, `{"$set":{"mood":"x","summary":"y"}}`, `{}`, `[]`, `{"id":"b","type":"a b"}`},
			map[string]int{"type/novel": 1, "set/mood": 1, telemetry.Malformed: 2, "type/": 1}},
		{"stream", Stream, []string{`{"type":"novel"}`, `x`}, map[string]int{"type/novel": 1, telemetry.Malformed: 1}},
		{"logs", Logs, []string{`[{"sessionId":"s","messageId":0,"type":"model"},{"type":"user"}]`, `{}`}, map[string]int{"type/model": 1, telemetry.Malformed: 2}},
		{"osc", OSC, []string{"bash", "◇  Nearly", "Gemini CLI (x)", ""}, map[string]int{"title": 2}},
		{"telemetry", Telemetry, []string{`{"attributes":{"event.name":"gemini_cli.novel"}}`, `{"scopeMetrics":[]}`, `{"_spanContext":{},"attributes":{"event.name":"x"}}`, `{"a":1}`, `[]`},
			map[string]int{"gemini_cli.novel": 1, telemetry.Malformed: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.newDecoder()
			for _, r := range c.records {
				require.Empty(t, d.Decode([]byte(r)))
			}
			require.Equal(t, c.want, d.Unknown())
		})
	}
}

// TestTitleOfAStart checks that the first title is not reported as the end of a turn. The
// same holds for the first title after an empty one. Gemini CLI sets an empty title when
// it releases the terminal.
func TestTitleOfAStart(t *testing.T) {
	d := OSC()
	for _, title := range []struct {
		text string
		kind []telemetry.Kind
	}{
		{"◇  Ready (project)", []telemetry.Kind{telemetry.Alive}},
		{"◇  Ready (project)", []telemetry.Kind{telemetry.Idle}},
		{"", nil},
		{"◇  Ready (project)", []telemetry.Kind{telemetry.Alive}},
		{"✦  Working… (project)", []telemetry.Kind{telemetry.Working}},
	} {
		var kinds []telemetry.Kind
		for _, s := range d.Decode([]byte(title.text)) {
			kinds = append(kinds, s.Kind)
		}
		require.Equal(t, title.kind, kinds, title.text)
	}
}
