package telemetry_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/telemetry/claude"
	"lifeloop/telemetry/codex"
	"lifeloop/telemetry/gemini"
	"lifeloop/telemetry/openclaw"
	"lifeloop/telemetry/opencode"
)

type toolUse struct {
	dialect     telemetry.Dialect
	event, tool string
	input       string
	want        string
}

// TestToolUses checks the ToolUse that each hook reports for a tool call.
func TestToolUses(t *testing.T) {
	checkToolUses(t, []toolUse{
		{claude.Hooks{}, "PreToolUse", "Bash", `{"command":"ls","description":"d"}`, `[ls] [] [] ask`},
		{claude.Hooks{}, "PreToolUse", "Bash", `{}`, `[] [] [] opaque ask`},
		{claude.Hooks{}, "PreToolUse", "Write", `{"file_path":"/a","content":"path"}`, `[] [{/a write}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "Read", `{"file_path":"/a"}`, `[] [{/a read}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "NotebookEdit", `{"notebook_path":"/n"}`, `[] [{/n write}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "WebFetch", `{"url":"https://x.example"}`, `[] [] [https://x.example] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__files__put", `{"path":["/a","/b"]}`, `[] [{/a write} {/b write}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__files__put", `{"path":{"a":1}}`, `[] [] [] opaque ask`},
		{claude.Hooks{}, "PreToolUse", "Bash", `"ls"`, `[] [] [] opaque ask`},
		{claude.Hooks{}, "PreToolUse", "Grep", `{"pattern":".","glob":".env*"}`, `[] [{.env* match}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "Grep", `{"pattern":".","glob":"!.env*"}`, `[] [{!.env* match}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "PowerShell", `{"command":"Remove-Item x"}`, `[] [] [] opaque ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__fs__read_text_file", `{"path":"/a"}`, `[] [{/a read}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__fs__search_and_replace", `{"path":"/a"}`, `[] [{/a write}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__fs__move_file", `{"source":"/a","destination":"/b"}`, `[] [{/a delete} {/b write}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__fs__copy_file", `{"source":"/a","destination":"/b"}`, `[] [{/a read} {/b write}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__fs__write", `{"uri":"file:///a","target":"https://x.example"}`, `[] [{/a write}] [https://x.example] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__fs__write", `{"args":{"path":"/a"}}`, `[] [{/a write}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__fs__write", `{"files":[{"path":"/a"},{"path":"/b"}]}`, `[] [{/a write} {/b write}] [] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__sh__run", `{"command":"rm","args":["-r","/a"]}`, `['rm' '-r' '/a'] [] [] ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__sh__run", `{"script":"rm -rf /"}`, `[] [] [] opaque ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__py__run", `{"args":{"code":"import os\nos.remove('/x')"}}`, `[] [] [] opaque ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__py__run", `{"code":["a","f(x)"]}`, `[a] [] [] opaque ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__rates__get", `{"code":"USD"}`, `[USD] [] [] ask`},
		{claude.Hooks{}, "PreToolUse", "REPL", `{"code":"require('fs').rmSync('/x')"}`, `[] [] [] opaque ask`},
		{claude.Hooks{}, "PreToolUse", "mcp__sh__run", `{"command":"ls","shell":"pwsh"}`, `[] [] [] opaque ask`},
		{codex.Hooks{}, "PreToolUse", "write_stdin", `{"session_id":1,"chars":"rm -rf /\n"}`, `[] [] [] opaque`},
		{codex.Hooks{}, "PreToolUse", "write_stdin", `{"session_id":1,"chars":["rm"]}`, `[] [] [] opaque`},
		{codex.Hooks{}, "PreToolUse", "write_stdin", `{"session_id":1,"chars":"\u0003"}`, `[] [] []`},
		{codex.Hooks{}, "PreToolUse", "write_stdin", `{"session_id":1,"chars":"","yield_time_ms":1000}`, `[] [] []`},
		{codex.Hooks{}, "PreToolUse", "exec_command", `{"cmd":"ls","shell":"/bin/rm"}`, `[] [] [] opaque`},
		{codex.Hooks{}, "PreToolUse", "exec_command", `{"cmd":"ls","shell":"/bin/zsh","login":true}`, `[ls] [] []`},
		{codex.Hooks{}, "PreToolUse", "shell_command", `{"command":{"x":1}}`, `[] [] [] opaque`},
		{codex.Hooks{}, "PreToolUse", "local_shell", `{"action":{"type":"exec","command":["rm","a"]}}`, `['rm' 'a'] [] []`},
		{openclaw.Hooks{}, "before_tool_call", "process", `{"action":"write","sessionId":"s","data":"rm -rf /\n"}`, `[] [] [] opaque`},
		{openclaw.Hooks{}, "before_tool_call", "process", `{"action":"poll","sessionId":"s"}`, `[] [] []`},
		{codex.Hooks{}, "PreToolUse", "Bash", `{"command":"ls"}`, `[ls] [] []`},
		{codex.Hooks{}, "PreToolUse", "shell", `{"command":["rm","it's"],"workdir":"/w"}`, `['rm' 'it'\''s'] [] [] in /w`},
		{gemini.Hooks{}, "BeforeTool", "run_shell_command", `{"command":"ls","dir_path":"/w"}`, `[ls] [] [] in /w`},
		{gemini.Hooks{}, "BeforeTool", "write_file", `{"file_path":"a","content":"c"}`, `[] [{a write}] []`},
		{gemini.Hooks{}, "BeforeTool", "read_many_files", `{"include":["a","b"]}`, `[] [{a match} {b match}] []`},
		{opencode.Hooks{}, "tool.execute.before", "bash", `{"command":"ls","description":"d","workdir":"/w"}`, `[ls] [] [] in /w`},
		{opencode.Hooks{}, "tool.execute.before", "write", `{"filePath":"/a","content":"c"}`, `[] [{/a write}] []`},
		{opencode.Hooks{}, "tool.execute.before", "read", `{"filePath":"/a","offset":1}`, `[] [{/a read}] []`},
		{opencode.Hooks{}, "tool.execute.before", "webfetch", `{"url":"https://x.example","format":"text"}`, `[] [] [https://x.example]`},
	})
	call, err := claude.Hooks{}.Decode("PreToolUse", []byte(`{"session_id":"s","tool_name":"Bash","tool_input":{"command":"ls"},"permission_mode":"bypassPermissions"}`))
	require.NoError(t, err)
	require.False(t, call.Use.CanAsk, "a question would be answered without the user")
}

func checkToolUses(t *testing.T, cases []toolUse) {
	t.Helper()
	for _, c := range cases {
		stdin, err := json.Marshal(map[string]any{"session_id": "s", "hook_event_name": c.event, "tool_name": c.tool, "tool_input": json.RawMessage(c.input),
			"permission_mode": "default", "tool_use_id": "t"})
		require.NoError(t, err)
		call, err := c.dialect.Decode(c.event, stdin)
		require.NoError(t, err)
		u := call.Use
		got := fmt.Sprint(u.Commands, " ", u.Paths, " ", u.URLs)
		if u.Opaque {
			got += " opaque"
		}
		if u.CanAsk {
			got += " ask"
		}
		if u.Dir != "" && !u.Opaque {
			got += " in " + u.Dir
		}
		require.Equal(t, c.want, got, "%s %s", c.tool, c.input)
	}
}

// TestEveryHarnessHasItsFiles checks that the gate recognises the files of each harness:
// the settings, from which the harness reads hooks or permissions, and the user's login.
// Where a list of logins is empty, we do not know the files.
func TestEveryHarnessHasItsFiles(t *testing.T) {
	files := map[string]struct{ settings, logins []string }{
		"claude":   {[]string{".claude", ".claude/settings.json", ".claude/settings.local.json", ".claude.json"}, []string{".claude/.credentials.json"}},
		"codex":    {[]string{".codex", ".codex/config.toml", ".codex/hooks.json"}, []string{".codex/auth.json"}},
		"gemini":   {[]string{".gemini", ".gemini/settings.json", ".gemini/extensions/x/hooks/hooks.json"}, []string{".gemini/oauth_creds.json"}},
		"hermes":   {[]string{".hermes", ".hermes/config.yaml"}, nil},
		"openclaw": {[]string{".openclaw", ".openclaw/openclaw.json"}, nil},
		"opencode": {[]string{".opencode", "opencode.json", "opencode.jsonc", ".opencode/plugin/x.js", ".config/opencode/plugin/x.js"}, []string{".local/share/opencode/auth.json"}},
		"generic":  {},
	}
	for _, adapter := range profiles.Adapters() {
		require.Contains(t, files, adapter, "list its files here, and in IsSettings and HoldsLogin")
		for _, file := range files[adapter].settings {
			require.True(t, telemetry.IsSettings("/home/dev/"+file), file)
		}
		for _, file := range files[adapter].logins {
			require.True(t, telemetry.HoldsLogin("/home/dev/"+file), file)
		}
		profile, _ := profiles.For(adapter)
		if profile.Hooks != nil {
			require.NotEmpty(t, files[adapter].settings, "%s reads hooks from somewhere", adapter)
		}
		if profile.Install == nil {
			continue
		}
		for _, project := range []bool{false, true} {
			in, err := profile.Install(project, profiles.Host{Env: []string{"HOME=/home/dev"}, Dir: "/home/dev/project", Exe: "/opt/x", Hook: []string{"/opt/x"}})
			require.NoError(t, err)
			require.True(t, telemetry.IsSettings(in.Path), in.Path)
			require.True(t, in.Trust == nil || telemetry.IsSettings(in.Trust.Path), adapter)
		}
	}
}

// TestUnknownTools checks that paths and commands are found in the arguments of any tool,
// for example one of an MCP server. Other texts must not be taken for paths.
func TestUnknownTools(t *testing.T) {
	var cases []toolUse
	for _, c := range [][3]string{
		{"mcp__serena__create_text_file", `{"relative_path":"../outside/x","content":"/etc is"}`, `[] [{../outside/x write}] [] ask`},
		{"mcp__fs__put", `{"target_file":"/x"}`, `[] [{/x write}] [] ask`},
		{"mcp__fs__put", `{"output_path":"/x"}`, `[] [{/x write}] [] ask`},
		{"mcp__fs__put", `{"dest":"a b/../../x"}`, `[] [{a b/../../x write}] [] ask`},
		{"mcp__fs__put", `{"whatever":"a/../../x"}`, `[] [{a/../../x write}] [] ask`},
		{"mcp__fs__put", `{"old_path":"/x","new_path":"/y"}`, `[] [{/x write} {/y write}] [] ask`},
		{"mcp__fs__rename", `{"from":"/x","to":"/y"}`, `[] [{/x delete} {/y write}] [] ask`},
		{"mcp__fs__copy", `{"from":"/x","to":["/y"]}`, `[] [{/x read} {/y write}] [] ask`},
		{"mcp__mail__send", `{"from":"a@x.example","to":["b@x.example"],"subject":"a/b and /c"}`, `[] [] [] ask`},
		{"mcp__fs__put", `{"files":["/x",["/y"]]}`, `[] [{/x write} {/y write}] [] ask`},
		{"mcp__fs__put", `{"all":[[{"path":"/x"}]]}`, `[] [{/x write}] [] ask`},
		{"mcp__fs__put", `{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"path":"/x"}}}}}}}}}}`, `[] [] [] opaque ask`},
		{"mcp__fs__read_it", `{"name":"conf/.env"}`, `[] [{conf/.env read}] [] ask`},
		{"mcp__fs__get_rm", `{"path":"/x"}`, `[] [{/x write}] [] ask`},
		{"mcp__fs__list_clear", `{"path":"/x"}`, `[] [{/x write}] [] ask`},
		{"mcp__sh__run", `{"cmdline":"rm x"}`, `[rm x] [] [] ask`},
		{"mcp__sh__run", `{"commands":["rm x",["rm","y"]]}`, `['rm' 'y' rm x] [] [] ask`},
		{"mcp__sh__run", `{"commands":[{"command":"rm x"}]}`, `[rm x] [] [] ask`},
		{"mcp__sh__run", `{"shell_command":"rm x"}`, `[rm x] [] [] ask`},
		{"mcp__sh__run", `{"argv":["rm","x"]}`, `['rm' 'x'] [] [] ask`},
		{"mcp__sh__run", `{"command":"rm x","cwd":"/a","a":{"cwd":"/b"}}`, `[rm x] [] [] opaque ask`},
		{"local_shell", `{"action":{"type":"exec","command":["rm","x"],"working_directory":"/etc"}}`, `['rm' 'x'] [] [] ask in /etc`},
		{"mcp__web__open", `{"link":"https://x.example","start":"file:///a/%2eenv"}`, `[] [{/a/.env write}] [https://x.example] ask`},
		{"WebFetch", `{"url":"file://localhost/a/.env?x"}`, `[] [{/a/.env read} {/a/.env?x read}] [] ask`},
		{"mcp__git__create_issue", `{"repo":"a/b","title":"/x","body":"../x","labels":["a/b"],"type":"text/plain"}`, `[] [] [] ask`},
		{"mcp__git__comment", `{"topic":"see ../x and /etc/y for why","at":"2026/01/02"}`, `[] [] [] ask`},
		{"Grep", `{"pattern":"/x","glob":"{.env,x}"}`, `[] [{{.env,x} match}] [] ask`},
		{"grep", `{"pattern":"x","include":"{.env}"}`, `[] [{{.env} match}] [] ask`},
		{"StructuredOutput", `{"place":"/x"}`, `[] [] [] ask`},
		{"Task", `{"prompt":"/review","subagent_type":"/x","to":"/x"}`, `[] [] [] ask`},
		{"TodoWrite", `{"todos":[{"content":"../x","activeForm":"/y"}]}`, `[] [] [] ask`},
		{"write", `{"filePath":"/etc/x","content":"x","patchText":"*** Add File: a"}`, `[] [{/etc/x write} {a write}] [] ask`},
		{"bash", `{"command":"rm x","patchText":"*** Add File: a"}`, `[rm x] [{a write}] [] ask`},
		{"mcp__sh__run", `{"bash":"rm x"}`, `[rm x] [] [] ask`},
		{"mcp__sh__run", `{"shellCommand":"rm x"}`, `[rm x] [] [] ask`},
		{"mcp__db__get_or_init", `{"path":"/x"}`, `[] [{/x write}] [] ask`},
		{"mcp__fs__edit_file", `{"path":"a","edits":[{"oldText":"/api","newText":"/api/v2"}]}`, `[] [{a write}] [] ask`},
		{"mcp__fs__search_files", `{"path":".","excludePatterns":[".env"]}`, `[] [{. read}] [] ask`},
		{"mcp__browser__press_key", `{"key":"/"}`, `[] [] [] ask`},
		{"mcp__docs__query-docs", `{"libraryId":"/vercel/next.js"}`, `[] [] [] ask`},
		{"mcp__code__replace_symbol_body", `{"name_path":"/Foo/bar","relative_path":"a.py"}`, `[] [{a.py write}] [] ask`},
		{"mcp__any__tool", `{"separator":"/"}`, `[] [] [] ask`},
	} {
		cases = append(cases, toolUse{claude.Hooks{}, "PreToolUse", c[0], c[1], c[2]})
	}
	checkToolUses(t, cases)
}

// TestPatches: the files of a patch are found in each form that a harness accepts.
func TestPatches(t *testing.T) {
	checkToolUses(t, []toolUse{
		{codex.Hooks{}, "PreToolUse", "apply_patch", `{"command":"*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n*** Delete File: c\n*** End Patch"}`,
			`[] [{a write} {b write} {c delete}] []`},
		{codex.Hooks{}, "PreToolUse", "apply_patch", `{"input":"*** Add File: a","workdir":"/etc"}`, `[] [{a write}] [] in /etc`},
		{codex.Hooks{}, "PreToolUse", "apply_patch", `{"command":"nothing"}`, `[] [] [] opaque`},
		{opencode.Hooks{}, "tool.execute.before", "apply_patch", `{"patchText":"*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"}`, `[] [{a write}] []`},
		{opencode.Hooks{}, "tool.execute.before", "apply_patch", `{"patchText":"*** Begin Patch\n*** Add File: ok\n+x\n*** Update File:../x\n*** Move to:\ufeff../y\n@@\n- ***a\n*** End of File\n*** End Patch"}`, `[] [{ok write} {../x write} {../y write}] []`},
		{opencode.Hooks{}, "tool.execute.before", "apply_patch", `{"patchText":"*** Begin Patch\n*** Add File: ok\n+x\n***Update File: ../x\n*** End Patch"}`, `[] [{ok write}] [] opaque`},
		{opencode.Hooks{}, "tool.execute.before", "apply_patch", `{"patchText":"*** Begin Patch\n*** Update File: ok\n@@\n *** a: b\n+*** c\n*** End Patch"}`, `[] [{ok write}] []`},
		{opencode.Hooks{}, "tool.execute.before", "patch", `{"patchText":"*** Begin Patch\n*** Delete File: ../x\n*** End Patch"}`, `[] [{../x delete}] []`},
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		dialect telemetry.Refuser
		event   string
		d       telemetry.Decision
		want    string
	}{
		{claude.Hooks{}, "PreToolUse", telemetry.Deny, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"a <b>"}}`},
		{claude.Hooks{}, "PreToolUse", telemetry.Ask, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"a <b>"}}`},
		{codex.Hooks{}, "PreToolUse", telemetry.Ask, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"a <b>"}}`},
		{opencode.Hooks{}, "tool.execute.before", telemetry.Ask, `{"decision":"deny","reason":"a <b>"}`},
		{gemini.Hooks{}, "BeforeTool", telemetry.Deny, `{"decision":"deny","reason":"a <b>"}`},
	} {
		require.Equal(t, c.want, string(c.dialect.Refuse(c.event, c.d, "a <b>")))
	}
}
