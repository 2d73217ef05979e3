// Package mock is a model server that answers by script and keeps account of
// what it answered. It speaks the four wire formats of the harnesses that the
// end-to-end tests drive: Anthropic's messages, OpenAI's responses and chat
// completions, Gemini's content generation.
//
// Every answered request is a [Call]: what it was for, whose prompt it carried
// and the usage that was given out with it, in exclusive parts. No two calls of
// one server get the same usage unless the script says so, so that a call that
// somebody counts twice is not made up for by one that is left out.
//
//	s := mock.New(mock.Says("let me see"), mock.Runs("echo hi"), mock.Says("done"))
//	go http.Serve(listener, s)
//	…
//	for _, c := range s.Calls() { … }
package mock

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Kind says what a request was for.
type Kind string

const (
	Main       Kind = "main"       // the conversation with the person
	Agent      Kind = "agent"      // a sub-agent's conversation
	Title      Kind = "title"      // a name for the conversation
	Compaction Kind = "compaction" // a summary that takes the conversation's place
	Side       Kind = "side"       // another question beside the conversation
	Count      Kind = "count"      // no call of a model: how many tokens a text is
	Other      Kind = "other"      // no call of a model
)

// Usage is what a call cost. The parts are exclusive, but Reasoning is a part
// of Output.
type Usage struct {
	Input      int64 `json:"input,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Output     int64 `json:"output,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
}

// Plus is the sum of two usages, part by part.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// A Reply is one answer of a script. The zero value answers "ok".
type Reply struct {
	Text string
	// Tool is a command for the harness's shell tool.
	Tool string
	// Call is a call of any other tool by its name, with Args.
	Call string
	Args map[string]any
	// Usage of the answer; nil means one that no other call has.
	Usage *Usage
	// Error answers with this HTTP status instead. Message goes with it.
	Error   int
	Message string
	// RetryAfter goes with an Error, in seconds.
	RetryAfter string
	// Limit says of an Error that it is a limit of use, which is lifted after so
	// long. Only OpenAI's responses have words for it.
	Limit time.Duration
	// Silent answers nothing until the client leaves; Hang stops after the first
	// piece of the answer, which must be of more than one word; Cut ends the
	// connection there.
	Silent, Hang, Cut bool
}

// Says is an answer in words.
func Says(text string) Reply { return Reply{Text: text} }

// Runs is an answer that runs a command.
func Runs(command string) Reply { return Reply{Text: "let me see", Tool: command} }

// Fails is an answer with an HTTP status.
func Fails(status int) Reply { return Reply{Error: status} }

// Using is the reply with this many tokens of input, none of them cached.
func (r Reply) Using(input int64) Reply {
	r.Usage = &Usage{Input: input, Output: 20}
	return r
}

// A Call is one request and what it was answered.
type Call struct {
	N      int    // counted from 1 over everything that was asked
	Path   string // of the URL
	Kind   Kind
	Model  string
	Prompt string // the last mark of a person's prompt that the request carries; see [Mark]
	Again  int    // how often that prompt was sent again right behind itself
	Asked  string // the text of the last message of the user
	Status int    // of HTTP; 0 while nothing has been answered
	// Given is the usage that went out so far, and Whole that the answer went out
	// to its end.
	Given Usage
	Whole bool
	// Tool says that the answer asked for a tool.
	Tool bool
	// Gone says that the client left before the end.
	Gone bool
	// Over says that nothing more will become of this call.
	Over bool
	Body []byte // the request
}

// mark is what a script puts into a person's prompt so that the server knows it
// again, whatever a harness wraps around it: "(p1)".
var mark = regexp.MustCompile(`\(p\d+\)`)

// Mark is the last mark of a person's prompt in a text, empty where it has none.
func Mark(text string) string {
	marks := mark.FindAllString(text, -1)
	if len(marks) == 0 {
		return ""
	}
	return marks[len(marks)-1]
}

// AgentMark stands in the prompt of a sub-agent.
const AgentMark = "(agent)"

// A Server answers by script. The zero value is not usable; see [New].
type Server struct {
	mu     sync.Mutex // guards all below
	script []Reply
	// compactions are the answers to requests for a summary, in order; then a
	// plain one.
	compactions []Reply
	calls       []*Call
}

// New returns a server that answers the conversation's requests with these
// replies, in order, and then with "ok".
func New(script ...Reply) *Server { return &Server{script: script} }

// Compactions sets the answers to requests for a summary.
func (s *Server) Compactions(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compactions = replies
}

// Calls are all calls so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Call, len(s.calls))
	for i, c := range s.calls {
		out[i] = *c
	}
	return out
}

// A Turn is a person's prompt and how what it began came out.
type Turn struct {
	Prompt  string // its mark
	Outcome string // completed, failed, interrupted
}

// Turns are the prompts that reached the model, in order, each with the end of
// its last request in the conversation.
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
		case !c.Whole, c.Tool: // nobody came back with the tool's result
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
		return // the client left in mid-request
	}
	speak := languageOf(r.URL.Path)
	req, ok := speak.read(r.URL.Path, body)
	a := &answer{w: w, gone: r.Context().Done(), speak: speak, request: req}
	a.call, a.reply = s.take(r.URL.Path, req, ok, body)
	a.note = func(change func(c *Call)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		change(a.call)
	}
	defer a.note(func(c *Call) { c.Over = true })
	a.give()
}

// take enters a request into the account and takes the reply that is its turn.
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
		reply, s.script = next(s.script, Says("ok"))
	case Compaction:
		reply, s.compactions = next(s.compactions, Says(summary))
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

// summary is what a harness of any kind takes for the summary of a
// conversation.
const summary = "<analysis>mock</analysis>\n<summary>MOCK SUMMARY</summary>\n" +
	"<state_snapshot><overall_goal>mock</overall_goal><key_knowledge>mock</key_knowledge></state_snapshot>"

func next(queue []Reply, otherwise Reply) (Reply, []Reply) {
	if len(queue) == 0 {
		return otherwise, nil
	}
	return queue[0], queue[1:]
}

// unique is the usage of the nth call of a kind. No other call has it, and no
// sum of a few calls is another's. A call beside the conversation, which comes
// when it likes, changes nothing in what the conversation is given.
func unique(kind Kind, n int) *Usage {
	k, i := int64(slices.Index([]Kind{Main, Agent, Compaction, Title, Side}, kind)), int64(n)
	return &Usage{Input: 1000 + 500*k + 13*i, CacheRead: 3000 + 700*k + 17*i, CacheWrite: 200 + 5*i, Output: 40 + 3*i, Reasoning: 4 + i}
}

// A request is what all wire formats ask alike.
type request struct {
	kind   Kind
	model  string
	user   []string // the texts of the user's messages, in order
	stream bool
	tools  []string // the names of the tools that are offered
	form   string   // how the answer must look, where the request says so
}

func (r request) lastUser() string {
	if len(r.user) == 0 {
		return ""
	}
	return r.user[len(r.user)-1]
}

// A language is one wire format.
type language interface {
	// read understands a request; false where it is no call of a model.
	read(path string, body []byte) (request, bool)
	// fit drops the parts of a usage that the format has no word for.
	fit(Usage) Usage
	// refuse is the body of an error.
	refuse(r Reply) any
	// whole writes an answer in one piece, and pieces writes it as a stream,
	// calling a.first once after the first words.
	whole(a *answer)
	pieces(a *answer)
}

func languageOf(path string) language {
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

// An answer is one call on its way.
type answer struct {
	w       http.ResponseWriter
	gone    <-chan struct{}
	call    *Call
	reply   Reply
	request request
	speak   language
	note    func(change func(c *Call))
	stopped bool // the answer ended before its end, as the script wanted
}

// patience is how long a silent server waits for its client to leave.
const patience = 10 * time.Minute

func (a *answer) give() {
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
		if a.reply.Limit > 0 {
			a.w.Header().Set("X-Codex-Primary-Used-Percent", "100")
			a.w.Header().Set("X-Codex-Primary-Window-Minutes", "300")
			a.w.Header().Set("X-Codex-Primary-Reset-At", strconv.FormatInt(time.Now().Add(a.reply.Limit).Unix(), 10))
		}
		a.json(a.reply.Error, a.speak.refuse(a.reply))
		return
	}
	fit := a.speak.fit(*a.reply.Usage)
	a.reply.Usage = &fit
	a.note(func(c *Call) { c.Tool = a.reply.Tool != "" || a.reply.Call != "" })
	if !a.request.stream {
		a.speak.whole(a)
		a.gave(fit)
	} else {
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.status(http.StatusOK)
		a.speak.pieces(a)
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
	var text strings.Builder
	if name != "" {
		text.WriteString("event: " + name + "\n")
	}
	text.WriteString("data: ")
	if raw, ok := data.(string); ok {
		text.WriteString(raw)
	} else {
		text.Write(encode(data))
	}
	text.WriteString("\n\n")
	_, _ = io.WriteString(a.w, text.String())
	a.w.(http.Flusher).Flush()
}

// gave enters a usage that has gone out.
func (a *answer) gave(u Usage) {
	if !a.stopped {
		a.note(func(c *Call) { c.Given = u })
	}
}

// first comes after the first words of a stream, where a script may stop it.
func (a *answer) first() {
	if !a.reply.Hang && !a.reply.Cut || a.stopped {
		return
	}
	if a.reply.Hang {
		a.wait()
	}
	a.stopped = true
	if a.reply.Cut {
		panic(http.ErrAbortHandler) // as a lost connection looks to the client
	}
}

// wait waits for the client to leave.
func (a *answer) wait() {
	a.stopped = true
	select {
	case <-a.gone:
		a.note(func(c *Call) { c.Gone = true })
	case <-time.After(patience):
	}
}

// tool is the tool call of the reply, if it has one.
func (a *answer) tool(shell map[string]func(command string) map[string]any) (name string, args map[string]any) {
	if a.reply.Tool == "" {
		return a.reply.Call, a.reply.Args
	}
	for _, offered := range a.request.tools {
		if make, ok := shell[offered]; ok {
			return offered, make(a.reply.Tool)
		}
	}
	return "no shell is offered", nil
}

// text are the words of the reply.
func (a *answer) text() string {
	if a.reply.Text == "" && a.reply.Tool == "" && a.reply.Call == "" {
		return "ok"
	}
	return a.reply.Text
}

func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // scripts are ours
	}
	return out
}

// halves cuts a text behind its first word.
func halves(text string) []string {
	if i := strings.IndexAny(text, " \n"); i > 0 {
		return []string{text[:i+1], text[i+1:]}
	}
	return []string{text}
}
