package mock

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// firstRequests has the first request of a conversation in each format. Each request
// asks for a streamed answer.
var firstRequests = map[string]struct{ path, body string }{
	"anthropic": {"/v1/messages", `{"model":"m","stream":true,"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":[{"type":"text","text":"hello (p1)"}]}]}`},
	"responses": {"/v1/responses", `{"model":"m","stream":true,"tools":[{"name":"exec_command"}],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hello (p1)"}]}]}`},
	"gemini": {"/v1beta/models/m:streamGenerateContent", `{"tools":[{"functionDeclarations":[{"name":"run_shell_command"}]}],
		"contents":[{"role":"user","parts":[{"text":"hello (p1)"}]}]}`},
	"chat": {"/v1/chat/completions", `{"model":"m","stream":true,"tools":[{"function":{"name":"bash"}}],"messages":[{"role":"system","content":"be good"},{"role":"user","content":"hello (p1)"}]}`},
}

func start(t *testing.T, script ...Reply) (*Server, *httptest.Server) {
	t.Helper()
	s := New(script...)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h
}

func ask(t *testing.T, url, path, body string) (status int, text string) {
	t.Helper()
	resp, err := http.Post(url+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(out)
}

// figures finds a number by its name, at any depth of a document or of the events of
// a stream. The last one counts.
func figures(t *testing.T, text, name string) (n int64) {
	t.Helper()
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if number, ok := value.(float64); ok && key == name {
					n = int64(number)
				}
				look(value)
			}
		case []any:
			for _, value := range v {
				look(value)
			}
		}
	}
	for line := range strings.Lines(text) {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &v) == nil {
			look(v)
		}
	}
	return n
}

// TestRecordedUsageIsSent compares the recorded usage with the numbers that a client
// receives, in each format.
func TestRecordedUsageIsSent(t *testing.T) {
	for name, q := range firstRequests {
		t.Run(name, func(t *testing.T) {
			s, h := start(t)
			_, text := ask(t, h.URL, q.path, q.body)
			calls := s.Calls()
			require.Len(t, calls, 1)
			c := calls[0]
			if c.Kind != Main || c.Prompt != "(p1)" || !c.Whole || !c.Over || c.Gone || c.Status != 200 {
				t.Errorf("the call: %+v", c)
			}
			if c.Given.Input == 0 || c.Given.CacheRead == 0 || c.Given.Output == 0 {
				t.Errorf("no usage was sent: %+v", c.Given)
			}
			got, want := map[string]int64{}, map[string]int64{}
			switch g := c.Given; name {
			case "anthropic":
				want = map[string]int64{"input_tokens": g.Input, "cache_read_input_tokens": g.CacheRead, "cache_creation_input_tokens": g.CacheWrite, "output_tokens": g.Output}
			case "responses":
				want = map[string]int64{"input_tokens": g.Input + g.CacheRead, "cached_tokens": g.CacheRead, "output_tokens": g.Output, "reasoning_tokens": g.Reasoning}
			case "gemini":
				want = map[string]int64{"promptTokenCount": g.Input + g.CacheRead, "cachedContentTokenCount": g.CacheRead, "candidatesTokenCount": g.Output - g.Reasoning,
					"thoughtsTokenCount": g.Reasoning, "totalTokenCount": g.Input + g.CacheRead + g.Output}
			case "chat":
				want = map[string]int64{"prompt_tokens": g.Input + g.CacheRead, "cached_tokens": g.CacheRead, "completion_tokens": g.Output, "reasoning_tokens": g.Reasoning}
			}
			for name := range want {
				got[name] = figures(t, text, name)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestRepliesComeInOrder(t *testing.T) {
	for name, q := range firstRequests {
		t.Run(name, func(t *testing.T) {
			s, h := start(t, Runs("echo hi"), Fails(429), Says("done").Using(7))
			_, first := ask(t, h.URL, q.path, q.body)
			status, _ := ask(t, h.URL, q.path, q.body)
			_, third := ask(t, h.URL, q.path, q.body)
			if !strings.Contains(first, "echo hi") || status != 429 || !strings.Contains(third, "done") {
				t.Errorf("answers: %s\n%d\n%s", first, status, third)
			}
			calls := s.Calls()
			if !calls[0].Tool || calls[1].Status != 429 || calls[1].Given != (Usage{}) || calls[2].Given != (Usage{Input: 7, Output: 20}) {
				t.Errorf("calls: %+v", calls)
			}
		})
	}
}

// TestClientDisconnects checks that a call records whether its client read to the
// end.
func TestClientDisconnects(t *testing.T) {
	for name, q := range firstRequests {
		t.Run(name, func(t *testing.T) {
			s, h := start(t, Reply{Text: "ALPHA OMEGA", Hang: true})
			ctx, disconnect := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+q.path, strings.NewReader(q.body))
			require.NoError(t, err)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() && !strings.Contains(lines.Text(), "ALPHA") {
			}
			disconnect()
			resp.Body.Close()
			h.Close() // returns when every call has ended
			if c := s.Calls()[0]; !c.Gone || c.Whole {
				t.Errorf("the call: %+v", c)
			}
			require.Equal(t, []Turn{{"(p1)", "interrupted"}}, Turns(s.Calls()))
		})
	}
}

// TestKinds checks the kinds of requests outside the conversation with the user.
func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		path, body string
		want       Kind
	}{
		"anthropic: no tools":    {"/v1/messages", `{"messages":[{"role":"user","content":"name it"}]}`, Title},
		"anthropic: a summary":   {"/v1/messages", `{"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"Your task is to create a detailed summary of it"}]}`, Compaction},
		"anthropic: a sub-agent": {"/v1/messages", `{"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"look (agent)"}]}`, Agent},
		"anthropic: counting":    {"/v1/messages/count_tokens", `{"messages":[]}`, Count},
		"anthropic: a probe":     {"/v1/models", ``, Other},
		"responses: a title":     {"/v1/responses", `{"input":[{"type":"message","role":"user","content":[{"text":"Generate a concise, single-line task title"}]}]}`, Title},
		"responses: a summary":   {"/v1/responses", `{"input":[{"type":"message","role":"user","content":[{"text":"You are performing a CONTEXT CHECKPOINT COMPACTION."}]}]}`, Compaction},
		"gemini: counting":       {"/v1beta/models/m:countTokens", `{"contents":[]}`, Count},
		"gemini: a summary":      {"/v1beta/models/m:generateContent", `{"systemInstruction":{"parts":[{"text":"make a <state_snapshot>"}]}}`, Compaction},
		"gemini: a router":       {"/v1beta/models/m:generateContent", `{"generationConfig":{"responseMimeType":"application/json"}}`, Side},
		"chat: a title":          {"/v1/chat/completions", `{"messages":[{"role":"system","content":"You are a title generator."}]}`, Title},
		"chat: a summary":        {"/v1/chat/completions", `{"messages":[{"role":"user","content":"Here is the conversation so far:\n…"}]}`, Compaction},
	} {
		t.Run(name, func(t *testing.T) {
			s, h := start(t)
			if status, text := ask(t, h.URL, c.path, c.body); status != 200 {
				t.Errorf("%d %s", status, text)
			}
			if got := s.Calls()[0].Kind; got != c.want {
				t.Errorf("kind %q, want %q", got, c.want)
			}
		})
	}
}

// TestUsagesAreUnique checks that no call has the usage of another, or twice the
// usage of another.
func TestUsagesAreUnique(t *testing.T) {
	s, h := start(t)
	main := firstRequests["anthropic"]
	for range 30 {
		ask(t, h.URL, main.path, main.body)
		ask(t, h.URL, main.path, `{"messages":[{"role":"user","content":"name it"}]}`)
	}
	seen := map[Usage]bool{}
	for _, c := range s.Calls() {
		if seen[c.Given] {
			t.Errorf("call %d has the usage of another: %+v", c.N, c.Given)
		}
		seen[c.Given] = true
	}
	for _, c := range s.Calls() {
		if seen[c.Given.Plus(c.Given)] {
			t.Errorf("another call has twice the usage of call %d", c.N)
		}
	}
}

// TestCallsOutsideTheConversation checks that calls outside the conversation do not
// change the usages of the calls in the conversation.
func TestCallsOutsideTheConversation(t *testing.T) {
	main := firstRequests["anthropic"]
	costs := func(title bool) (given []Usage) {
		s, h := start(t)
		for range 2 {
			if title {
				ask(t, h.URL, main.path, `{"messages":[{"role":"user","content":"name it"}]}`)
			}
			ask(t, h.URL, main.path, main.body)
		}
		for _, c := range s.Calls() {
			if c.Kind == Main {
				given = append(given, c.Given)
			}
		}
		return given
	}
	require.Equal(t, costs(false), costs(true))
}

// TestRepeatedPrompt checks that a prompt sent twice makes two turns.
func TestRepeatedPrompt(t *testing.T) {
	s, h := start(t)
	path := firstRequests["anthropic"].path
	before := `{"role":"user","content":"hello (p1)"},{"role":"assistant","content":"ok"}`
	for _, messages := range []string{`{"role":"user","content":"hello (p1)"}`, before + `,{"role":"user","content":"hello (p1)"}`} {
		ask(t, h.URL, path, `{"tools":[{"name":"Bash"}],"messages":[`+messages+`]}`)
	}
	require.Equal(t, []Turn{{"(p1)", "completed"}, {"(p1)", "completed"}}, Turns(s.Calls()))
}

func TestMark(t *testing.T) {
	for text, want := range map[string]string{"": "", "(p1)": "(p1)", "a (p1) b (p23) c": "(p23)", "(p)": "", "(p1": "", "(p1) (p": "(p1)", "(p1x)": ""} {
		if got := Mark(text); got != want {
			t.Errorf("Mark(%q) = %q, want %q", text, got, want)
		}
	}
}
