package profiles

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	geminiUser     = "/home/dev/.gemini/settings.json"
	geminiProject  = "/home/dev/project/.gemini/settings.json"
	geminiTrusts   = "/home/dev/.gemini/trustedFolders.json"
	geminiAdmin    = "/etc/gemini-cli/settings.json"
	geminiFallback = "/etc/gemini-cli/system-defaults.json"
)

// A geminiCase is a launch of Gemini CLI, with or without a policy.
type geminiCase struct {
	argv  string // after the program
	env   []string
	files map[string]string
	root  bool
	dir   string // the working directory; "": the project

	writable string // with root: a path that other users can write
}

func (c geminiCase) prepare(t *testing.T, guards bool) Launch {
	t.Helper()
	w := newWorld("gemini")
	maps.Copy(w.files, c.files)
	h := w.host
	h.Guards, h.Hooks, h.Env, h.Terminal = guards, Always, slices.Concat(h.Env, c.env), true
	if c.root {
		h.Guarded = func(path string) bool { return path != c.writable }
	}
	if c.dir != "" {
		h.Dir = c.dir
	}
	p, _ := For("gemini")
	l, err := p.Prepare(append([]string{"gemini"}, strings.Fields(c.argv)...), h)
	require.NoError(t, err)
	return l
}

// TestGeminiWithoutHooks: Gemini CLI would run no hook of ours in these launches. Under a
// policy the launches are not guarded. Without a policy the launches are observed by
// their chat files.
func TestGeminiWithoutHooks(t *testing.T) {
	one := func(path, text string) geminiCase { return geminiCase{files: map[string]string{path: text}} }
	off := `{"hooksConfig":{"enabled":false}}`
	for want, cases := range map[string][]geminiCase{
		"in a sandbox, without our hooks": {
			{argv: "--sandbox"}, {argv: "-s -p hi"}, {argv: "--sandbox=true"}, {argv: "-ys"}, {argv: "--no-sandbox", env: []string{"GEMINI_SANDBOX=docker"}},
			{env: []string{"GEMINI_SANDBOX=true"}}, {env: []string{"GEMINI_SANDBOX= Podman "}},
			one(geminiUser, `{"tools":{"sandbox":true}}`), one(geminiProject, `{"tools":{"sandbox":"docker"}}`), one(geminiAdmin, `{"tools":{"sandbox":{"enabled":true}}}`),
			one(geminiFallback, `{"tools":{"sandbox":"1"}}`), one(geminiUser, `{"tools":7}`),
			one("/home/dev/project/.env", "A=1\n export GEMINI_SANDBOX = true\n"), one("/home/.gemini/.env", "GEMINI_SANDBOX: true"), one("/home/dev/.env", "GEMINI_SANDBOX=1"),
			one("/home/dev/.env", "\ufeffGEMINI_SANDBOX=1"), one("/home/dev/.env", "A=1\rexport\tGEMINI_SANDBOX=docker"),
		},
		"hooksConfig.enabled is false in": {
			one(geminiUser, "{ // a comment\n \"hooksConfig\": {/* another */ \"enabled\": false}} // the end"), one(geminiProject, off), one(geminiAdmin, off),
			one(geminiFallback, off), one(geminiUser, `{"hooksConfig":{"enabled":false,"Enabled":true}}`),
			{env: []string{"GEMINI_CLI_SYSTEM_SETTINGS_PATH=/a/s.json"}, files: map[string]string{"/a/s.json": off}},
			{env: []string{"GEMINI_CLI_SYSTEM_SETTINGS_PATH=/a/s.json"}, files: map[string]string{"/a/system-defaults.json": off}},
			{env: []string{"GEMINI_CLI_SYSTEM_DEFAULTS_PATH=d.json"}, files: map[string]string{"/home/dev/project/d.json": off}},
			{root: true, files: map[string]string{geminiFallback: off}},
		},
		"hooksConfig has an unknown form in": {one(geminiUser, `{"hooksConfig":{"enabled":"$HOOKS"}}`), one(geminiUser, `{"hooksConfig":true}`), one(geminiUser, `{"hooksConfig":{"disabled":7}}`)},
		"hooksConfig.disabled names":         {one(geminiUser, `{"hooksConfig":{"disabled":["lifeloop",/* */]}}`)},
		"is not a JSON object":               {one(geminiUser, `{"hooksConfig":`), one(geminiProject, `[]`), {root: true, files: map[string]string{geminiFallback: "x"}}},
		"does not allow our extension":       {one(geminiAdmin, `{"security":{"allowedExtensions":["^https://x/"]}}`)},
		"is disabled in": {
			one("/home/dev/.gemini/extensions/extension-enablement.json", `{"lifeloop":{"overrides":["!/home/dev/*"]}}`),
			one("/home/dev/.gemini/extensions/extension-enablement.json", `{"lifeloop":{"overrides":["/*","!/home/dev/project/"]}}`),
		},
		"trusts the working directory": {{root: true, dir: "/home/dev"}},
	} {
		for _, c := range cases {
			l := c.prepare(t, true)
			require.False(t, l.Guards, "%s: %v", want, c)
			require.Contains(t, l.Unguarded, want, c)
			l = c.prepare(t, false)
			require.False(t, l.Hooks)
			require.Contains(t, l.Weak[0].Reason, want, c)
			require.Empty(t, l.Overlay.Root)
			require.True(t, len(l.Sources) > 0 || l.Typing.WorkDir != "", "it is observed by its chat file")
		}
	}
}

// TestGeminiGuarded: with these settings Gemini CLI runs our hooks. For root in a trusted
// folder, the hooks are in the system's default settings. Otherwise the hooks are in an
// extension and run in any folder.
func TestGeminiGuarded(t *testing.T) {
	const overlay, defaults = "overlay", "defaults"
	on := map[string]string{geminiUser: `{"hooksConfig":{"enabled":true,"disabled":["x"]},"tools":{"sandbox":{"enabled":false}}} // on`, geminiFallback: `{"tools":{"sandbox":"false"}}`,
		"/home/dev/.gemini/extensions/extension-enablement.json": `{"lifeloop":{"overrides":["!/*","/home/dev/*"]}}`, "/home/dev/.env": "X=1 # GEMINI_SANDBOX=1"}
	trusts := func(text string) map[string]string { return map[string]string{geminiTrusts: text} }
	env := func(kv ...string) []string { return kv }
	for _, c := range []struct {
		geminiCase
		want string
	}{
		{geminiCase{files: on}, overlay},
		{geminiCase{env: env("GEMINI_SANDBOX=false"), files: map[string]string{geminiUser: `{"tools":{"sandbox":false}}`}}, overlay},
		{geminiCase{files: map[string]string{"/home/dev/.env": "GEMINI_SANDBOX='false'\nexports GEMINI_SANDBOX=1\n"}}, overlay},
		{geminiCase{root: true, files: map[string]string{geminiUser: `{"security":{"folderTrust":{"Enabled":false}}}`}}, overlay},
		{geminiCase{root: true, files: map[string]string{geminiAdmin: `{"security":{"folderTrust":{"enabled":false}}}`}}, defaults},
		{geminiCase{root: true, writable: geminiAdmin, files: map[string]string{geminiAdmin: `{"security":{"folderTrust":{"enabled":false}}}`}}, overlay},
		{geminiCase{argv: "--sandbox=false", files: map[string]string{geminiUser: `{"tools":{"sandbox":true}}`}}, overlay},
		{geminiCase{env: env("SANDBOX=sandbox-1", "GEMINI_SANDBOX=docker")}, overlay},
		{geminiCase{argv: "-e lifeloop,x", files: on}, overlay},
		{geminiCase{root: true}, overlay},
		{geminiCase{root: true, files: trusts(`{"/home/dev":"TRUST_FOLDER"} // mine`)}, defaults},
		{geminiCase{root: true, files: trusts(`{"/home/dev/project/x":"TRUST_PARENT"}`)}, defaults},
		{geminiCase{root: true, files: trusts(`{"/home/dev":"TRUST_FOLDER","/home/dev/project":"DO_NOT_TRUST"}`)}, overlay},
		{geminiCase{root: true, files: trusts(`{"/home/dev/proj":"TRUST_FOLDER"}`)}, overlay},
		{geminiCase{root: true, argv: "--skip-trust"}, defaults},
		{geminiCase{root: true, env: env("GEMINI_CLI_TRUST_WORKSPACE=true")}, defaults},
		{geminiCase{root: true, env: env("GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_RESTRICTED_MODE=true")}, overlay},
		{geminiCase{root: true, env: env("GEMINI_CLI_TRUST_WORKSPACE=false"), files: trusts(`{"/home/dev":"TRUST_FOLDER"}`)}, overlay},
		{geminiCase{root: true, files: map[string]string{geminiUser: `{"security":{"folderTrust":{"enabled":false}}}`}}, defaults},
		{geminiCase{root: true, files: map[string]string{geminiProject: `{"security":{"folderTrust":{"enabled":false}}}`}}, overlay},
		{geminiCase{root: true, files: map[string]string{geminiUser: `{"security":{"folderTrust":{"enabled":false}}}`, geminiAdmin: `{"security":{"folderTrust":{"enabled":true}}}`}}, overlay},
	} {
		l := c.prepare(t, true)
		require.True(t, l.Guards, "%v: %s", c, l.Unguarded)
		got := defaults
		if l.Overlay.Root != "" {
			got = overlay
		}
		require.Equal(t, c.want, got, c)
		var names []string
		for _, f := range l.Files {
			names = append(names, filepath.Base(f.Path))
		}
		require.Equal(t, got == defaults, slices.Contains(names, "gemini-defaults.json"), names)
	}
}
