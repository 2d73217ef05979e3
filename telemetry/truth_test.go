package telemetry_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/synth"
	"lifeloop/telemetry"
)

// This file checks that reported usage adds up to the usage that was written.
// It writes a random session in each harness's format. It then repeats,
// reorders, splits and rereads the files as far as the format allows. The sum
// of the reported calls must equal the sum of the written calls.

// A world is a session that is being written: its calls so far, and its files.
type world struct {
	*rapid.T
	truth synth.Usage
	files [][]string
	n     int
	clock time.Time
}

// tokens are the token counts of one call. input has no cached tokens; output includes
// reasoning.
type tokens struct{ input, read, write, output, reasoning int64 }

func (t tokens) total() int64 { return t.input + t.read + t.write + t.output }

func (t tokens) plus(o tokens) tokens {
	return tokens{t.input + o.input, t.read + o.read, t.write + o.write, t.output + o.output, t.reasoning + o.reasoning}
}

// made says which optional parts of a call's usage a harness writes.
type made struct{ write, reasoning bool }

// call generates a random call and adds it to its chain.
func (w *world) call(chain *synth.Calls, of made) tokens {
	part := func(name string, most int64) int64 { return rapid.Int64Range(0, most).Draw(w.T, name) }
	t := tokens{input: 1 + part("input", 9000), read: part("read", 90000), output: 1 + part("output", 900)}
	if of.write {
		t.write = part("write", 9000)
	}
	if of.reasoning {
		t.reasoning = min(part("reasoning", 900), t.output)
	}
	chain.Calls++
	chain.Input += t.input
	chain.CacheRead += t.read
	chain.CacheWrite += t.write
	chain.Output += t.output
	chain.Reasoning += t.reasoning
	return t
}

func (w *world) id(prefix string) string {
	w.n++
	return fmt.Sprintf("%s%d", prefix, w.n)
}

// at returns the time of the next record.
func (w *world) at() string { return w.tick().Format("2006-01-02T15:04:05.000Z") }

func (w *world) tick() time.Time {
	w.clock = w.clock.Add(1500 * time.Millisecond)
	return w.clock
}

func (w *world) some(what string, most int) int { return rapid.IntRange(0, most).Draw(w.T, what) }
func (w *world) perhaps(what string) bool       { return rapid.Bool().Draw(w.T, what) }

// file begins a file and returns its number.
func (w *world) file() int {
	w.files = append(w.files, nil)
	return len(w.files) - 1
}

type obj = map[string]any

func (w *world) line(file int, record obj) {
	b, err := json.Marshal(record)
	require.NoError(w, err)
	w.files[file] = append(w.files[file], string(b))
}

// A format is how one harness writes a session, and what may happen to its
// files.
type format struct {
	decoder string
	write   func(*world)
	again   bool // a line may be repeated at any later place; otherwise only directly after itself
	order   int  // the lines of each group of this many may be in any order; 0 keeps the order
	replace bool // a file may be replaced by another one of the same name
}

func TestReportedTotalsAreTrue(t *testing.T) {
	for _, f := range []format{
		{decoder: "claude-transcript", write: writeClaude, again: true, order: 4, replace: true},
		{decoder: "codex-rollout", write: writeCodex(true), replace: true},
		{decoder: "codex-rollout", write: writeCodex(false)},
		{decoder: "codex-app-server", write: writeCodexServer},
		{decoder: "codex-exec", write: writeCodexExec, again: true, replace: true},
		{decoder: "gemini-chat", write: writeGemini, again: true},
		{decoder: "opencode-store", write: writeOpencode, again: true},
		{decoder: "openclaw-transcript", write: writeOpenclaw},
	} {
		t.Run(f.decoder, func(t *testing.T) {
			require.NoError(t, flag.Set("rapid.nofailfile", "true"))
			calls := int64(0)
			rapid.Check(t, func(r *rapid.T) {
				w := &world{T: r, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
				f.write(w)
				var meter synth.Meter
				f.read(w, &meter)
				if got := meter.Total(); got != w.truth {
					r.Fatalf("counted %+v\nthe truth %+v\n%s", got, w.truth, dump(w.files))
				}
				calls += w.truth.Main.Calls + w.truth.Agents.Calls + w.truth.Side.Calls
			})
			if calls == 0 {
				t.Error("no call was made up")
			}
		})
	}
}

func dump(files [][]string) (out string) {
	for i, f := range files {
		for j, l := range f {
			out += fmt.Sprintf("%d:%d %s\n", i, j, l)
		}
	}
	return out
}

// read lets the decoder read every file to its end, with random repetitions and
// restarts.
func (f format) read(w *world, meter *synth.Meter) {
	var d telemetry.Decoder
	restart := func() { d = newDecoder(w, f.decoder) }
	feed := func(lines []string) {
		for _, l := range lines {
			for _, s := range d.Decode([]byte(l)) {
				meter.See(s)
			}
		}
	}
	for _, lines := range w.files {
		if d == nil || !f.replace || !w.perhaps("under the same name") {
			restart()
		}
		lines = f.befallen(w, lines)
		if len(lines) > 0 && w.perhaps("truncated") {
			cut := w.some("cut", len(lines)-1)
			feed(lines[:cut])
			if w.perhaps("torn") {
				feed([]string{lines[cut][:w.some("tear", len(lines[cut])-1)]})
			}
			if w.perhaps("restarted") {
				restart()
			}
		}
		feed(lines)
	}
}

// befallen returns the lines of a file with random repetitions and changes of
// order.
func (f format) befallen(w *world, lines []string) []string {
	out := slices.Clone(lines)
	for i := 0; f.order > 1 && i+1 < len(out); i += f.order {
		group := out[i:min(i+f.order, len(out))]
		copy(group, rapid.Permutation(group).Draw(w.T, "order"))
	}
	for range w.some("repeated", 4) {
		if len(out) == 0 {
			break
		}
		from := w.some("which", len(out)-1)
		to := from + 1
		if f.again {
			to = rapid.IntRange(from+1, len(out)).Draw(w.T, "where")
		}
		out = slices.Insert(out, to, out[from])
	}
	return out
}

// writeClaude writes a transcript, and one for each sub-agent. Each block of a
// call's answer is one line, which has the usage of the call so far.
func writeClaude(w *world) {
	answer := func(file int, agent string, chain *synth.Calls) {
		t := w.call(chain, made{write: true})
		id, request := w.id("msg_"), w.id("req_")
		for blocks := w.some("blocks", 3); blocks >= 0; blocks-- {
			sofar := t.output
			if blocks > 0 {
				sofar = min(sofar, int64(1+w.some("sofar", int(t.output)-1)))
			}
			r := obj{"type": "assistant", "uuid": w.id("u"), "timestamp": w.at(), "sessionId": "S", "requestId": request,
				"message": obj{"id": id, "role": "assistant", "model": "m", "content": []any{}, "usage": obj{"input_tokens": t.input,
					"cache_read_input_tokens": t.read, "cache_creation_input_tokens": t.write, "output_tokens": sofar}}}
			if agent != "" {
				r["isSidechain"], r["agentId"] = true, agent
			}
			w.line(file, r)
		}
	}
	none := obj{"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 0}
	main := w.file()
	for range 1 + w.some("turns", 3) {
		prompt := w.id("p")
		w.line(main, obj{"type": "user", "uuid": w.id("u"), "timestamp": w.at(), "sessionId": "S", "promptId": prompt, "promptSource": "typed",
			"message": obj{"role": "user", "content": "do it"}})
		for range w.some("calls", 3) {
			answer(main, "", &w.truth.Main)
		}
		switch w.some("besides", 3) {
		case 0:
			w.line(main, obj{"type": "assistant", "uuid": w.id("u"), "timestamp": w.at(), "sessionId": "S", "isApiErrorMessage": true, "error": "rate_limit",
				"message": obj{"id": w.id("x"), "model": "<synthetic>", "role": "assistant", "content": []any{}, "usage": none}})
		case 1:
			w.line(main, obj{"type": "assistant", "uuid": w.id("u"), "timestamp": w.at(), "sessionId": "S",
				"message": obj{"id": w.id("x"), "model": "<synthetic>", "role": "assistant", "content": []any{}, "usage": none}})
		case 2:
			file, agent := w.file(), w.id("agent")
			for range 1 + w.some("agent's calls", 2) {
				answer(file, agent, &w.truth.Agents)
			}
		case 3:
			w.line(main, obj{"type": "system", "subtype": "compact_boundary", "uuid": w.id("u"), "timestamp": w.at(), "sessionId": "S",
				"compactMetadata": obj{"trigger": "auto", "preTokens": 100000}})
		}
	}
}

// codexCount writes tokens as Codex counts them: cached tokens are part of the
// input.
func codexCount(t tokens) obj {
	input := t.input + t.read + t.write
	return obj{"input_tokens": input, "cached_input_tokens": t.read, "cache_write_input_tokens": t.write,
		"output_tokens": t.output, "reasoning_output_tokens": t.reasoning, "total_tokens": input + t.output}
}

// codexThread is one rollout that is being written.
type codexThread struct {
	*world
	file    int
	id      string
	session string
	ordinal int
	records bool // each call is written as a separate record
	total   tokens
	last    tokens
}

func (c *codexThread) put(kind string, payload obj) {
	r := obj{"timestamp": c.at(), "type": kind, "payload": payload}
	if c.records {
		r["ordinal"] = c.ordinal
		c.ordinal++
	}
	c.line(c.file, r)
}

func (c *codexThread) counted(last obj) {
	c.put("event_msg", obj{"type": "token_count", "rate_limits": nil,
		"info": obj{"total_token_usage": codexCount(c.total), "last_token_usage": last, "model_context_window": 95000}})
}

// answered writes a model call, and its count once or twice.
func (c *codexThread) answered(turn string, chain *synth.Calls) {
	t := c.call(chain, made{write: true, reasoning: true})
	c.total, c.last = c.total.plus(t), t
	if c.records {
		c.put("token_usage_record", obj{"thread_id": c.id, "session_id": c.session, "turn_id": turn, "response_id": c.world.id("resp"),
			"usage": codexCount(t), "thread_token_usage": codexCount(c.total)})
	}
	for range 1 + c.some("counted again", 1) {
		c.counted(codexCount(t))
	}
}

// turn writes one turn; chain holds the calls of the thread.
func (c *codexThread) turn(chain *synth.Calls) {
	turn := c.id + "-" + c.world.id("t")
	c.put("event_msg", obj{"type": "task_started", "turn_id": turn, "root_turn_id": turn, "model_context_window": 95000})
	if c.total != (tokens{}) && c.perhaps("count of before") {
		c.counted(codexCount(c.last))
	}
	if c.perhaps("compacted") {
		c.answered(turn, &c.truth.Side)
		c.put("compacted", obj{"message": "what was"})
		c.counted(obj{"input_tokens": 0, "output_tokens": 0, "total_tokens": 6000})
	}
	c.put("event_msg", obj{"type": "item_completed", "thread_id": c.id, "turn_id": turn, "item": obj{"type": "UserMessage"}})
	for range c.some("calls", 3) {
		if c.perhaps("tool") {
			c.put("response_item", obj{"type": "function_call", "call_id": c.world.id("call"), "name": "x", "arguments": "{}"})
		} else {
			c.put("event_msg", obj{"type": "item_completed", "thread_id": c.id, "turn_id": turn, "item": obj{"type": "AgentMessage"}})
		}
		c.answered(turn, chain)
	}
	end := obj{"type": "task_complete", "turn_id": turn, "last_agent_message": nil}
	switch c.some("end", 3) {
	case 0:
		c.put("event_msg", obj{"type": "token_count", "info": nil, "rate_limits": nil})
		end["error"] = obj{"message": "no", "codex_error_info": "usage_limit_exceeded"}
	case 1:
		c.put("event_msg", obj{"type": "turn_aborted", "turn_id": turn, "reason": "interrupted"})
		return
	case 2:
		return // the harness was killed during the turn
	}
	c.put("event_msg", end)
}

// writeCodex writes a thread and the threads of its sub-agents. With records, it may
// also write a fork, which continues the totals of the thread.
func writeCodex(records bool) func(*world) {
	return func(w *world) {
		begin := func(id, session string, meta obj) *codexThread {
			c := &codexThread{world: w, file: w.file(), id: id, session: session, records: records}
			meta["id"], meta["session_id"], meta["timestamp"], meta["cli_version"] = id, session, w.at(), "0.1.0"
			c.put("session_meta", meta)
			return c
		}
		main := begin("S", "S", obj{"source": "cli"})
		for range 1 + w.some("turns", 3) {
			main.turn(&w.truth.Main)
			if w.perhaps("spawned") {
				agent := begin(w.id("agent"), "S", obj{"source": obj{"subagent": obj{"thread_spawn": obj{"parent_thread_id": "S", "depth": 1}}}})
				agent.turn(&w.truth.Agents)
			}
		}
		if records && w.perhaps("forked") {
			fork := begin("F", "F", obj{"source": "cli", "forked_from_id": "S", "forked_from_ordinal_exclusive": main.ordinal})
			fork.ordinal, fork.total, fork.last = main.ordinal+1, main.total, main.last
			fork.turn(&w.truth.Main)
		}
	}
}

// writeCodexServer writes the app-server's messages about a thread and about a
// resumed one, whose first total is not counted.
func writeCodexServer(w *world) {
	file := w.file()
	put := func(method string, params obj) {
		w.line(file, obj{"method": method, "params": params, "emittedAtMs": w.tick().UnixMilli()})
	}
	camel := func(t tokens) obj {
		input := t.input + t.read + t.write
		return obj{"inputTokens": input, "cachedInputTokens": t.read, "cacheWriteInputTokens": t.write,
			"outputTokens": t.output, "reasoningOutputTokens": t.reasoning, "totalTokens": input + t.output}
	}
	thread := func(id string, created time.Time, total, last tokens) {
		put("thread/started", obj{"thread": obj{"id": id, "sessionId": id, "createdAt": created.Unix()}})
		count := func(turn string, last obj) {
			put("thread/tokenUsage/updated", obj{"threadId": id, "turnId": turn, "tokenUsage": obj{"total": camel(total), "last": last, "modelContextWindow": 95000}})
		}
		if total != (tokens{}) {
			count("", camel(last))
		}
		for range 1 + w.some("turns", 2) {
			turn := w.id("t")
			put("turn/started", obj{"threadId": id, "turn": obj{"id": turn}})
			put("item/started", obj{"threadId": id, "turnId": turn, "item": obj{"id": "i", "type": "userMessage"}})
			for range w.some("calls", 3) {
				chain := &w.truth.Main
				squeeze := w.perhaps("compacted")
				item := obj{"threadId": id, "turnId": turn, "item": obj{"id": "c", "type": "contextCompaction"}}
				if squeeze {
					chain = &w.truth.Side
					put("item/started", item)
				}
				last = w.call(chain, made{write: true, reasoning: true})
				total = total.plus(last)
				for range 1 + w.some("repeated", 1) {
					count(turn, camel(last))
				}
				if squeeze {
					count(turn, obj{"inputTokens": 0, "outputTokens": 0, "totalTokens": 6000})
					put("item/completed", item)
				}
			}
			put("turn/completed", obj{"threadId": id, "turn": obj{"id": turn, "status": "completed"}})
		}
	}
	thread("A", w.clock, tokens{}, tokens{})
	if w.perhaps("another") {
		thread("B", w.clock.Add(-time.Hour), tokens{input: 500, output: 50}, tokens{input: 50, output: 5})
	}
}

// writeCodexExec writes the streams of several processes of one thread. Each turn
// reports the usage of the whole thread so far, so all turns count as one call, whose
// usage grows.
func writeCodexExec(w *world) {
	var total tokens
	for range 1 + w.some("processes", 3) {
		file := w.file()
		w.line(file, obj{"type": "thread.started", "thread_id": "S"})
		w.line(file, obj{"type": "turn.started"})
		if w.perhaps("failed") {
			w.line(file, obj{"type": "turn.failed", "error": obj{"message": "no"}})
			continue
		}
		total = total.plus(w.call(&w.truth.Main, made{write: true, reasoning: true}))
		w.truth.Main.Calls = 1
		used := codexCount(total)
		delete(used, "total_tokens")
		w.line(file, obj{"type": "turn.completed", "usage": used})
	}
}

// writeGemini writes a chat file. A message of the model may be repeated with its tool
// calls. A $set record repeats all messages.
func writeGemini(w *world) {
	file := w.file()
	w.line(file, obj{"sessionId": "S", "projectHash": "h", "startTime": w.at(), "kind": "main"})
	var history []obj
	for range 1 + w.some("turns", 3) {
		asked := obj{"id": w.id("p"), "timestamp": w.at(), "type": "user", "content": []obj{{"text": "do it"}}}
		w.line(file, asked)
		history = append(history, asked)
		for range w.some("calls", 3) {
			t := w.call(&w.truth.Main, made{reasoning: true})
			tool := rapid.Int64Range(0, t.input).Draw(w.T, "tool")
			said := obj{"id": w.id("g"), "timestamp": w.at(), "type": "gemini", "content": "done", "model": "m", "tokens": obj{
				"input": t.input - tool + t.read, "cached": t.read, "tool": tool, "thoughts": t.reasoning,
				"output": t.output - t.reasoning, "total": t.total()}}
			if t.input-tool+t.read == 0 {
				said["tokens"].(obj)["input"], said["tokens"].(obj)["tool"] = t.input, 0
			}
			w.line(file, said)
			if w.perhaps("tools over") {
				said["toolCalls"] = []obj{{"id": w.id("c"), "name": "x"}}
				w.line(file, said)
			}
			history = append(history, said)
		}
		if w.perhaps("set") {
			w.line(file, obj{"$set": obj{"messages": history, "lastUpdated": w.at()}})
		}
	}
}

// writeOpencode writes the rows of a session and of its sub-agents. Each
// message is written first without its usage.
func writeOpencode(w *world) {
	file := w.file()
	seq := map[string]int{}
	row := func(session, kind string, data obj) {
		data["sessionID"] = session
		w.line(file, obj{"id": w.id("evt_"), "aggregate_id": session, "seq": seq[session], "type": kind + ".1", "data": data})
		seq[session]++
	}
	answer := func(session, asked, agent string, chain *synth.Calls) {
		t := w.call(chain, made{write: true, reasoning: true})
		info := obj{"id": w.id("msg_"), "role": "assistant", "parentID": asked, "mode": agent, "agent": agent, "modelID": "m", "providerID": "p",
			"time":   obj{"created": w.tick().UnixMilli()},
			"tokens": obj{"input": 0, "output": 0, "reasoning": 0, "cache": obj{"read": 0, "write": 0}}}
		if agent == "compaction" {
			info["summary"] = true
		}
		row(session, "message.updated", obj{"info": info})
		info["tokens"] = obj{"input": t.input, "output": t.output - t.reasoning, "reasoning": t.reasoning, "cache": obj{"read": t.read, "write": t.write}}
		info["finish"], info["time"] = "stop", obj{"created": w.clock.UnixMilli(), "completed": w.tick().UnixMilli()}
		for range 1 + w.some("written again", 2) {
			row(session, "message.updated", obj{"info": info})
		}
	}
	begin := func(session, parent string) {
		info := obj{"id": session, "directory": "/p", "version": "1", "time": obj{"created": w.tick().UnixMilli()}}
		if parent != "" {
			info["parentID"] = parent
		}
		row(session, "session.created", obj{"info": info})
	}
	turn := func(session string, chain *synth.Calls) {
		asked := w.id("msg_")
		row(session, "message.updated", obj{"info": obj{"id": asked, "role": "user", "time": obj{"created": w.tick().UnixMilli()}, "agent": "build"}})
		for range w.some("calls", 3) {
			answer(session, asked, "build", chain)
		}
		if w.perhaps("compacted") {
			answer(session, asked, "compaction", &w.truth.Side)
		}
	}
	begin("S", "")
	for range 1 + w.some("turns", 3) {
		turn("S", &w.truth.Main)
		if w.perhaps("sub-agent") {
			agent := w.id("ses_")
			begin(agent, "S")
			turn(agent, &w.truth.Agents)
		}
	}
}

// writeOpenclaw writes the rows of a transcript. The calls for a prompt of another
// session are not in the main chain. An answer that the harness wrote itself,
// without the model, is not a call.
func writeOpenclaw(w *world) {
	file := w.file()
	row := func(kind string, event obj) {
		event["type"], event["id"], event["timestamp"] = kind, w.id("e"), w.at()
		w.line(file, obj{"session_id": "S", "created_at": w.clock.UnixMilli(), "event": event})
	}
	row("session", obj{"cwd": "/p"})
	for range 1 + w.some("turns", 3) {
		run, chain := w.id("run"), &w.truth.Main
		ask := obj{"role": "user", "content": "do it", "idempotencyKey": run + ":user"}
		if w.perhaps("asked by another session") {
			ask["provenance"], chain = obj{"kind": "inter_session"}, &w.truth.Side
		}
		row("message", obj{"message": ask})
		for n := range w.some("calls", 3) {
			t := w.call(chain, made{write: true, reasoning: true})
			usage := obj{"input": t.input, "output": t.output, "cacheRead": t.read, "cacheWrite": t.write, "reasoning": t.reasoning}
			row("message", obj{"message": obj{"role": "assistant", "content": []any{}, "provider": "p", "model": "m", "usage": usage, "stopReason": "toolUse",
				"responseId": fmt.Sprint("r", n), "__openclaw": obj{"runId": run}}}) // in another run, the same id is another call
			if w.perhaps("mirrored") {
				row("message", obj{"message": obj{"role": "assistant", "content": []any{}, "provider": "openclaw", "usage": usage, "stopReason": "stop"}})
			}
		}
		if w.perhaps("compacted") {
			row("compaction", obj{"tokensBefore": 1000, "tokensAfter": 10})
		}
	}
}
