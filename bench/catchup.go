//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// history is the size of a long session's transcript, in bytes.
const history = 256 << 20

// roomy is the limit for the memory of a process that decodes a long transcript, in KiB.
const roomy = 32 << 10

// walked is what bench/walk prints.
type walked struct {
	Took   time.Duration `json:"took"`
	Lines  int           `json:"lines"`
	Usages int           `json:"usages"`
	Output int64         `json:"output"`
	RSS    int64         `json:"rss"`
}

// catchup compares the processor time to decode a long transcript (type, ids, time
// and usage of each record) with the time to find its lines, on one thread.
func catchup(b *bench) (rows []row) {
	for _, h := range []struct {
		decoder string
		write   func(*historian)
	}{{"claude-transcript", (*historian).claude}, {"codex-rollout", (*historian).codex}} {
		path := b.program(h.decoder)
		want := writeHistory(path, h.write)
		var p pairs
		var most int64
		for range max(5, b.rounds/2) {
			floor, ours := b.walk("lines", path), b.walk(h.decoder, path)
			want.Lines = floor.Lines
			if got := (walked{Lines: ours.Lines, Usages: ours.Usages, Output: ours.Output}); got != want {
				must(fmt.Errorf("%s: read %+v, want %+v", h.decoder, got, want))
			}
			p.floor, p.ours = append(p.floor, floor.Took), append(p.ours, ours.Took)
			most = max(most, ours.RSS)
		}
		_ = os.Remove(path)
		rows = append(rows,
			p.speedRow(fmt.Sprintf("speed of decoding with %s, %d MiB in %d lines, compared with only finding the lines", h.decoder, history>>20, want.Lines), 0.25),
			row{what: "… peak resident memory of the decoding process", floor: "-", ours: fmt.Sprintf("%.1f MiB", float64(most)/1024), ratio: "-", spread: "-",
				target: fmt.Sprintf("≤ %d MiB", roomy>>10), missed: most > roomy})
	}
	return rows
}

// beside measures how much the reading of a long transcript delays the keyboard. It sends
// keys through four processes and compares the 90th percentiles of the delays. Two of the
// processes do nothing else: their ratio shows the noise. The third also reads a
// transcript with package watchers, at low priority, as the wrapper does. The fourth
// also reads it, but on an ordinary goroutine.
func beside(b *bench) []row {
	path := b.program("history")
	writeHistory(path, (*historian).claude)
	defer os.Remove(path)
	const decoder = "claude-transcript"
	through := func(args ...string) func(int) time.Duration {
		return func(int) time.Duration { return b.slowKeys(args) }
	}
	t := inTurn(max(5, b.rounds/2), through("idle"), through("idle"), through("aside", decoder, path), through("beside", decoder, path))
	limit := max(1.3, at(t.pairs(0, 1).ratios(), 0.75))
	return []row{
		t.pairs(0, 1).ratioRow("delay of a keystroke through a process with no other work (90th percentile), measured twice: the noise of these measurements"),
		t.pairs(0, 2).ratioRow("delay of a keystroke through a process that also reads a history at low priority, compared with a process with no other work").atMost(limit),
		t.pairs(0, 3).ratioRow("delay of a keystroke through a process that also reads a history on an ordinary goroutine, compared with a process with no other work"),
	}
}

// slowKeys starts bench/walk, sends keys through it one by one, and returns the 90th
// percentile of their times.
func (b *bench) slowKeys(args []string) time.Duration {
	cmd := b.command(append([]string{b.program("walk")}, args...)...)
	cmd.Stderr = os.Stderr
	in, out := got(cmd.StdinPipe()), got(cmd.StdoutPipe())
	must(cmd.Start())
	var took []time.Duration
	var err error
	key := []byte("x")
	for range 10 * keys {
		time.Sleep(time.Millisecond) // the keys come faster than a person can type
		began := time.Now()
		if _, err = in.Write(key); err == nil {
			_, err = out.Read(key)
		}
		if err != nil {
			break
		}
		took = append(took, time.Since(began))
	}
	_ = in.Close()
	must(errors.Join(err, cmd.Wait()))
	slices.Sort(took)
	return at(took, 0.9)
}

func (b *bench) walk(what, path string) (w walked) {
	out, err := b.command(b.program("walk"), what, path).Output()
	if err != nil {
		must(fmt.Errorf("walk %s: %w", what, err))
	}
	must(json.Unmarshal(out, &w))
	return w
}

// A historian writes the turns of an invented session.
type historian struct {
	*rand.Rand
	out     *bufio.Writer
	turn    int
	ordinal int // number of the next Codex record
	wrote   walked
}

// writeHistory writes turns to a file until the file has at least history bytes. It
// returns what the turns contain.
func writeHistory(path string, write func(*historian)) walked {
	f := got(os.Create(path))
	defer f.Close()
	// A constant seed: the same history each time.
	h := &historian{Rand: rand.New(rand.NewPCG(1, 2)), out: bufio.NewWriterSize(f, 1<<20)}
	for size := int64(0); size < history; h.turn++ {
		write(h)
		must(h.out.Flush())
		size = got(f.Stat()).Size()
	}
	return h.wrote
}

// call counts another model call and returns a random number of output tokens for it.
func (h *historian) call() int64 {
	tokens := 1 + h.Int64N(4000)
	h.wrote.Usages++
	h.wrote.Output += tokens
	return tokens
}

// prose and code fill the records; they return text escaped for JSON.
func (h *historian) prose(size int) string {
	const text = `The walker takes what it needs and steps over the rest. \n\n- It said \"done\" at the end.\n- Größer — and 日本語 — are no trouble.\n`
	return h.fill(text, size)
}

func (h *historian) code(size int) string {
	const text = `func (w *walker) step(line []byte) (n int, err error) {\n\tif len(line) == 0 {\n\t\treturn 0, errors.New(\"step: nothing to walk\")\n\t}\n\tfor i, c := range line {\n\t\tswitch c {\n\t\tcase '{', '[':\n\t\t\tw.depth++\n\t\t}\n\t}\n\treturn fmt.Sprintf(\"%d\\n\", n), nil\n}\n\n`
	return h.fill(text, size)
}

func (h *historian) fill(text string, size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(text)
		fmt.Fprintf(&b, "%x ", h.Uint32()) // all texts differ
	}
	return b.String()
}

// about returns a random length of a text. Most texts are short, some are long.
func (h *historian) about(typical int) int {
	return int(float64(typical) * h.ExpFloat64())
}

// claude writes one turn of a Claude Code transcript: the prompt and some model
// calls. Each call has three records: its thinking, its text and a tool call. The
// record of a Bash call's result has the result twice, as in Claude Code.
func (h *historian) claude() {
	at := time.Unix(1763716440, 0).UTC()
	last, line := "null", 0
	record := func(chain bool, format string, args ...any) {
		line++
		uuid := fmt.Sprintf("%08x-0000-4000-8000-%012x", h.turn, line)
		when := at.Add(time.Duration(h.turn*100+line) * time.Second).Format("2006-01-02T15:04:05.000Z")
		const tail = `,"uuid":"%s","timestamp":"%s","userType":"external","entrypoint":"cli","cwd":"/home/dev/project","sessionId":"2f4c5f0e-9f64-4a55-8c7e-0d2f6f3f2a11","version":"2.1.197","gitBranch":"main"}`
		fmt.Fprintf(h.out, `{"parentUuid":%s,"isSidechain":%t,`+format+tail+"\n", append(append([]any{last, chain}, args...), uuid, when)...)
		last = `"` + uuid + `"`
	}
	fmt.Fprintf(h.out, `{"type":"file-history-snapshot","messageId":"%08x","snapshot":{"messageId":"%08x","trackedFileBackups":{"a.go":{"backupFileName":"x@v%d","version":%d}},"timestamp":"2026-11-21T07:58:57.013Z"},"isSnapshotUpdate":false}`+"\n", h.turn, h.turn, h.turn, h.turn)
	prompt := fmt.Sprintf("%08x-1111-4000-8000-000000000000", h.turn)
	record(false, `"promptId":"%s","type":"user","message":{"role":"user","content":"%s"},"permissionMode":"default","origin":{"kind":"human"},"promptSource":"typed"`, prompt, h.prose(h.about(400)))
	record(false, `"attachment":{"type":"skill_listing","content":"%s","skillCount":13,"isInitial":true,"names":["run","init"]},"type":"attachment"`, h.prose(h.about(4000)))
	for call := range 1 + h.IntN(8) {
		tokens := h.call()
		message := func(content string) {
			record(false, `"message":{"id":"msg_%d_%d","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[%s],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":1200,"cache_read_input_tokens":14000,"output_tokens":%d,"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard","cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":1200},"inference_geo":"","iterations":[],"speed":"standard"},"stop_details":null},"requestId":"req_%d_%d","type":"assistant"`,
				h.turn, call, content, 300+call, tokens, h.turn, call)
		}
		message(fmt.Sprintf(`{"type":"thinking","thinking":"%s","signature":"%s"}`, h.prose(h.about(1200)), strings.Repeat("Eq4FCkYIBBgC", 40)))
		message(fmt.Sprintf(`{"type":"text","text":"%s"}`, h.prose(h.about(800))))
		tool := fmt.Sprintf("toolu_%d_%d", h.turn, call)
		result := h.code(h.about(6000))
		switch h.IntN(3) {
		case 0: // an edit, with its patch
			message(fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"Edit","input":{"file_path":"/home/dev/project/a.go","old_string":"%s","new_string":"%s","replace_all":false}}`, tool, h.code(h.about(900)), h.code(h.about(1200))))
			var patch strings.Builder
			for range 10 + h.IntN(60) {
				fmt.Fprintf(&patch, `" \t\tcase %d:","+\treturn fmt.Errorf(\"line %d\")",`, h.IntN(999), h.IntN(999))
			}
			record(false, `"promptId":"%s","type":"user","message":{"role":"user","content":[{"tool_use_id":"%s","type":"tool_result","content":"The file has been updated."}]},"toolUseResult":{"filePath":"/home/dev/project/a.go","oldString":"%s","newString":"%s","originalFile":"%s","structuredPatch":[{"oldStart":4,"oldLines":6,"newStart":4,"newLines":7,"lines":[%s""]}],"userModified":false,"replaceAll":false}`,
				prompt, tool, h.code(900), h.code(1200), result, patch.String())
		default:
			message(fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"Bash","input":{"command":"%s","description":"Look"}}`, tool, h.prose(h.about(200))))
			record(false, `"promptId":"%s","type":"user","message":{"role":"user","content":[{"tool_use_id":"%s","type":"tool_result","content":"%s","is_error":false}]},"toolUseResult":{"stdout":"%s","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false}`, prompt, tool, result, result)
		}
	}
	record(false, `"type":"system","subtype":"turn_duration","durationMs":%d,"isMeta":false`, 1000+h.turn)
}

// codex writes one turn of a Codex rollout.
func (h *historian) codex() {
	const thread = "01a1fd12-0f44-74d1-b3a7-d9b8ae91891c"
	record := func(kind, format string, args ...any) {
		fmt.Fprintf(h.out, `{"timestamp":"2026-11-21T07:46:22.327Z","ordinal":%d,"type":"%s","payload":{`+format+"}}\n", append([]any{h.ordinal, kind}, args...)...)
		h.ordinal++
	}
	if h.turn == 0 {
		record("session_meta", `"id":"%s","cwd":"/home/dev/project","originator":"codex-tui","cli_version":"0.169.0","source":"cli","base_instructions":{"text":"%s"}`, thread, h.prose(15000))
	}
	id := fmt.Sprintf("01a1fd12-11e6-7761-9945-%012x", h.turn)
	record("event_msg", `"type":"task_started","turn_id":"%s","model_context_window":272000`, id)
	record("turn_context", `"turn_id":"%s","cwd":"/home/dev/project","approval_policy":"never","model":"gpt-5.2-codex","summary":"auto","user_instructions":"%s"`, id, h.prose(3000))
	record("response_item", `"type":"message","role":"user","content":[{"type":"input_text","text":"%s"}]`, h.prose(h.about(400)))
	record("event_msg", `"type":"item_completed","thread_id":"%s","turn_id":"%s","item":{"type":"UserMessage","content":[{"type":"text","text":"%s"}]}`, thread, id, h.prose(h.about(400)))
	var total int64
	for call := range 1 + h.IntN(8) {
		tokens := h.call()
		total += 15000 + tokens
		name := fmt.Sprintf("call_%d_%d", h.turn, call)
		record("response_item", `"type":"reasoning","summary":[],"content":null,"encrypted_content":"%s"`, strings.Repeat("gAAAAABpIBo2Zk4tq0", 60+h.IntN(200)))
		record("response_item", `"type":"function_call","name":"exec_command","arguments":"{\"cmd\": \"%s\"}","call_id":"%s"`, strings.Repeat("ls -l; ", 1+h.IntN(30)), name)
		record("token_usage_record", `"thread_id":"%s","turn_id":"%s","session_id":"%s","response_id":"resp_%d_%d","usage":{"input_tokens":15000,"cached_input_tokens":14000,"cache_write_input_tokens":0,"output_tokens":%d,"reasoning_output_tokens":0,"total_tokens":%d}`, thread, id, thread, h.turn, call, tokens, 15000+tokens)
		record("event_msg", `"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"cached_input_tokens":0,"output_tokens":%d,"reasoning_output_tokens":0,"total_tokens":%d},"last_token_usage":{"input_tokens":15000,"cached_input_tokens":14000,"output_tokens":%d,"reasoning_output_tokens":0,"total_tokens":%d},"model_context_window":272000},"rate_limits":null`, total, total, total, tokens, 15000+tokens)
		result := h.code(h.about(6000))
		record("response_item", `"type":"function_call_output","call_id":"%s","output":"%s"`, name, result)
		record("event_msg", `"type":"item_completed","thread_id":"%s","turn_id":"%s","item":{"type":"CommandExecution","id":"%s","process_id":"11525","command":["/bin/bash","-lc","ls"],"cwd":"file:///home/dev/project","parsed_cmd":[{"type":"unknown","cmd":"ls"}],"source":"unified_exec_startup","status":"completed","aggregated_output":"%s","exit_code":0,"duration":{"secs":0,"nanos":14472}}`, thread, id, name, result)
	}
	record("event_msg", `"type":"item_completed","thread_id":"%s","turn_id":"%s","item":{"type":"AgentMessage","content":[{"type":"Text","text":"%s"}]}`, thread, id, h.prose(h.about(800)))
	record("event_msg", `"type":"task_complete","turn_id":"%s","last_agent_message":"%s"`, id, h.prose(h.about(800)))
}
