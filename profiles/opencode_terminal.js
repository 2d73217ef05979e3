// OpenCode's terminal interface loads this file for one launch. It sends what
// happens in the sessions to the wrapper: ids, states, names and numbers, and no
// text. On request it begins a fresh session, shows it, and puts a text into it. It
// imports nothing that would have to be installed and never throws.
import { readFileSync } from "node:fs"
import net from "node:net"

const socket = "SOCKET"
const keyFile = "KEY"
const attached = "ATTACHED" === "yes" // to a server that may have other users

const kinds = [
  "session.created", "session.updated", "session.deleted", "session.status", "session.idle", "session.error",
  "session.compacted", "message.updated", "message.part.updated", "permission.asked", "permission.replied",
  "question.asked", "question.replied", "question.rejected",
]

const pick = (from, ...names) => Object.fromEntries(names.filter((n) => from?.[n] !== undefined).map((n) => [n, from[n]]))

const session = (i) => pick(i, "id", "parentID", "directory", "version", "model", "time")

const message = (i) => ({
  ...pick(i, "id", "role", "parentID", "mode", "agent", "modelID", "providerID", "finish", "summary", "time", "tokens"),
  ...(i.role === "user" ? { summary: undefined } : {}),
  ...(i.error ? { error: failure(i.error) } : {}),
})

const failure = (e) => ({ ...pick(e, "name"), data: pick(e?.data, "statusCode") })

const part = (p) => ({
  ...pick(p, "messageID", "type", "synthetic", "auto", "callID", "tool"),
  ...(p.state ? { state: pick(p.state, "status") } : {}),
})

// bare leaves out what the wrapper does not read.
const bare = (kind, p) => {
  const out = pick(p, "sessionID")
  if (p.info) out.info = kind.startsWith("session.") ? session(p.info) : message(p.info)
  if (p.part) out.part = part(p.part)
  if (p.status) out.status = pick(p.status, "type", "next")
  if (p.error) out.error = failure(p.error)
  if (typeof p.permission === "string") out.permission = p.permission
  return out
}

const pause = (ms) => new Promise((done) => { setTimeout(done, ms).unref?.() })

// resets returns the function that carries out the wrapper's requests. shown returns the
// session on the screen, and write sends a record.
const resets = (api, shown, write) => {
  const stopped = new Set()
  const rests = (id) =>
    (api.state?.session?.status(id)?.type ?? "idle") === "idle" && !api.state?.session?.permission?.(id)?.length && !api.state?.session?.question?.(id)?.length
  const show = (id) => (id ? api.route.navigate("session", { sessionID: id }) : api.route.navigate("home"))

  // A turn of the old session would go on in the background, so a session in which one
  // runs is not left.
  const fresh = async (id) => {
    const from = shown()
    const busy = () => from && !rests(from)
    if (busy()) return { busy: true }
    const sessionID = (await api.client.session.create({}))?.data?.id
    if (!sessionID) return { failure: "not_created" }
    let out = { failure: "stopped" }
    try {
      if (busy()) out = { busy: true }
      else if (!stopped.has(id)) {
        show(sessionID)
        for (let i = 0; i < 150 && shown() !== sessionID; i++) await pause(20)
        out = shown() !== sessionID ? { failure: "not_shown" } : busy() ? { busy: true } : stopped.has(id) ? { failure: "stopped" } : {}
      }
      if (!out.busy && !out.failure) return { sessionID }
      if (shown() === sessionID) show(from)
    } catch {
      out = { failure: "not_shown" }
    }
    await api.client.session.delete({ sessionID })
    return { ...out, sessionID }
  }

  // The message gets no answer, and is not drawn. It must come before the first prompt.
  const place = async (sessionID, text) => {
    if (!rests(sessionID) || api.state?.session?.messages(sessionID)?.length) return { failure: "too_late" }
    const made = await api.client.session.prompt({ sessionID, noReply: true, parts: [{ type: "text", text, synthetic: true }] })
    return made?.data ? {} : { failure: "not_accepted" }
  }

  return async (line) => {
    const { op, id, sessionID, text } = JSON.parse(line)
    const reply = async (kind, act) => write(kind, { id, ...(await act.catch(() => ({ failure: "error" }))) })
    if (op === "stop") stopped.add(id)
    if (op === "fresh") await reply("fresh", fresh(id))
    if (op === "place") await reply("placed", place(sessionID, text))
  }
}

export default {
  id: "lifeloop",
  tui: async (api) => {
    try {
      const out = net.connect(socket)
      let open = true
      const stop = () => (open = false)
      out.on("error", stop)
      out.on("close", stop)
      out.unref()
      const write = (k, o) => open && out.write(JSON.stringify({ k, t: Date.now(), o }) + "\n")
      const shown = () => {
        const r = api.route?.current
        return r?.name === "session" ? r.params?.sessionID : undefined
      }
      out.write(JSON.stringify({ op: "stream", key: readFileSync(keyFile, "utf8"), event: "plugin", bytes: 0 }) + "\n")
      write("init", { sessionID: shown(), version: api.app?.version })
      if (!attached) {
        const carryOut = resets(api, shown, write)
        let rest = ""
        out.setEncoding("utf8")
        out.on("data", (text) => {
          const lines = (rest + text).split("\n")
          rest = lines.pop()
          for (const line of lines) carryOut(line).catch(() => {})
        })
      }

      const ours = new Set() // sessions that were shown, and those of their sub-agents
      const aside = [] // events of sessions that were not shown yet
      const isOurs = (id, info) => {
        const now = shown()
        if (now) ours.add(now)
        if (info?.parentID && ours.has(info.parentID)) ours.add(id)
        return !attached || ours.has(id)
      }

      const windows = new Map() // session → the window that was sent
      const limit = (id, info) => {
        if (info?.role !== "assistant" || info.summary) return
        const model = api.state?.provider?.find((p) => p.id === info.providerID)?.models?.[info.modelID]
        const context = model?.limit?.context
        if (!context || windows.get(id) === context) return
        windows.set(id, context)
        write("chat.params", { sessionID: id, agent: info.agent, model: { limit: { context } } })
      }

      const send = (kind, event, p) => {
        if (kind === "message.updated") limit(p.sessionID, p.info)
        write("event", { ...pick(event, "id"), type: kind, properties: bare(kind, p) })
      }
      const flush = () => {
        for (let i = 0; i < aside.length; ) {
          const [kind, event, p] = aside[i]
          if (isOurs(p.sessionID, p.info)) aside.splice(i, 1), send(kind, event, p)
          else i++
        }
        if (aside.length > 0) later()
      }
      let timer
      const later = () => {
        clearTimeout(timer)
        timer = setTimeout(() => { try { flush() } catch {} }, 50)
        timer.unref?.()
      }

      // A prompt of the command line may have been sent before this plugin was loaded.
      const running = shown()
      if (running && (api.state?.session?.status(running)?.type ?? "idle") !== "idle") {
        const all = api.state.session.messages(running) ?? []
        const from = all.findLastIndex((m) => m.role === "user")
        for (const info of from < 0 ? [] : all.slice(from)) {
          send("message.updated", {}, { sessionID: running, info })
          if (info.role === "user") send("message.part.updated", {}, { sessionID: running, part: { messageID: info.id, type: "text" } })
        }
      }

      for (const kind of kinds) {
        api.event.on(kind, (event) => {
          try {
            const p = event.properties ?? {}
            if (!p.sessionID) return
            if (isOurs(p.sessionID, p.info)) {
              flush() // what came before its session was shown
              return send(kind, event, p)
            }
            if (aside.push([kind, event, p]) > 200) aside.shift()
            later()
          } catch {}
        })
      }
    } catch {}
  },
}
