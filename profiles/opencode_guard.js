// OpenCode's server loads this file for one launch under a policy. Before each call
// of a tool it asks the wrapper whether the call may run, and throws unless it is
// allowed: OpenCode then refuses the call, and the model reads the reason. It imports nothing that would have to be installed.
import { readFileSync } from "node:fs"
import net from "node:net"

const socket = "SOCKET"
const keyFile = "KEY"
const limit = "LIMIT" // milliseconds, from the question to the end of its answer
const theirs = "THEIRS" // the user's own values of the variables that this launch sets; null without one

const unanswered = "lifeloop-wrap: the gate did not answer, so this tool call is denied"

// ask returns the answer of the wrapper. It rejects if there is none.
const ask = (event, input) =>
  new Promise((resolve, reject) => {
    const body = Buffer.from(JSON.stringify(input))
    const line = JSON.stringify({ op: "hook", key: readFileSync(keyFile, "utf8"), event, bytes: body.length }) + "\n"
    const conn = net.connect(socket)
    const late = setTimeout(() => conn.destroy(new Error("late")), limit)
    let got = Buffer.alloc(0)
    conn.on("connect", () => conn.write(Buffer.concat([Buffer.from(line), body])))
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
    const fail = (error) => (clearTimeout(late), reject(error ?? new Error("no answer")))
    conn.on("error", fail)
    conn.on("close", () => fail())
  })

// freeze makes OpenCode use the arguments that the question named, whatever a
// plugin after this one does.
const freeze = (value) => {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return
  Object.freeze(value)
  Object.values(value).forEach(freeze)
}

export const LifeloopGuard = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    let answer = ""
    try {
      freeze(output.args)
      const event = "tool.execute.before"
      answer = await ask(event, { session_id: input.sessionID, hook_event_name: event, tool_name: input.tool, tool_use_id: input.callID, tool_input: output.args, cwd: directory })
    } catch {}
    if (answer === "pass\n") return
    let reason
    try {
      reason = JSON.parse(answer).reason
    } catch {}
    throw new Error(typeof reason === "string" && reason !== "" ? reason : unanswered)
  },
  // What this launch sets is not for the programs that tools start.
  "shell.env": async (_, output) => {
    for (const name in theirs) output.env[name] = theirs[name] ?? undefined
  },
  // Nor for the servers of tools, which may be started by npm.
  config: async (config) => {
    for (const server of Object.values(config.mcp ?? {})) {
      if (server?.type === "local") server.environment = { npm_config_offline: theirs.npm_config_offline ?? "", ...server.environment }
    }
  },
})
