package mock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// chat is OpenAI's chat completions.
type chat struct{ noCacheWrite }

func (chat) read(path string, body []byte) (request, bool) {
	var in struct {
		Model    string    `json:"model"`
		Stream   bool      `json:"stream"`
		Messages []message `json:"messages"`
		Tools    []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if json.Unmarshal(body, &in) != nil {
		return request{}, false
	}
	r := request{kind: Main, model: in.Model, stream: in.Stream}
	system := ""
	for _, m := range in.Messages {
		switch m.Role {
		case "user":
			r.user = append(r.user, texts(m.Content))
		case "system", "developer":
			system += texts(m.Content)
		}
	}
	for _, t := range in.Tools {
		r.tools = append(r.tools, t.Function.Name)
	}
	switch {
	case strings.Contains(system, "You are a title generator"):
		r.kind = Title
	case strings.HasPrefix(r.lastUser(), "Here is the conversation so far:"):
		r.kind = Compaction
	case len(r.user) > 0 && strings.Contains(r.user[0], AgentMark):
		r.kind = Agent
	}
	return r, true
}

func (chat) refuse(r Reply) any {
	return map[string]any{"error": map[string]any{"message": r.message(), "type": "mock_error", "code": r.Error}}
}

func (chat) head(a *answer, object string) map[string]any {
	return map[string]any{"id": fmt.Sprintf("chatcmpl-mock%d", a.call.N), "object": object, "created": 1700000000, "model": a.call.Model}
}

func (chat) usage(u Usage) map[string]any {
	in := u.Input + u.CacheRead
	return map[string]any{"prompt_tokens": in, "completion_tokens": u.Output, "total_tokens": in + u.Output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.CacheRead},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning}}
}

func (chat) calls(a *answer) []any {
	command := func(c string) map[string]any { return map[string]any{"command": c, "description": "by script"} }
	alone := func(c string) map[string]any { return map[string]any{"command": c} }
	name, args := a.tool(map[string]func(string) map[string]any{"bash": command, "exec": alone})
	if name == "" {
		return nil
	}
	return []any{map[string]any{"index": 0, "id": fmt.Sprintf("call_mock%d", a.call.N), "type": "function",
		"function": map[string]any{"name": name, "arguments": string(encode(args))}}}
}

func (l chat) whole(a *answer) {
	m, why := map[string]any{"role": "assistant", "content": a.text()}, "stop"
	if calls := l.calls(a); calls != nil {
		m["tool_calls"], why = calls, "tool_calls"
	}
	out := l.head(a, "chat.completion")
	out["choices"] = []any{map[string]any{"index": 0, "message": m, "finish_reason": why}}
	out["usage"] = l.usage(*a.reply.Usage)
	a.json(http.StatusOK, out)
}

func (l chat) pieces(a *answer) {
	choice := func(delta map[string]any, why any) {
		out := l.head(a, "chat.completion.chunk")
		out["choices"] = []any{map[string]any{"index": 0, "delta": delta, "finish_reason": why}}
		a.event("", out)
	}
	why := "stop"
	choice(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, words := range halves(a.text()) {
		choice(map[string]any{"content": words}, nil)
		a.first()
	}
	if calls := l.calls(a); calls != nil {
		why = "tool_calls"
		choice(map[string]any{"tool_calls": calls}, nil)
	}
	choice(map[string]any{}, why)
	last := l.head(a, "chat.completion.chunk")
	last["choices"], last["usage"] = []any{}, l.usage(*a.reply.Usage)
	a.event("", last)
	a.event("", "[DONE]")
	a.sent(*a.reply.Usage)
}
