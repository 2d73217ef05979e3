// Package mock is a model server that answers from a script and records its calls.
// It implements the wire formats of the harnesses: Anthropic's messages, OpenAI's
// responses and chat completions, and Gemini's content generation.
//
// Each request is recorded as a [Call]: its purpose, its prompt, and the [Usage] that
// the answer reported. Unless the script sets a usage, no two calls of one server
// have the same usage. If usages could repeat, a sum could be right
// although one call was counted twice and another was missed.
//
//	s := mock.New(mock.Says("let me see"), mock.Runs("echo hi"), mock.Says("done"))
//	go http.Serve(listener, s)
//	…
//	for _, c := range s.Calls() { … }
package mock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Kind is the purpose of a request.
type Kind string

const (
	Main       Kind = "main"       // the conversation with the user
	Agent      Kind = "agent"      // a sub-agent's conversation
	Title      Kind = "title"      // a name for the conversation
	Compaction Kind = "compaction" // a summary that replaces the conversation
	Side       Kind = "side"       // another request outside the conversation
	Count      Kind = "count"      // a count of tokens, not a model call
	Other      Kind = "other"      // not a model call
)

// Usage counts the tokens of a call. Each token is counted in one field, but the tokens
// in Reasoning are counted in Output too.
type Usage struct {
	Input      int64 `json:"input,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Output     int64 `json:"output,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
}

// Plus returns the sum of two usages, part by part.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// A Reply is one answer of a script. The zero value answers "ok".
type Reply struct {
	Text string
	// Tool is a command for the harness's shell tool.
	Tool string
	// Call is the name of a tool other than the shell tool; Args are its arguments.
	Call string
	Args map[string]any
	// ArgsFor, if set, computes the arguments of Call from the body of the request.
	// Args is then ignored.
	ArgsFor func(request []byte) map[string]any
	// Usage is the usage that the answer reports. Nil means a usage that no other
	// call has.
	Usage *Usage
	// Error answers with this HTTP status instead, and with Message.
	Error   int
	Message string
	// RetryAfter is the header Retry-After of an Error, in seconds.
	RetryAfter string
	// Header, if set, returns further headers of an Error. With Limit the error says
	// that the limit of an account was reached; only OpenAI's responses format has
	// such an error.
	Header func() map[string]string
	Limit  bool
	// Silent sends nothing and waits until the client disconnects. Hang does the same
	// after the first words of the answer. Cut closes the connection after the first
	// words. Hang and Cut need a text of several words.
	Silent, Hang, Cut bool
}

// Says returns a reply with text.
func Says(text string) Reply { return Reply{Text: text} }

// Runs returns a reply that runs a command.
func Runs(command string) Reply { return Reply{Text: "let me see", Tool: command} }

// Fails returns a reply with an HTTP status.
func Fails(status int) Reply { return Reply{Error: status} }

// message returns the text of an Error.
func (r Reply) message() string {
	return cmp.Or(r.Message, fmt.Sprintf("the script asks for status %d", r.Error))
}

// Using returns the reply with this many input tokens, none of them cached.
func (r Reply) Using(input int64) Reply {
	r.Usage = &Usage{Input: input, Output: 20}
	return r
}

// A Call is one request and its answer.
type Call struct {
	N      int    // number among all requests, from 1
	Path   string // the path of the URL
	Kind   Kind
	Model  string
	Prompt string // the last mark in the request; see [Mark]
	Again  int    // how many earlier user messages have that mark, with no other mark in between
	Asked  string // the text of the last message of the user
	Status int    // HTTP status; 0 before the answer
	// Given is the usage sent so far. Whole means that the whole answer was sent.
	Given Usage
	Whole bool
	// Tool means that the answer calls a tool.
	Tool bool
	// Gone means that the client disconnected before the end.
	Gone bool
	// Over means that the call has ended.
	Over bool
	Body []byte // the request
}

// Mark returns the last mark in a text, such as "(p1)", or "" if it has none. A mark
// identifies a prompt, whatever the harness adds to it.
func Mark(text string) string {
	for end := len(text); ; {
		begin := strings.LastIndex(text[:end], "(p")
		if begin < 0 {
			return ""
		}
		digits := strings.TrimLeft(text[begin+2:], "0123456789")
		if n := len(text) - len(digits); n > begin+2 && strings.HasPrefix(digits, ")") {
			return text[begin : n+1]
		}
		end = begin
	}
}

// AgentMark is the mark in the prompt of a sub-agent.
const AgentMark = "(agent)"

// A Server answers from a script. Use [New] to create one.
type Server struct {
	mu     sync.Mutex // guards the fields below
	script []Reply
	calls  []*Call
}

// New returns a server that answers the requests of the conversation and of its
// sub-agents with these replies in order, and then with "ok".
func New(script ...Reply) *Server { return &Server{script: script} }

// Calls returns all calls so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Call, len(s.calls))
	for i, c := range s.calls {
		out[i] = *c
	}
	return out
}

// A Turn is a user's prompt and its outcome.
type Turn struct {
	Prompt  string // the mark of the prompt
	Outcome string // completed, failed, interrupted
}

// Turns returns the prompts that reached the model, in order, each with the outcome
// of its last request in the conversation.
func Turns(calls []Call) []Turn {
	var out []Turn
	type sent struct {
		prompt string
		again  int
	}
	at := map[sent]int{}
	for _, c := range calls {
		if c.Kind != Main || c.Prompt == "" {
			continue
		}
		this := sent{c.Prompt, c.Again}
		if _, known := at[this]; !known {
			at[this] = len(out)
			out = append(out, Turn{Prompt: c.Prompt})
		}
		outcome := "completed"
		switch {
		case c.Status >= http.StatusBadRequest:
			outcome = "failed"
		case !c.Whole, c.Tool: // the answer was cut off, or calls a tool; a request with the tool's result replaces this outcome
			outcome = "interrupted"
		}
		out[at[this]].Outcome = outcome
	}
	return out
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client disconnected during the request
	}
	format := formatOf(r.URL.Path)
	req, ok := format.read(r.URL.Path, body)
	a := &answer{w: w, gone: r.Context().Done(), format: format, request: req}
	a.call, a.reply = s.take(r.URL.Path, req, ok, body)
	a.note = func(change func(c *Call)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		change(a.call)
	}
	defer a.note(func(c *Call) { c.Over = true })
	a.respond()
}

// take records a request and returns its reply.
func (s *Server) take(path string, req request, known bool, body []byte) (*Call, Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Call{N: len(s.calls) + 1, Path: path, Kind: Other, Body: body}
	s.calls = append(s.calls, c)
	if !known {
		return c, Reply{}
	}
	c.Kind, c.Model, c.Asked = req.kind, req.model, req.lastUser()
	for _, text := range req.user {
		switch m := Mark(text); {
		case m == "":
		case m == c.Prompt:
			c.Again++
		default:
			c.Prompt, c.Again = m, 0
		}
	}
	var reply Reply
	switch c.Kind {
	case Main, Agent:
		reply = Says("ok")
		if len(s.script) > 0 {
			reply, s.script = s.script[0], s.script[1:]
		}
	case Compaction:
		reply = Says(summary)
	case Title:
		reply = Says("Mock title")
	}
	if reply.Usage == nil {
		n := 0
		for _, other := range s.calls {
			if other.Kind == c.Kind {
				n++
			}
		}
		reply.Usage = unique(c.Kind, n)
	}
	return c, reply
}

// summary is a summary that every harness accepts.
const summary = "<analysis>mock</analysis>\n<summary>MOCK SUMMARY</summary>\n" +
	"<state_snapshot><overall_goal>mock</overall_goal><key_knowledge>mock</key_knowledge></state_snapshot>"

// unique returns the usage of the nth call of a kind. No other call has the same usage,
// and no sum of a few calls equals another call's usage. A call outside the conversation,
// which may come at any time, does not change the usages of the conversation.
func unique(kind Kind, n int) *Usage {
	k, i := int64(slices.Index([]Kind{Main, Agent, Compaction, Title, Side}, kind)), int64(n)
	return &Usage{Input: 1000 + 500*k + 13*i, CacheRead: 3000 + 700*k + 17*i, CacheWrite: 200 + 5*i, Output: 40 + 3*i, Reasoning: 4 + i}
}

// A request holds the decoded parts of an HTTP request, in one form for all wire formats.
type request struct {
	kind   Kind
	model  string
	user   []string // the texts of the user's messages, in order
	stream bool
	tools  []string // the names of the available tools
	form   string   // the MIME type that the answer must have, if any
}

func (r request) lastUser() string { return last(r.user) }

func last(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[len(texts)-1]
}

// A format is one wire format.
type format interface {
	// read decodes a request; false if it is neither a model call nor a count of
	// tokens.
	read(path string, body []byte) (request, bool)
	// fit drops the parts of a usage that the format cannot express.
	fit(Usage) Usage
	// refuse returns the body of an error.
	refuse(r Reply) any
	// whole writes an answer in one piece. pieces writes it as a stream and calls
	// a.first after the first words, and maybe after later pieces.
	whole(a *answer)
	pieces(a *answer)
}

// noCacheWrite is embedded by the formats that do not report how many tokens were
// written to a cache.
type noCacheWrite struct{}

func (noCacheWrite) fit(u Usage) Usage {
	u.CacheWrite = 0
	return u
}

func formatOf(path string) format {
	switch {
	case strings.HasSuffix(path, "/responses"):
		return responses{}
	case strings.HasSuffix(path, "/chat/completions"):
		return chat{}
	case strings.Contains(path, ":generateContent"), strings.Contains(path, ":streamGenerateContent"), strings.Contains(path, ":countTokens"):
		return generation{}
	}
	return messages{}
}

// An answer is the answer to one call.
type answer struct {
	w       http.ResponseWriter
	gone    <-chan struct{}
	call    *Call
	reply   Reply
	request request
	format  format
	note    func(change func(c *Call))
	stopped bool // the script stopped the answer early
}

// patience is how long a silent server waits for its client to disconnect.
const patience = 10 * time.Minute

func (a *answer) respond() {
	switch {
	case a.call.Kind == Other:
		a.json(http.StatusOK, map[string]any{"object": "list", "data": []any{}, "models": []any{}, "has_more": false})
		return
	case a.call.Kind == Count:
		a.json(http.StatusOK, map[string]any{"totalTokens": 100, "input_tokens": 100})
		return
	case a.reply.Silent:
		a.wait()
		return
	case a.reply.Error != 0:
		if a.reply.RetryAfter != "" {
			a.w.Header().Set("Retry-After", a.reply.RetryAfter)
		}
		if a.reply.Header != nil {
			for name, value := range a.reply.Header() {
				a.w.Header().Set(name, value)
			}
		}
		a.json(a.reply.Error, a.format.refuse(a.reply))
		return
	}
	fit := a.format.fit(*a.reply.Usage)
	a.reply.Usage = &fit
	a.note(func(c *Call) { c.Tool = a.reply.Tool != "" || a.reply.Call != "" })
	if !a.request.stream {
		a.format.whole(a)
		a.sent(fit)
	} else {
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.status(http.StatusOK)
		a.format.pieces(a)
	}
	if !a.stopped {
		a.note(func(c *Call) { c.Whole = true })
	}
}

func (a *answer) status(code int) {
	a.note(func(c *Call) { c.Status = code })
	a.w.WriteHeader(code)
}

func (a *answer) json(code int, body any) {
	a.w.Header().Set("Content-Type", "application/json")
	a.status(code)
	_, _ = a.w.Write(encode(body))
}

// event sends one event of a stream.
func (a *answer) event(name string, data any) {
	if a.stopped {
		return
	}
	if name != "" {
		fmt.Fprintf(a.w, "event: %s\n", name)
	}
	text, raw := data.(string)
	if !raw {
		text = string(encode(data))
	}
	fmt.Fprintf(a.w, "data: %s\n\n", text)
	a.w.(http.Flusher).Flush()
}

// sent records a usage that was sent.
func (a *answer) sent(u Usage) {
	if !a.stopped {
		a.note(func(c *Call) { c.Given = u })
	}
}

// first stops a stream after its first words, if the script says so. Later calls do
// nothing.
func (a *answer) first() {
	if !a.reply.Hang && !a.reply.Cut || a.stopped {
		return
	}
	if a.reply.Hang {
		a.wait()
	}
	a.stopped = true
	if a.reply.Cut {
		panic(http.ErrAbortHandler) // the client sees a lost connection
	}
}

// wait waits for the client to disconnect.
func (a *answer) wait() {
	a.stopped = true
	select {
	case <-a.gone:
		a.note(func(c *Call) { c.Gone = true })
	case <-time.After(patience):
	}
}

// tool returns the tool call of the reply, if it has one. shell has an entry for each
// shell tool of a harness: its name, and a function that makes its arguments from a
// command.
func (a *answer) tool(shell map[string]func(command string) map[string]any) (name string, args map[string]any) {
	if a.reply.ArgsFor != nil {
		return a.reply.Call, a.reply.ArgsFor(a.call.Body)
	}
	if a.reply.Tool == "" {
		return a.reply.Call, a.reply.Args
	}
	for _, offered := range a.request.tools {
		if make, ok := shell[offered]; ok {
			return offered, make(a.reply.Tool)
		}
	}
	return "no shell tool is available", nil // not an error: this text is sent as the name of the called tool
}

// text returns the text of the reply.
func (a *answer) text() string {
	if a.reply.Text == "" && a.reply.Tool == "" && a.reply.Call == "" {
		return "ok"
	}
	return a.reply.Text
}

func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: every answer of a script can be encoded as JSON
	}
	return out
}

// halves cuts a text after its first word.
func halves(text string) []string {
	if i := strings.IndexAny(text, " \n"); i > 0 {
		return []string{text[:i+1], text[i+1:]}
	}
	return []string{text}
}
