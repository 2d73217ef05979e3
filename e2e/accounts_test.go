//go:build e2e && linux

package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// agent is a reply that starts a sub-agent.
func agent(tool string, args map[string]any) mock.Reply {
	all := map[string]any{"description": "look around", "prompt": "look " + mock.AgentMark}
	maps.Copy(all, args)
	return mock.Reply{Text: "let me ask", Call: tool, Args: all}
}

// withSubAgents reads a session of Claude Code and its sub-agents.
func withSubAgents(w *world) (out [][]string) {
	for _, f := range inOrder(w.t, ".claude/projects/*/*.jsonl") {
		agents, err := filepath.Glob(strings.TrimSuffix(f, ".jsonl") + "/subagents/agent-*.jsonl")
		require.NoError(w.t, err)
		out = append(out, append([]string{f}, agents...))
	}
	return out
}

func TestClaudeAccounts(t *testing.T) {
	tty := func(replies []mock.Reply, script func(r *run), env ...string) account {
		return account{read: withSubAgents, reported: []mock.Kind{mock.Agent}, story: story{harness: claude, tty: true,
			argv: claudeArgs("--allowedTools", "Bash"), replies: replies, env: env,
			script: func(r *run) {
				claudeReady(r)
				script(r)
				r.types("/exit\r")
			}}}
	}
	printed := account{read: withSubAgents, reported: []mock.Kind{mock.Agent}, endless: true, story: story{harness: claude,
		argv: claudeArgs("--allowedTools", "Bash", "-p", "look (p1)")}}
	tool, sub, again, resumed := printed, printed, printed, printed
	tool.replies = []mock.Reply{mock.Runs("echo one"), mock.Runs("echo two"), mock.Says("done")}
	sub.replies = []mock.Reply{agent("Agent", map[string]any{"subagent_type": "general-purpose"}), mock.Runs("echo hi"), mock.Says("seen"), mock.Says("done")}
	sub.notices = 1
	again.replies = []mock.Reply{mock.Fails(529), mock.Fails(500), mock.Says("better")}
	again.env = []string{"CLAUDE_CODE_MAX_RETRIES=5"}
	resumed.earlier = [][]string{claudeArgs("-p", "one (p1)")}
	resumed.argv = claudeArgs("-p", "-c", "two (p2)")

	playAccounts(t, map[string]account{
		"print: tools":              tool,
		"print: a sub-agent":        sub,
		"print: errors that pass":   again,
		"print: an earlier session": resumed,
		"tools, and an error": tty([]mock.Reply{mock.Runs("echo hi"), mock.Says("done"), mock.Fails(400), mock.Says("better")}, func(r *run) {
			claudeTurn(r, "run it (p1)")
			claudeTurn(r, "again (p2)")
			claudeTurn(r, "and again (p3)")
		}),
		"Esc while the model answers": tty([]mock.Reply{mock.Says("one"), hanging(), mock.Says("back")}, func(r *run) {
			claudeTurn(r, "hello (p1)")
			r.types("tell me (p2)\r")
			midStream(r)
			r.types("\x1b")
			r.await("the interruption", func() bool {
				return r.transcripts("[Request interrupted by user") == 1 && claudeRegistry().Status == "idle"
			})
			claudeTurn(r, "continue (p3)")
		}),
		"compact": tty(nil, func(r *run) {
			claudeTurn(r, "hello (p1)")
			claudeTurn(r, "hello again (p2)")
			r.types("/compact\r")
			r.await("the compaction", func() bool {
				return r.transcripts(claudeCompacted) == 1 && claudeRegistry().Status == "idle"
			})
			claudeTurn(r, "continue (p3)")
		}),
		"auto-compaction": tty([]mock.Reply{mock.Says("hi"), mock.Says("noted").Using(70_000), mock.Says("still here")}, func(r *run) {
			claudeTurn(r, "hello (p1)")
			claudeTurn(r, "read a lot (p2)")
			claudeTurn(r, "continue (p3)")
			r.await("the compaction", func() bool { return r.transcripts(claudeCompacted) == 1 })
		}, "CLAUDE_CODE_AUTO_COMPACT_WINDOW=100000"),
		"clear": tty(nil, func(r *run) {
			claudeTurn(r, "hello (p1)")
			claudeClear(r)
			claudeTurn(r, "hello again (p2)")
		}),
	})
}

func TestCodexAccounts(t *testing.T) {
	rollouts := each(codex.records)
	tty := func(replies []mock.Reply, script func(r *run), args ...string) account {
		return account{read: rollouts, reported: []mock.Kind{mock.Compaction}, story: story{harness: codex, tty: true, argv: codexArgs(args...), replies: replies,
			script: func(r *run) {
				codexReady(r)
				script(r)
				codexSends(r, "/quit")
			}}}
	}
	printed := account{read: rollouts, reported: []mock.Kind{mock.Compaction}, story: story{harness: codex, argv: codexExec("look (p1)")}}
	tool, again, midTurn, resumed := printed, printed, printed, printed
	tool.replies = []mock.Reply{mock.Runs("echo one"), mock.Runs("echo two"), mock.Says("done")}
	again.replies = []mock.Reply{mock.Fails(500), mock.Says("better")}
	again.argv = codexExec("-c", `model_providers.mock={name="mock",base_url="http://127.0.0.1:8787/v1",env_key="MOCK_KEY",wire_api="responses",request_max_retries=3,stream_max_retries=0}`, "look (p1)")
	midTurn.argv = codexExec("-c", "model_context_window=100000", "look (p1)")
	midTurn.replies = []mock.Reply{mock.Runs("echo hi").Using(92_000), mock.Says("done")}
	resumed.earlier = [][]string{codexExec("one (p1)")}
	resumed.argv = codexExecResume("--last", "two (p2)")

	playAccounts(t, map[string]account{
		"exec: tools":                    tool,
		"exec: an error that passes":     again,
		"exec: auto-compaction mid-turn": midTurn,
		"exec: an earlier session":       resumed,
		"tools, and an error": tty([]mock.Reply{mock.Runs("echo hi"), mock.Says("done"), mock.Fails(500), mock.Says("better")}, func(r *run) {
			codexTurn(r, "run it (p1)")
			codexTurn(r, "again (p2)")
			codexTurn(r, "and again (p3)")
		}),
		"Esc while the model answers": tty([]mock.Reply{mock.Says("one"), hanging(), mock.Says("back")}, func(r *run) {
			codexTurn(r, "hello (p1)")
			codexSends(r, "tell me (p2)")
			r.await("the question", func() bool { return r.codexState() == "working" && r.modelSaw("(p2)") == 1 })
			r.types("\x1b")
			codexRecords(r, 1, "turn_aborted")
			codexTurn(r, "continue (p3)")
		}),
		"compact": tty(nil, func(r *run) {
			codexTurn(r, "hello (p1)")
			codexSends(r, "/compact")
			codexRecords(r, 2, "task_complete")
			codexTurn(r, "continue (p2)")
		}),
		"auto-compaction": tty([]mock.Reply{mock.Says("noted").Using(92_000), mock.Says("still here")}, func(r *run) {
			codexTurn(r, "read a lot (p1)")
			codexTurn(r, "continue (p2)")
		}, "-c", "model_context_window=100000"),
		"clear": tty(nil, func(r *run) {
			codexTurn(r, "hello (p1)")
			codexClears(r)
			codexTurn(r, "hello again (p2)")
		}),
	})
}

func TestGeminiAccounts(t *testing.T) {
	chats := each(gemini.records)
	// Gemini CLI's own telemetry has the calls outside the conversation.
	withTelemetry := func(w *world) [][]string {
		files := inOrder(w.t, gemini.records)
		require.Len(w.t, files, 1)
		return [][]string{{files[0], "telemetry=/home/dev/telemetry.log"}}
	}
	compacted := func(a account) account {
		a.read, a.reported, a.unread = withTelemetry, []mock.Kind{mock.Compaction}, []mock.Kind{mock.Compaction}
		return a
	}
	tty := func(replies []mock.Reply, script func(r *run)) account {
		return account{read: chats, endless: true, story: story{harness: gemini, tty: true, argv: geminiArgs(), replies: replies,
			script: func(r *run) {
				geminiReady(r)
				script(r)
				geminiQuits(r)
			}}}
	}
	printed := account{read: chats, endless: true, story: story{harness: gemini, argv: geminiArgs("-p", "look (p1)")}}
	tool, resumed := printed, printed
	tool.replies = []mock.Reply{mock.Runs("echo one"), mock.Runs("echo two"), mock.Says("done")}
	resumed.silent = true // the wrapper cannot know which chat is the latest
	resumed.earlier = [][]string{geminiArgs("-p", "one (p1)")}
	resumed.argv = geminiArgs("--resume", "latest", "-p", "two (p2)")

	playAccounts(t, map[string]account{
		"print: tools":              tool,
		"print: an earlier session": resumed,
		"tools, and an error": tty([]mock.Reply{mock.Runs("echo hi"), mock.Says("done"), mock.Fails(400), mock.Says("better")}, func(r *run) {
			geminiTurn(r, "run it (p1)")
			geminiTurn(r, "again (p2)")
			geminiTurn(r, "and again (p3)")
		}),
		"Esc while the model answers": tty([]mock.Reply{mock.Says("one"), hanging(), mock.Says("back")}, func(r *run) {
			geminiTurn(r, "hello (p1)")
			geminiInterrupted(r, "tell me (p2)")
			geminiTurn(r, "continue (p3)")
		}),
		"compact": compacted(tty([]mock.Reply{mock.Runs("echo hi"), mock.Says("It says hi."), mock.Says("Well, hello again.")}, func(r *run) {
			geminiTurn(r, "run it (p1)")
			geminiTurn(r, "hello again (p2)")
			geminiCompacts(r)
			geminiTurn(r, "continue (p3)")
		})),
		"auto-compaction": compacted(tty([]mock.Reply{mock.Says("hi"), mock.Says("noted").Using(600_000), mock.Says("still here")}, func(r *run) {
			geminiTurn(r, "hello (p1)")
			geminiTurn(r, "read a lot (p2)")
			geminiTurn(r, "continue (p3)")
		})),
		"clear": tty(nil, func(r *run) {
			geminiTurn(r, "hello (p1)")
			before := len(r.sessions())
			sendsPatiently(r, "/clear", func() bool { return len(r.sessions()) > before })
			geminiTurn(r, "hello again (p2)")
		}),
	})
}

// geminiCompacts compresses the conversation by command.
func geminiCompacts(r *run) {
	r.t.Helper()
	calls := func() int { return len(r.model.Calls()) }
	before := calls()
	sendsPatiently(r, "/compress", func() bool { return calls() > before })
	r.await("the compression", func() bool {
		return r.modelRests() && strings.Contains(r.title(), "Ready") && r.chats(`<state_snapshot>`)
	})
}

// chats reports whether a chat of Gemini CLI contains a text.
func (w *world) chats(text string) bool {
	return slices.ContainsFunc(inOrder(w.t, gemini.records), func(f string) bool {
		data, err := os.ReadFile(f)
		return err == nil && strings.Contains(string(data), text)
	})
}
func TestOpencodeAccounts(t *testing.T) {
	store := func(w *world) [][]string { return [][]string{{filepath.Join(home, w.harness.records)}} }
	tty := func(replies []mock.Reply, script func(r *run)) account {
		return account{read: store, reported: []mock.Kind{mock.Compaction}, story: story{harness: opencode, tty: true, argv: opencodeArgs(), replies: replies,
			script: func(r *run) {
				opencodeReady(r)
				script(r)
				opencodeQuits(r)
			}}}
	}
	// `opencode run` may exit before it writes the end of its turn into the store.
	printed := account{read: store, reported: []mock.Kind{mock.Compaction}, endless: true, story: story{harness: opencode, argv: []string{"opencode", "run", "look-(p1)"}}}
	tool, again, resumed := printed, printed, printed
	tool.replies = []mock.Reply{mock.Runs("echo one"), mock.Runs("echo two"), mock.Says("done")}
	again.replies = []mock.Reply{mock.Fails(503), mock.Says("better")}
	resumed.earlier = [][]string{{"opencode", "run", "one-(p1)"}}
	resumed.argv = []string{"opencode", "run", "-c", "two-(p2)"}

	playAccounts(t, map[string]account{
		"run: tools":                tool,
		"run: an error that passes": again,
		"run: an earlier session":   resumed,
		"tools, and an error": tty([]mock.Reply{mock.Runs("echo hi"), mock.Says("done"), mock.Fails(400), mock.Says("better")}, func(r *run) {
			opencodeTurn(r, "run it (p1)")
			opencodeTurn(r, "again (p2)")
			opencodeTurn(r, "and again (p3)")
		}),
		"Esc while the model answers": tty([]mock.Reply{mock.Says("one"), hanging(), mock.Says("back")}, func(r *run) {
			opencodeTurn(r, "hello (p1)")
			opencodeInterrupted(r, "tell me (p2)")
			opencodeTurn(r, "continue (p3)")
		}),
		"compact": tty(nil, func(r *run) {
			opencodeTurn(r, "hello (p1)")
			before := len(r.model.Calls())
			sendsPatiently(r, "/compact", func() bool { return len(r.model.Calls()) > before })
			r.await("the compaction", func() bool { return r.modelRests() && opencodeIdle() })
			opencodeTurn(r, "continue (p2)")
		}),
		"auto-compaction": tty([]mock.Reply{mock.Says("hi"), mock.Says("noted").Using(195_000), mock.Says("still here"), mock.Says("on")}, func(r *run) {
			opencodeTurn(r, "hello (p1)")
			opencodeTurn(r, "read a lot (p2)")
			opencodeTurn(r, "continue (p3)")
		}),
	})
}
