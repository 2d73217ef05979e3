// OpenCode loads this file from its plugin folder. It reports each prompt, each end
// of a turn and each compaction to a program, and passes that program's text on to
// the model. It imports nothing that would have to be installed, never throws, and
// waits for no call longer than patience. lifeloop-wrap neither updates nor removes
// this file after it was edited by hand.
import { spawn } from "node:child_process"

const exe = "EXE"
const patience = 5000 // milliseconds, from the event to the end of its call

let queue = Promise.resolve("") // one call after the other, in the order of events
const turns = new Map() // session → the message that began its turn
const errors = new Map() // session → the error that may have ended its turn
const ends = new Map() // session → how its newest answer ended
const busy = new Set() // sessions that answer
const children = new Set() // sessions of sub-agents

const call = (event, input, cwd, wait) =>
  new Promise((resolve) => {
    if (wait <= 0) return resolve("")
    try {
      const child = spawn(exe, ["hook", "--host", "opencode", event], { cwd, stdio: ["pipe", "pipe", "ignore"] })
      const late = setTimeout(() => {
        child.kill("SIGKILL")
        child.stdout.destroy() // what it left behind may hold the other end
        resolve("")
      }, wait)
      late.unref?.()
      let said = ""
      child.stdout.on("data", (chunk) => (said += chunk))
      child.stdin.on("error", () => {})
      child.on("error", () => resolve(""))
      child.on("close", (code) => {
        clearTimeout(late)
        resolve(code === 0 ? said : "")
      })
      child.stdin.end(JSON.stringify({ session_id: input.session, hook_event_name: event, turn_id: input.turn, error: input.error }))
    } catch {
      resolve("")
    }
  })

const tell = (event, input, cwd) => {
  const until = Date.now() + patience
  queue = queue.then(() => call(event, input, cwd, until - Date.now()))
  return queue
}

export const Lifeloop = async ({ directory }) => {
  if (process.env.LIFELOOP_SOCKET) return {} // a wrapper around OpenCode hears for itself
  return {
    event: async ({ event }) => {
      try {
        const p = event.properties ?? {}
        const session = p.sessionID
        if (!session) return
        if (event.type === "session.created" && p.info?.parentID) children.add(session)
        if (children.has(session)) return
        switch (event.type) {
          case "session.created":
          case "session.compacted":
            tell(event.type, { session, turn: turns.get(session) }, directory)
            break
          case "session.error":
            errors.set(session, p.error?.name ?? "UnknownError")
            break
          case "session.status": // it went on behind the error
            if (p.status?.type !== "busy") break
            errors.delete(session)
            busy.add(session)
            break
          case "message.updated":
            if (p.info?.role === "assistant" && p.info.time?.completed) ends.set(session, p.info.finish ?? "cut off")
            break
          case "session.idle": // twice behind an error
            // An answer that was cut off while it waited, or before it went on with its tools, leaves no error.
            const cut = ["cut off", "tool-calls"].includes(ends.get(session)) ? "MessageAbortedError" : undefined
            if (turns.has(session)) tell(event.type, { session, turn: turns.get(session), error: errors.get(session) ?? cut }, directory)
            turns.delete(session)
            errors.delete(session)
            busy.delete(session)
        }
      } catch {}
    },
    "chat.message": async (input, output) => {
      try {
        const session = input.sessionID
        const { id, role } = output.message
        if (role !== "user" || children.has(session)) return
        if (busy.has(session) && turns.has(session)) return // it is answered in the running turn
        turns.set(session, id)
        errors.delete(session)
        ends.delete(session)
        const said = await tell("chat.message", { session, turn: id }, directory)
        const text = said && JSON.parse(said).context
        if (typeof text !== "string" || text === "") return
        // Parts are read in the order of their ids: this one is the last.
        const part = "prt_z" + Date.now().toString(16) + "lifeloop"
        output.parts.push({ id: part, sessionID: session, messageID: id, type: "text", text, synthetic: true })
      } catch {}
    },
    dispose: async () => {
      await queue
    },
  }
}
