package profiles

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const thisSession = "3f1c2b4a-2222-4333-8444-555555555555"

// resumed pairs command lines with those that continue a session. ID means the
// session's id, and - means that the command line cannot be resumed. Lines marked
// with * are launched without a terminal.
var resumed = map[string]string{
	"claude": `
		claude                                         | claude --resume ID
		claude 'fix the tests'                         | claude --resume ID
		claude -p 'fix the tests'                      | claude --resume ID -p 'fix the tests'
		* claude 'fix the tests'                       | claude --resume ID 'fix the tests'
		* claude                                       | -
		claude -p                                      | -
		claude 'fix it' -p --model opus                | claude --resume ID -p --model opus 'fix it'
		/opt/bin/claude --model opus                   | /opt/bin/claude --resume ID --model opus
		claude --session-id 0f0f -p hi                 | claude --resume ID -p hi
		claude --session-id=0f0f -p hi                 | claude --resume ID -p hi
		claude --resume 0f0f                           | claude --resume ID
		claude -r 0f0f --fork-session -p hi            | claude --resume ID -p hi
		claude -r --model opus                         | claude --resume ID --model opus
		claude -r0f0f                                  | claude --resume ID
		claude --continue                              | claude --resume ID
		claude -cp hi                                  | claude --resume ID -p hi
		claude -pc hi                                  | claude --resume ID -p hi
		claude -p --allowedTools Bash Read -c hi       | claude --resume ID -p --allowedTools Bash Read -- hi
		claude -p --allowedTools Bash Read -- hi       | claude --resume ID -p --allowedTools Bash Read -- hi
		claude --debug -c -p -- hi                     | claude --resume ID --debug -p hi
		claude -p --debug -- hi                        | claude --resume ID -p --debug -- hi
		claude -p -- '-x is odd'                       | claude --resume ID -p -- '-x is odd'
		claude --settings x.json hi                    | claude --resume ID --settings x.json
		claude -p hi --input-format stream-json        | -
		claude -p hi --input-format text               | claude --resume ID -p --input-format text hi
		claude --from-pr 3                             | -
		claude --worktree w                            | -
		claude -p hi --no-session-persistence          | -
		claude -p hi --resume 0f0f --resume-session-at | -
		claude --teleport x                            | -
		claude --some-new-option hi                    | -
		claude -xp hi                                  | -
		claude mcp list                                | -
		claude --version                               | -
		claude --bg hi                                 | -
		claude rc                                      | -
		npx claude -p hi                               | -
		npx @anthropic-ai/claude-code -p hi            | -
		env A=b claude -p hi                           | -
		node /opt/claude -p hi                         | -
		./claude.sh -p hi                              | -`,
	"codex": `
		codex                                          | codex resume ID
		codex 'fix the tests'                          | codex resume ID
		codex -m gpt-5 'fix it' -s read-only           | codex -m gpt-5 -s read-only resume ID
		codex -c a=b -c 'c="d e"'                      | codex -c a=b -c 'c="d e"' resume ID
		codex --no-daemon -- '-x is odd'               | codex --no-daemon resume ID
		codex resume 0f0f                              | codex resume ID
		codex resume 0f0f 'go on'                      | codex resume ID
		codex resume --last                            | codex resume ID
		codex resume --all -m gpt-5                    | codex -m gpt-5 resume ID
		codex fork 0f0f                                | codex resume ID
		codex fork                                     | codex resume ID
		codex exec 'fix it'                            | codex exec resume ID 'fix it'
		* codex exec 'fix it'                          | codex exec resume ID 'fix it'
		codex e 'fix it' --json                        | codex exec --json resume ID 'fix it'
		codex -c a=b exec -C /d -s read-only --json hi | codex -c a=b exec -C /d -s read-only --json resume ID hi
		codex exec --json -- '-x is odd'               | codex exec --json resume ID -- '-x is odd'
		codex exec resume 0f0f hi                      | codex exec resume ID hi
		codex exec resume --last hi                    | codex exec resume ID hi
		codex exec resume --json 0f0f hi -o last       | codex exec --json -o last resume ID hi
		codex exec fork 0f0f hi                        | codex exec resume ID hi
		codex exec resume 0f0f                         | -
		codex exec resume --last                       | -
		codex exec                                     | -
		codex exec -                                   | -
		codex exec hi there                            | -
		codex exec --ephemeral hi                      | -
		codex exec --worktree hi                       | -
		codex exec -i a.png hi                         | -
		codex -i a.png                                 | -
		codex exec review                              | -
		codex review                                   | -
		codex --remote ws://h                          | -
		codex --some-new-option x hi                   | -
		codex hello exec                               | -
		codex login                                    | -
		codex --version                                | -
		npx codex exec hi                              | -
		npx @openai/codex exec hi                      | -`,
	"gemini": `
		gemini                                         | gemini --resume ID
		gemini 'fix it'                                | gemini --resume ID
		* gemini 'fix it'                              | gemini --resume ID 'fix it'
		* gemini                                       | -
		gemini -p 'fix it'                             | gemini --resume ID -p 'fix it'
		gemini --prompt='fix it' -y                    | gemini --resume ID --prompt='fix it' -y
		gemini -p ''                                   | -
		gemini -i 'fix it' -m gemini-2.5-pro           | gemini --resume ID -m gemini-2.5-pro
		gemini --session-id 0f0f -p hi                 | gemini --resume ID -p hi
		gemini --resume latest -p hi                   | gemini --resume ID -p hi
		gemini -r 5 --approval-mode yolo               | gemini --resume ID --approval-mode yolo
		gemini -r                                      | gemini --resume ID
		gemini -e none 'fix it'                        | gemini --resume ID -e none
		* gemini -- '-x is odd'                        | -
		gemini -dp hi                                  | -
		gemini -phi                                    | -
		gemini --yolo true -p hi                       | -
		gemini --session-file f.json                   | -
		gemini --acp                                   | -
		gemini -w                                      | -
		gemini --list-sessions                         | -
		gemini mcp list                                | -
		npx gemini -p hi                               | -`,
	"opencode": `
		opencode                                       | opencode --session ID
		opencode sub/folder -m mock/m1                 | opencode --session ID -m mock/m1 sub/folder
		opencode --prompt 'fix it'                     | opencode --session ID
		opencode -c                                    | opencode --session ID
		opencode -s ses_0 --fork                       | opencode --session ID
		opencode run 'fix it'                          | opencode run --session ID 'fix it'
		opencode run fix it --format json              | opencode run --session ID --format json fix it
		opencode run -c --fork 'fix it'                | opencode run --session ID 'fix it'
		opencode run 'fix it' -f a.txt b.txt           | opencode run --session ID -f a.txt b.txt -- 'fix it'
		opencode run -f a.txt 'fix it'                 | -
		opencode run --command review                  | opencode run --session ID --command review
		opencode run                                   | -
		opencode run --attach http://h hi              | -
		opencode run -i hi                             | -
		opencode -m run                                | -
		opencode serve                                 | -
		opencode a b                                   | -
		opencode --some-new-option x                   | -
		bunx opencode run hi                           | -`,
}

func TestResume(t *testing.T) {
	ids := map[string]string{"claude": thisSession, "codex": thisSession, "gemini": thisSession, "opencode": "ses_e013ecc6cffebf9saxDcRTaJUW"}
	for adapter, lines := range resumed {
		for line := range strings.Lines(strings.TrimSpace(lines)) {
			from, want, _ := strings.Cut(strings.TrimSpace(line), "|")
			t.Run(strings.TrimSpace(from), func(t *testing.T) {
				testResume(t, adapter, ids[adapter], words(strings.TrimSpace(from)), strings.TrimSpace(want))
			})
		}
	}
}

func testResume(t *testing.T, adapter, id string, argv []string, want string) {
	p, ok := For(adapter)
	require.True(t, ok)
	terminal := argv[0] != "*"
	if !terminal {
		argv = argv[1:]
	}
	before := slices.Clone(argv)
	got, ok := p.Resume(argv, id, terminal)
	require.Equal(t, before, argv, "the caller's command line")
	l, err := p.Prepare(argv, Host{Terminal: terminal})
	require.NoError(t, err)
	require.Equal(t, ok, l.Resumes, "Launch.Resumes")
	if want == "-" {
		require.False(t, ok, "resumed by %q", got)
		return
	}
	require.True(t, ok, "not resumed")
	wanted := words(want)
	wanted[slices.Index(wanted, "ID")] = id
	require.Equal(t, wanted, got)
	again, ok := p.Resume(got, id, terminal)
	require.True(t, ok, "%q cannot be resumed again", got)
	require.Equal(t, got, again, "resumed again")
}

// Resume rejects a word that is not a session id, because with such a word the harness
// might continue its newest session.
func TestResumeRequiresAnID(t *testing.T) {
	for _, adapter := range Adapters() {
		p, _ := For(adapter)
		if p.resume == nil {
			continue
		}
		for _, session := range []string{"", "latest", "--last", "5", "my session", "ses_", "ses_a b", thisSession[:35], thisSession + "0"} {
			if got, ok := p.Resume([]string{p.Programs[0]}, session, true); ok {
				t.Errorf("%s resumes %q with %q", adapter, session, got)
			}
		}
		if got, ok := p.Resume(nil, p.anySession, true); ok {
			t.Errorf("%s resumes without a program: %q", adapter, got)
		}
		_, err := p.Prepare([]string{p.Programs[0], "--version"}, Host{Resume: p.anySession})
		require.ErrorContains(t, err, fmt.Sprintf("adapter %s cannot continue harness session %s", adapter, p.anySession))
	}
	p, _ := For(Generic)
	_, err := p.Prepare([]string{"prog"}, Host{Resume: thisSession})
	require.ErrorContains(t, err, "adapter generic cannot continue harness session "+thisSession)
}

// FuzzResume resumes any command line. The result names the session once. Every other
// word comes from the user, or is one of the few words that resume a session.
func FuzzResume(f *testing.F) {
	for _, seed := range []string{
		"claude\x00-p\x00hi", "claude\x00-cr\x00x\x00--debug\x00-p\x00--\x00y", "codex\x00exec\x00resume\x00--last\x00hi", "codex\x00-c\x00exec",
		"gemini\x00-r\x00-p\x00hi", "opencode\x00run\x00-f\x00a\x00--\x00b", "opencode\x00-m\x00run", "claude\x00--add-dir\x00a\x00b\x00-p\x00--\x00c",
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, line string, terminal bool) {
		argv := strings.Split(line, "\x00")
		for _, adapter := range Adapters() {
			p, _ := For(adapter)
			if p.resume == nil {
				continue
			}
			got, ok := p.Resume(argv, p.anySession, terminal)
			if !ok {
				continue
			}
			if got[0] != argv[0] {
				t.Fatalf("%q starts another program: %q", argv, got)
			}
			named := 0
			for _, w := range got[1:] {
				switch {
				case w == p.anySession:
					named++
				case slices.Contains([]string{"--resume", "resume", "--session", "exec", "run", "--"}, w), slices.Contains(argv, w):
				case len(w) == 2 && w[0] == '-' && strings.Contains(line, w[1:]): // w is a flag that the user wrote in one word with other flags
				case len(w) > 2 && w[0] == '-' && strings.Contains(line, w[1:]):
				default:
					t.Fatalf("%q became %q: %q is a new word", argv, got, w)
				}
			}
			if named != 1 && !slices.Contains(argv, p.anySession) {
				t.Fatalf("%q became %q, which names the session %d times", argv, got, named)
			}
			if again, ok := p.Resume(got, p.anySession, terminal); !ok || !slices.Equal(again, got) {
				t.Fatalf("%q became %q and then %q (%t)", argv, got, again, ok)
			}
		}
	})
}

// TestAsk checks the command line that asks a session one question. Only interactive
// sessions are asked. The command line uses a copy of the session, and keeps the user's
// options but not the prompt.
func TestAsk(t *testing.T) {
	for line, want := range map[string]string{
		"claude":                         "claude --print --fork-session --resume ID",
		"claude fix":                     "claude --print --fork-session --resume ID",
		"claude --model opus --continue": "claude --print --fork-session --resume ID --model opus",
		"claude -p fix":                  "",
		"claude --worktree w":            "",
		"claude --some-new-option":       "",
		"codex":                          "",
		"true":                           "",
	} {
		p, _ := For("claude")
		words, ok := p.Ask(strings.Fields(line), thisSession)
		if got := strings.ReplaceAll(strings.Join(words, " "), thisSession, "ID"); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %s (%t), want %s", line, got, ok, want)
		}
	}
	p, _ := For("claude")
	_, ok := p.Ask([]string{"claude"}, "not-an-id")
	require.False(t, ok)
	p, _ = For("codex")
	_, ok = p.Ask([]string{"codex"}, thisSession)
	require.False(t, ok)
}
