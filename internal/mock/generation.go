package mock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// generation is the Gemini API's content generation.
type generation struct{ noCacheWrite }

type content struct {
	Role  string `json:"role"`
	Parts []struct {
		Text string `json:"text"`
	} `json:"parts"`
}

func (c content) text() string {
	var out []string
	for _, p := range c.Parts {
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

func (generation) read(path string, body []byte) (request, bool) {
	var in struct {
		Contents          []content `json:"contents"`
		SystemInstruction content   `json:"systemInstruction"`
		Tools             []struct {
			Functions []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		Config struct {
			Mime   string          `json:"responseMimeType"`
			Schema json.RawMessage `json:"responseJsonSchema"`
		} `json:"generationConfig"`
	}
	if json.Unmarshal(body, &in) != nil {
		return request{}, false
	}
	_, name, _ := strings.Cut(path, "/models/")
	model, _, _ := strings.Cut(name, ":")
	r := request{kind: Main, model: model, stream: strings.Contains(path, ":stream"), form: in.Config.Mime}
	for _, c := range in.Contents {
		if c.Role == "user" && c.text() != "" {
			r.user = append(r.user, c.text())
		}
	}
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			r.tools = append(r.tools, f.Name)
		}
	}
	switch system := in.SystemInstruction.text(); {
	case strings.Contains(path, ":countTokens"):
		r.kind = Count
	case strings.Contains(system, "<state_snapshot>"):
		r.kind = Compaction
	case r.form != "" || len(r.tools) == 0:
		r.kind = Side
	case len(r.user) > 0 && strings.Contains(r.user[0], AgentMark):
		r.kind = Agent
	}
	return r, true
}

func (generation) refuse(r Reply) any {
	word := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}[r.Error]
	return map[string]any{"error": map[string]any{"code": r.Error, "message": r.message(), "status": cmp.Or(word, "INTERNAL")}}
}

func (generation) usage(u Usage) map[string]any {
	in := u.Input + u.CacheRead
	return map[string]any{"promptTokenCount": in, "cachedContentTokenCount": u.CacheRead, "candidatesTokenCount": u.Output - u.Reasoning,
		"thoughtsTokenCount": u.Reasoning, "totalTokenCount": in + u.Output}
}

// words returns the text of the answer. A request for an answer in JSON comes from the
// harness itself and not from the user. The answer to such a request is always the same
// object.
func (generation) words(a *answer) string {
	if a.request.form != "" {
		return string(encode(map[string]any{"reasoning": "mock", "next_speaker": "user", "complexity_score": 10, "complexity_reasoning": "mock",
			"model_choice": "flash", "title": "Mock title"}))
	}
	return a.text()
}

func (l generation) part(a *answer, parts []any, why string, last bool) map[string]any {
	candidate := map[string]any{"content": map[string]any{"role": "model", "parts": parts}, "index": 0}
	out := map[string]any{"candidates": []any{candidate}, "modelVersion": a.call.Model, "responseId": fmt.Sprintf("mock%d", a.call.N)}
	if last {
		candidate["finishReason"] = why
		out["usageMetadata"] = l.usage(*a.reply.Usage)
	}
	return out
}

func (generation) tool(a *answer) []any {
	command := func(c string) map[string]any { return map[string]any{"command": c} }
	name, args := a.tool(map[string]func(string) map[string]any{"run_shell_command": command})
	if name == "" {
		return nil
	}
	return []any{map[string]any{"functionCall": map[string]any{"name": name, "args": args}}}
}

func (l generation) whole(a *answer) {
	parts := []any{map[string]any{"text": l.words(a)}}
	a.json(http.StatusOK, l.part(a, append(parts, l.tool(a)...), "STOP", true))
}

// pieces sends the usage in the last event, together with the tool call or, if there is
// none, with the last words. A harness may reject an answer whose last event has an empty
// text.
func (l generation) pieces(a *answer) {
	words, parts := halves(l.words(a)), l.tool(a)
	if parts == nil {
		last := len(words) - 1
		parts, words = []any{map[string]any{"text": words[last]}}, words[:last]
	}
	for _, text := range words {
		if text == "" {
			continue // the answer is only a tool call
		}
		a.event("", l.part(a, []any{map[string]any{"text": text}}, "", false))
		a.first()
	}
	a.event("", l.part(a, parts, "STOP", true))
	a.sent(*a.reply.Usage)
}
