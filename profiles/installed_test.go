package profiles

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhereHooksAreInstalled(t *testing.T) {
	home := []string{"HOME=/home/dev"}
	for name, c := range map[string]struct {
		adapter string
		project bool
		env     []string
		path    string
		trust   string
	}{
		"claude, user":              {"claude", false, home, "/home/dev/.claude/settings.json", ""},
		"claude, its own folder":    {"claude", false, []string{"HOME=/home/dev", "CLAUDE_CONFIG_DIR=conf"}, "/repo/sub/conf/settings.json", ""},
		"claude, project":           {"claude", true, nil, "/repo/sub/.claude/settings.json", ""},
		"codex, user":               {"codex", false, home, "/home/dev/.codex/hooks.json", "/home/dev/.codex/config.toml"},
		"codex, folder behind link": {"codex", false, []string{"CODEX_HOME=/link"}, "/real/hooks.json", "/real/config.toml"},
		"codex, project":            {"codex", true, home, "/repo/.codex/hooks.json", "/home/dev/.codex/config.toml"},
		"gemini, user":              {"gemini", false, home, "/home/dev/.gemini/settings.json", ""},
		"gemini, moved":             {"gemini", false, []string{"GEMINI_CLI_HOME=/g"}, "/g/.gemini/settings.json", ""},
		"gemini, project":           {"gemini", true, nil, "/repo/sub/.gemini/settings.json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := For(c.adapter)
			in, err := p.Install(c.project, Host{Env: c.env, Dir: "/repo/sub", Exe: "/opt/it's/lifeloop-wrap",
				ReadFile: func(path string) ([]byte, error) {
					if path == "/repo/.git/HEAD" {
						return []byte("ref"), nil
					}
					return nil, os.ErrNotExist
				},
				Real: func(path string) string { return strings.Replace(path, "/link", "/real", 1) }})
			require.NoError(t, err)
			if in.Path != c.path || in.Shared != c.project {
				t.Errorf("%s, shared %v", in.Path, in.Shared)
			}
			if (in.Trust == nil) != (c.trust == "") || in.Trust != nil && in.Trust.Path != c.trust {
				t.Errorf("trust: %+v", in.Trust)
			}
			for _, h := range in.Hooks {
				if !in.Ours(h.Command) || h.Timeout <= 0 {
					t.Errorf("%+v is not recognised", h)
				}
			}
			if want := `'/opt/it'\''s/lifeloop-wrap' hook --host ` + c.adapter + " " + in.Hooks[0].Event; in.Hooks[0].Command != want {
				t.Errorf("%s, want %s", in.Hooks[0].Command, want)
			}
		})
	}
	for _, adapter := range []string{"claude", "codex", "gemini"} {
		p, _ := For(adapter)
		if _, err := p.Install(false, Host{Dir: "/d", Exe: "/x"}); err == nil {
			t.Errorf("%s: without a home", adapter)
		}
		if _, err := p.Install(false, Host{Dir: "/d", Exe: "/\xff", Env: home}); err == nil {
			t.Errorf("%s: with a path that is not UTF-8", adapter)
		}
	}
}

// The installed hooks are those hooks of a launch that report a lifecycle event. Their
// timeouts are the same as in a launch.
func TestInstalledHooksAreThoseOfALaunch(t *testing.T) {
	h := Host{Env: []string{"HOME=/home/dev"}, Dir: "/d", Exe: "/opt/lifeloop-wrap"}
	p, _ := For("claude")
	in, err := p.Install(false, h)
	require.NoError(t, err)
	launch := claudeGroups([]string{"/opt/lifeloop-wrap", "hook"}, false, 0)
	for _, silent := range silentAlone {
		require.Contains(t, launch, silent)
		delete(launch, silent)
	}
	require.Len(t, in.Hooks, len(launch))
	for _, hook := range in.Hooks {
		if got := launch[hook.Event][0].Hooks; len(got) != 1 || got[0].Timeout != hook.Timeout {
			t.Errorf("%+v: a launch has %+v", hook, got)
		}
	}
	p, _ = For("codex")
	in, err = p.Install(false, h)
	require.NoError(t, err)
	reporting := slices.DeleteFunc(slices.Clone(codexHooks), func(hook codexHook) bool { return slices.Contains(silentAlone, hook.event) })
	require.Len(t, in.Hooks, len(reporting))
	for i, hook := range reporting {
		got := in.Hooks[i]
		if got.Event != hook.event || got.Timeout != hook.seconds {
			t.Errorf("%+v: a launch has %+v", got, hook)
		}
		if key := in.Trust.Key(hook.event, 2, 1); key != "/home/dev/.codex/hooks.json:"+codexSnake(hook.event)+":2:1" || !strings.HasPrefix(key, in.Trust.Prefix) {
			t.Errorf("its key is %s", key)
		}
		if value := in.Trust.Value(got); value != trustHash(codexSnake(hook.event), got.Command, hook.seconds) {
			t.Errorf("its hash is %s", value)
		}
	}
}

func TestOurCommands(t *testing.T) {
	p, _ := For("claude")
	in, err := p.Install(false, Host{Env: []string{"HOME=/h"}, Dir: "/d", Exe: "/usr/bin/ll"})
	require.NoError(t, err)
	ours := []string{
		"'/usr/bin/ll' hook --host claude Stop",
		"'/old/lifeloop-wrap' hook --host claude Stop",
		"'/old/lifeloop-wrap-1.2' hook --host claude --later=1 Stop",
		`'/it'\''s/lifeloop-wrap' hook --host claude Stop`,
	}
	theirs := []string{
		"", "'", "''", "'/usr/bin/ll'", "'/usr/bin/ll' hook", "'/usr/bin/ll' hook Stop",
		"'/usr/bin/ll' hook --host codex Stop", "'/usr/bin/ll' hook --host claude",
		"/usr/bin/ll hook --host claude Stop", "'/usr/bin/other' hook --host claude Stop",
		"'/usr/bin/ll' hook --host claude Stop | tee log", "'/usr/bin/ll' hook --host claude Stop; rm x",
		"'/usr/bin/ll' hook --host claude $(x)", "true && '/usr/bin/ll' hook --host claude Stop",
		"'/usr/bin/ll'hook --host claude Stop", `'/usr/bin/ll'\'' hook --host claude Stop`,
	}
	for _, command := range slices.Concat(ours, theirs) {
		if got := in.Ours(command); got != slices.Contains(ours, command) {
			t.Errorf("%s: ours %v", command, got)
		}
	}
}
