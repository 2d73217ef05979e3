package mock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// responses is OpenAI's Responses API.
type responses struct{ noCacheWrite }

func (responses) read(path string, body []byte) (request, bool) {
	var in struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Input  []struct {
			Type string `json:"type"`
			message
		} `json:"input"`
		Tools []struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tools"`
	}
	if json.Unmarshal(body, &in) != nil {
		return request{}, false
	}
	r := request{kind: Main, model: in.Model, stream: in.Stream}
	for _, item := range in.Input {
		if item.Type == "message" && item.Role == "user" {
			r.user = append(r.user, texts(item.Content))
		}
	}
	for _, t := range in.Tools {
		r.tools = append(r.tools, cmp.Or(t.Name, t.Type))
	}
	switch last := r.lastUser(); {
	case strings.Contains(last, "Generate a concise, single-line task title"):
		r.kind = Title
	case strings.Contains(last, "CONTEXT CHECKPOINT COMPACTION"):
		r.kind = Compaction
	}
	return r, true
}

func (responses) refuse(r Reply) any {
	kind, code, text := "server_error", "server_error", "The server had an error"
	switch r.Error {
	case 400:
		kind, code, text = "invalid_request_error", "invalid_prompt", "The request is not understood."
	case 401:
		kind, code, text = "invalid_request_error", "invalid_api_key", "Incorrect API key provided"
	case 429:
		kind, code, text = "rate_limit_error", "rate_limit_exceeded", "Rate limit reached. Please try again in 1s."
	}
	if r.Limit {
		kind, code, text = "usage_limit_reached", "", "The usage limit has been reached"
	}
	return map[string]any{"error": map[string]any{"type": kind, "code": code, "message": cmp.Or(r.Message, text), "param": nil}}
}

// whole is for clients that do not stream. Codex always streams.
func (l responses) whole(a *answer) { a.json(http.StatusOK, l.response(a, l.items(a))) }

func (responses) response(a *answer, items []map[string]any) map[string]any {
	u := *a.reply.Usage
	in := u.Input + u.CacheRead
	return map[string]any{"id": fmt.Sprintf("resp_mock%d", a.call.N), "object": "response", "status": "completed", "output": items,
		"usage": map[string]any{"input_tokens": in, "input_tokens_details": map[string]any{"cached_tokens": u.CacheRead},
			"output_tokens": u.Output, "output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning}, "total_tokens": in + u.Output}}
}

func (responses) items(a *answer) []map[string]any {
	name, args := a.tool(map[string]func(string) map[string]any{
		"exec_command":  func(c string) map[string]any { return map[string]any{"cmd": c, "yield_time_ms": 30000} },
		"shell_command": func(c string) map[string]any { return map[string]any{"command": c, "timeout_ms": 600000} },
		"shell": func(c string) map[string]any {
			return map[string]any{"command": []string{"bash", "-lc", c}, "timeout_ms": 600000}
		},
	})
	if name != "" {
		id := fmt.Sprintf("call_mock%d", a.call.N)
		return []map[string]any{{"type": "function_call", "id": "fc_" + id, "name": name, "arguments": string(encode(args)), "call_id": id, "status": "completed"}}
	}
	text := a.text()
	if a.call.Kind == Title {
		text = string(encode(map[string]any{"title": text}))
	}
	return []map[string]any{{"type": "message", "id": fmt.Sprintf("msg_mock%d", a.call.N), "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}}
}

func (l responses) pieces(a *answer) {
	emit := func(kind string, event map[string]any) {
		event["type"] = kind
		a.event(kind, event)
	}
	id := fmt.Sprintf("resp_mock%d", a.call.N)
	emit("response.created", map[string]any{"response": map[string]any{"id": id, "status": "in_progress"}})
	items := l.items(a)
	for i, item := range items {
		if item["type"] != "message" {
			emit("response.output_item.added", map[string]any{"output_index": i, "item": item})
			a.first()
		} else {
			started := map[string]any{"type": "message", "id": item["id"], "role": "assistant", "status": "in_progress", "content": []any{}}
			emit("response.output_item.added", map[string]any{"output_index": i, "item": started})
			emit("response.content_part.added", map[string]any{"item_id": item["id"], "output_index": i, "content_index": 0,
				"part": map[string]any{"type": "output_text", "text": ""}})
			text := item["content"].([]any)[0].(map[string]any)["text"].(string)
			for _, words := range halves(text) {
				emit("response.output_text.delta", map[string]any{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": words})
				a.first()
			}
		}
		emit("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	emit("response.completed", map[string]any{"response": l.response(a, items)})
	a.sent(*a.reply.Usage)
}
