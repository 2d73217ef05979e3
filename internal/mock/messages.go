package mock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// messages is Anthropic's Messages API. It also gets each request whose path belongs to
// no other format.
type messages struct{}

// A message is one message in a request of Anthropic's or OpenAI's formats. Its
// content is a text or a list of parts.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// texts returns the text of a message's content.
func texts(content json.RawMessage) string {
	var plain string
	if json.Unmarshal(content, &plain) == nil {
		return plain
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts) // content in any other form has no text
	var out []string
	for _, p := range parts {
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

// wantsSummary reports whether a prompt asks for a summary of the conversation.
func wantsSummary(prompt string) bool {
	return slices.ContainsFunc([]string{"create a detailed summary", "tasked with summarizing", "detailed summary of the conversation",
		"detailed summary of this conversation", "detailed summary of our conversation", "summary of the RECENT portion",
	}, func(words string) bool { return strings.Contains(prompt, words) })
}

func (messages) read(path string, body []byte) (request, bool) {
	var in struct {
		Model    string          `json:"model"`
		Stream   bool            `json:"stream"`
		System   json.RawMessage `json:"system"`
		Messages []message       `json:"messages"`
		Tools    []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if json.Unmarshal(body, &in) != nil || !strings.Contains(path, "/messages") {
		return request{}, false
	}
	r := request{kind: Main, model: in.Model, stream: in.Stream}
	for _, m := range in.Messages {
		if m.Role == "user" {
			r.user = append(r.user, texts(m.Content))
		}
	}
	for _, t := range in.Tools {
		r.tools = append(r.tools, t.Name)
	}
	switch {
	case strings.HasSuffix(path, "/count_tokens"):
		r.kind = Count
	case wantsSummary(r.lastUser() + texts(in.System)):
		r.kind = Compaction
	case len(r.tools) == 0:
		r.kind = Title
	case len(r.user) > 0 && strings.Contains(r.user[0], AgentMark):
		r.kind = Agent
	}
	return r, true
}

func (messages) fit(u Usage) Usage {
	u.Reasoning = 0
	return u
}

func (messages) refuse(r Reply) any {
	kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		429: "rate_limit_error", 529: "overloaded_error"}[r.Error]
	return map[string]any{"type": "error", "error": map[string]any{"type": cmp.Or(kind, "api_error"), "message": r.message()}, "request_id": "req_mock"}
}

func (messages) usage(u Usage) map[string]any {
	return map[string]any{"input_tokens": u.Input, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite, "output_tokens": u.Output}
}

// blocks returns the content blocks of the answer.
func (messages) blocks(a *answer) (blocks []map[string]any, stop string) {
	stop = "end_turn"
	text := a.text()
	if a.call.Kind == Title {
		text = `{"title": "` + text + `"}`
	}
	if text != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": text})
	}
	command := func(c string) map[string]any { return map[string]any{"command": c} }
	if name, args := a.tool(map[string]func(string) map[string]any{"Bash": command}); name != "" {
		stop = "tool_use"
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_mock%d", a.call.N), "name": name, "input": args})
	}
	return blocks, stop
}

func (l messages) message(a *answer) map[string]any {
	a.w.Header().Set("Request-Id", fmt.Sprintf("req_mock%d", a.call.N))
	return map[string]any{"id": fmt.Sprintf("msg_mock%d", a.call.N), "type": "message", "role": "assistant", "model": a.call.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil}
}

func (l messages) whole(a *answer) {
	m := l.message(a)
	m["content"], m["stop_reason"] = l.blocks(a)
	m["usage"] = l.usage(*a.reply.Usage)
	a.json(http.StatusOK, m)
}

func (l messages) pieces(a *answer) {
	blocks, stop := l.blocks(a)
	started := *a.reply.Usage
	started.Output = 1
	m := l.message(a)
	m["usage"] = l.usage(started)
	a.event("message_start", map[string]any{"type": "message_start", "message": m})
	a.sent(started)
	for i, b := range blocks {
		start := map[string]any{"type": "text", "text": ""}
		var deltas []map[string]any
		if b["type"] == "text" {
			for _, words := range halves(b["text"].(string)) {
				deltas = append(deltas, map[string]any{"type": "text_delta", "text": words})
			}
		} else {
			start = map[string]any{"type": "tool_use", "id": b["id"], "name": b["name"], "input": map[string]any{}}
			deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": string(encode(b["input"]))})
		}
		a.event("content_block_start", map[string]any{"type": "content_block_start", "index": i, "content_block": start})
		for _, d := range deltas {
			a.event("content_block_delta", map[string]any{"type": "content_block_delta", "index": i, "delta": d})
			a.first()
		}
		a.event("content_block_stop", map[string]any{"type": "content_block_stop", "index": i})
	}
	a.event("message_delta", map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
		"usage": l.usage(*a.reply.Usage)})
	a.event("message_stop", map[string]any{"type": "message_stop"})
	a.sent(*a.reply.Usage)
}
