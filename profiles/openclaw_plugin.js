// OpenClaw loads this file for one launch. It reports the turns of one session at a
// time to the wrapper, adds payloads to prompts, and under a policy asks before each
// tool call. In a gateway it resets that session on request. Reports have ids,
// states, names and numbers, and the arguments and results of tools; the wrapper keeps
// only the digests of those. This file imports nothing that would have to be installed,
// and never makes a turn fail.
import { spawnSync } from "node:child_process"
import { readFileSync, rmSync } from "node:fs"
import net from "node:net"

const socket = "SOCKET"
const keyFile = "KEY"
const limit = "LIMIT" // milliseconds, from a question about a tool to the end of its answer; 0 without a policy
const hook = "HOOK" // the program that reports what the end of the process cuts off
const resets = "RESETS" // whether this launch is a gateway, whose sessions can be reset on request
const lock = "LOCK" // the file that OpenClaw creates for the path of our configuration, in two parts

const patience = 6000 // milliseconds for any other exchange
const spare = 12000 // how much longer OpenClaw waits
const largest = 1 << 20 // bytes of the arguments or the result of a tool that are sent without a policy

const unanswered = "lifeloop-wrap: the gate did not answer, so this tool call is denied"

// OpenClaw registers a plugin several times in one process. All share one state.
const state = (globalThis[Symbol.for("lifeloop-wrap")] ??= {
  last: Promise.resolve(), // the newest report; reports are sent one after another
  unsent: [], // reports that were not written yet
  lost: false, // the wrapper's socket is gone
  session: "", // the session that is reported
  key: "", // its key in the gateway
  run: "", // its open turn
  prompt: undefined, // the run, the number of earlier messages and the context of the newest prompt
  reason: "", // why the session has ended, for the session that follows it
  held: new Map(), // session → context for its start, which its next prompt carries
  seen: new Set(), // sessions that were reported
  aside: new Map(), // runs that are not turns of the session, with their purpose
  windows: new Map(), // session → context window
  exits: false, // the exit of the process is awaited
  fault: "", // how the newest model call of the turn failed
  port: 0, // of the gateway
  requests: undefined, // the connection on which the wrapper sends its requests
  stopped: new Set(), // requests that the wrapper has given up
  asked: "", // the session that is being reset on request
  begun: "", // the session that this reset has begun
  fresh: "", // a session that was reset on request, until its next prompt asks for its context
})

// exchange sends one call and returns the wrapper's answer. It rejects if there is
// none. A report gets no answer; the wrapper closes the connection once it has read it.
const exchange = (op, event, input, time, written = () => {}) =>
  new Promise((resolve, reject) => {
    const body = Buffer.from(JSON.stringify({ hook_event_name: event, ...input }))
    const line = JSON.stringify({ op, key: readFileSync(keyFile, "utf8"), event, bytes: body.length }) + "\n"
    const conn = net.connect(socket)
    const late = setTimeout(() => conn.destroy(new Error("late")), time)
    let got = Buffer.alloc(0)
    conn.on("connect", () => conn.write(Buffer.concat([Buffer.from(line), body]), written))
    conn.on("data", (piece) => {
      got = Buffer.concat([got, piece])
      const end = got.indexOf("\n")
      if (end < 0) return
      const size = /^\{"bytes":(\d+)[,}]/.exec(got.subarray(0, end).toString())?.[1]
      if (size === undefined) return conn.destroy(new Error("refused"))
      if (got.length < end + 1 + Number(size)) return
      clearTimeout(late)
      resolve(got.subarray(end + 1, end + 1 + Number(size)).toString())
      conn.end("ok\n")
    })
    conn.on("error", (error) => (clearTimeout(late), reject(error)))
    conn.on("close", () => (clearTimeout(late), op === "tell" ? resolve("") : reject(new Error("no answer"))))
  })

// send sends a call after all earlier ones. It never rejects.
const send = (op, event, input) => {
  const item = { event, input }
  const written = () => (state.unsent = state.unsent.filter((other) => other !== item))
  if (op === "tell") state.unsent.push(item)
  const work = async () => {
    try {
      if (!state.lost) return await exchange(op, event, input, patience, written)
    } catch (error) {
      state.lost = error?.code === "ENOENT" || error?.code === "ECONNREFUSED"
    } finally {
      written()
    }
    return ""
  }
  return (state.last = state.last.then(work, work))
}

const report = (event, input) => send("tell", event, input)

// context asks for the text that the model shall read.
const context = async (event, input) => {
  try {
    const text = JSON.parse(await send("hook", event, input)).context
    return typeof text === "string" ? text : ""
  } catch {
    return ""
  }
}

// hold asks for the context of the start of a session and keeps it for the session's next
// prompt, behind what is still kept: the wrapper counts that as delivered.
const hold = async (from, input, event = "session_start") => {
  const text = await context(event, input)
  const kept = [state.held.get(from), text].filter(Boolean).join("\n\n")
  state.held.delete(from)
  if (kept) state.held.set(input.session_id, kept)
}

const byUser = (c) => !c.trigger || c.trigger === "user" || c.trigger === "manual"
const subagent = (c) => /:subagent:/.test(c.sessionKey ?? "")
const of = (e, c) => ({ session_id: c.sessionId ?? e.sessionId, turn_id: c.runId ?? e.runId })

// mine reports whether a call belongs to the newest turn of the session that is reported.
const mine = (e, c) => {
  const { session_id, turn_id } = of(e, c)
  return session_id === state.session && turn_id !== undefined && turn_id === state.prompt?.run
}

const aside = (run, purpose) => {
  if (state.aside.size > 1000) state.aside.clear()
  state.aside.set(run, purpose)
}

const turn = async (version, e, c) => {
  const { session_id, turn_id } = of(e, c)
  if (!session_id || !turn_id) return
  if (!byUser(c)) return aside(turn_id, c.trigger)
  if (subagent(c) || (state.run && state.session !== session_id)) return aside(turn_id, "")
  // A turn that is tried again builds its prompt again.
  if (state.prompt?.run === turn_id) return state.prompt.result
  const earlier = Array.isArray(e.messages) ? e.messages.length : 0
  if (session_id !== state.session) {
    state.fresh = ""
    const source = state.seen.has(session_id) || earlier > 0 ? "resume" : "startup"
    state.seen.add(session_id)
    state.session = session_id
    state.run = turn_id
    await hold(session_id, { session_id, source, version, cwd: c.workspaceDir })
  }
  state.key = c.sessionKey ?? ""
  state.run = turn_id
  listen()
  if (state.fresh === session_id) {
    state.fresh = ""
    await hold(session_id, { session_id }, "session_context")
  }
  state.fault = ""
  const text = await context("before_prompt_build", { session_id, turn_id })
  const first = state.held.get(session_id)
  const result = { ...(first && { prependContext: first }), ...(text && { appendContext: text }) }
  state.held.delete(session_id)
  state.prompt = { run: turn_id, earlier, result }
  return result
}

// call returns what the wrapper reads of an answer of the model.
const call = (m) => ({
  role: m.role, stopReason: m.stopReason, responseId: m.responseId, provider: m.provider, model: m.model,
  usage: m.usage && { input: m.usage.input, output: m.usage.output, cacheRead: m.usage.cacheRead, cacheWrite: m.usage.cacheWrite, reasoning: m.usage.reasoning },
  __openclaw: { runId: m.__openclaw?.runId },
})

const ended = (e, c) => {
  const { session_id, turn_id } = of(e, c)
  const side = state.aside.get(turn_id) // the purpose of a run that is not a turn of the user
  if (session_id !== state.session || side === "" || (side === undefined && !mine(e, c))) return
  const all = Array.isArray(e.messages) ? e.messages : []
  const from = state.prompt?.run === turn_id && state.prompt.earlier <= all.length ? state.prompt.earlier : 0
  const messages = all.slice(from).filter((m) => m?.role === "assistant").slice(-200).map(call)
  if (state.run === turn_id) state.run = ""
  return report("agent_end", { session_id, turn_id, side, success: e.success === true, error: state.fault, contextTokenBudget: state.windows.get(session_id), messages })
}

const small = (value) => {
  const text = JSON.stringify(value)
  return text !== undefined && text.length <= largest ? value : undefined
}

const tool = async (e, c) => {
  const known = mine(e, c)
  const input = { session_id: c.sessionId ?? c.sessionKey ?? "unknown", turn_id: c.runId ?? e.runId, tool_name: e.toolName, tool_use_id: e.toolCallId ?? c.toolCallId }
  if (limit === 0) {
    if (known) report("before_tool_call", { ...input, tool_input: small(e.params) })
    return
  }
  let answer = ""
  try {
    await state.last
    answer = await exchange("hook", "before_tool_call", { ...input, tool_input: e.params, aside: !known }, limit)
  } catch {}
  // OpenClaw uses the arguments that the question named, whatever another
  // plugin has changed.
  if (answer === "pass\n") return { params: e.params }
  let reason
  try {
    reason = JSON.parse(answer).reason
  } catch {}
  return { block: true, blockReason: typeof reason === "string" && reason !== "" ? reason : unanswered }
}

// leave runs when the process exits, which may be right after the end of a turn.
const leave = () => {
  try {
    for (const { event, input } of state.lost ? [] : state.unsent)
      spawnSync(hook[0], [...hook.slice(1), event], { input: JSON.stringify({ hook_event_name: event, ...input }), stdio: ["pipe", "ignore", "ignore"], timeout: patience })
    for (const end of ["", "-journal", "-wal", "-shm"]) rmSync(lock[0] + process.getuid() + "/" + lock[1] + end, { force: true })
  } catch {}
}

// begun reports a session that a reset on request has begun, once. Unlike another
// reset, it asks for no context yet: its next prompt does, so that the wrapper knows
// whether a model reads it.
const begun = (from, to) => {
  if (state.begun) return
  state.begun = state.fresh = state.session = to
  state.seen.add(to)
  const kept = state.held.get(from)
  state.held.delete(from)
  if (kept) state.held.set(to, kept)
  return report("session_reset", { session_id: to, source: "clear" })
}

// reset lets the gateway reset the session that is reported, by the method that its
// control clients use. A session with a run is not reset: that would end the run. One
// that begins between the question and the reset is not noticed.
const reset = async (id) => {
  const { session, key, port } = state
  if (!session || !key || !port) return { failure: "no_session" }
  if (state.run || state.asked) return { busy: true }
  state.asked = session
  state.begun = ""
  try {
    const { callGatewayFromCli } = await import("openclaw/plugin-sdk/gateway-runtime")
    const ask = (method, params, timeout) => callGatewayFromCli(method, { port: String(port), timeout: String(timeout), json: true }, params, { progress: false })
    let listed
    try {
      listed = await ask("sessions.list", { search: key, includeGlobal: true, includeUnknown: true }, 4000)
    } catch (error) {
      if (error?.kind === "timeout") return { busy: true } // other sessions may keep the gateway busy, and nothing was done
      throw error
    }
    const found = listed.sessions?.find((s) => s.key === key)
    if (found?.sessionId !== session) return { failure: "not_found" }
    if (found.hasActiveRun || state.run) return { busy: true }
    if (state.stopped.has(id)) return { failure: "stopped" }
    const made = await ask("sessions.reset", { key, expectedSessionId: session }, 14000) // the wrapper's limit comes first
    await begun(session, made.entry?.sessionId ?? session)
    return {}
  } catch (error) {
    return state.begun ? {} : { failure: /Credentials|SecretRef|ExplicitAuth/.test(error?.name) ? "no_credentials" : "not_accepted" }
  } finally {
    state.asked = state.reason = ""
  }
}

// listen connects to the wrapper for its requests, once.
const listen = () => {
  if (!resets || state.requests || !state.port) return
  const conn = (state.requests = net.connect(socket))
  conn.unref()
  conn.on("error", () => {})
  conn.write(JSON.stringify({ op: "stream", key: readFileSync(keyFile, "utf8"), event: "plugin", bytes: 0 }) + "\n")
  let rest = ""
  conn.setEncoding("utf8")
  conn.on("data", async (text) => {
    const lines = (rest + text).split("\n")
    rest = lines.pop()
    for (const line of lines) {
      const { op, id } = JSON.parse(line)
      if (op === "stop") state.stopped.add(id)
      if (op === "fresh") reset(id).then((o) => conn.writable && conn.write(JSON.stringify({ k: op, o: { id, ...o } }) + "\n"))
    }
  })
}

const handlers = (version) => ({
  ...(resets && {
    gateway_start: (e) => {
      state.port = e.port
      listen()
    },
  }),
  before_prompt_build: (e, c) => turn(version, e, c),
  model_call_started: (e, c) => {
    if (!mine(e, c)) return
    const window = e.contextTokenBudget ?? c.contextTokenBudget
    if (window > 0) state.windows.set(state.session, window)
    return report("model_call_started", { ...of(e, c), model: e.model, contextTokenBudget: window })
  },
  model_call_ended: (e, c) => {
    if (!mine(e, c)) return
    state.fault = e.outcome === "error" ? (e.failureKind ?? e.errorCategory ?? "error") : ""
    if (state.fault) return report("model_call_ended", { ...of(e, c), error: state.fault })
  },
  before_tool_call: tool,
  after_tool_call: (e, c) => {
    if (!mine(e, c)) return
    return report("after_tool_call", { ...of(e, c), tool_name: e.toolName, tool_use_id: e.toolCallId, tool_response: small(e.result), failed: e.error != null })
  },
  before_agent_finalize: async (e, c) => {
    if (mine(e, c)) await report("before_agent_finalize", of(e, c))
  },
  agent_end: ended,
  before_compaction: (e, c) => (c.sessionId === state.session ? report("before_compaction", { session_id: c.sessionId }) : undefined),
  after_compaction: (e, c) => (c.sessionId === state.session ? report("after_compaction", { session_id: c.sessionId }) : undefined),
  session_end: (e) => {
    if (!state.session || e.sessionId !== state.session) return
    state.reason = e.nextSessionId ? (e.reason ?? "unknown") : ""
    state.run = ""
    if (e.nextSessionId) return // the next session shows the change
    state.session = ""
    return report("session_end", { session_id: e.sessionId, reason: e.reason })
  },
  session_start: async (e) => {
    if (!state.reason || e.resumedFrom !== state.session) return
    if (state.asked === e.resumedFrom) {
      state.reason = ""
      return begun(e.resumedFrom, e.sessionId)
    }
    state.fresh = ""
    const source = state.reason === "compaction" ? "compact" : "clear"
    state.reason = ""
    state.session = e.sessionId
    state.seen.add(e.sessionId)
    await hold(e.resumedFrom, { session_id: e.sessionId, source, version })
  },
})

export default {
  id: "lifeloop-wrap",
  name: "lifeloop-wrap",
  register(api) {
    if (!state.exits) {
      state.exits = true
      process.once("exit", leave)
    }
    const longest = { before_tool_call: limit, before_prompt_build: 3 * patience }
    for (const [hook, handler] of Object.entries(handlers(api.runtime?.version))) {
      const quiet = async (e, c) => {
        try {
          return await handler(e ?? {}, c ?? {})
        } catch {
          if (hook === "before_tool_call" && limit > 0) return { block: true, blockReason: unanswered }
        }
      }
      // Of several plugins, ours is asked last, about the call as it will be.
      api.on(hook, quiet, { priority: -1e9, timeoutMs: (longest[hook] || patience) + spare })
    }
  },
}
