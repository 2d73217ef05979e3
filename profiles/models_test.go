package profiles

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/document/yaml"
)

// hostWith returns a user's system with these files.
func hostWith(files map[string]string, env ...string) Host {
	return Host{Env: append([]string{"HOME=/home/dev"}, env...), Dir: "/home/dev/project/a/b", YAML: yaml.Parse, ReadFile: func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}}
}

// windowIn returns the window of a model, with its source.
func windowIn(t *testing.T, adapter, path, model string, h Host) string {
	t.Helper()
	p, ok := For(adapter)
	require.True(t, ok)
	tokens, source := p.WithWindows(Source{Form: Rows, Path: path}, h).Windows.Of(model)
	if tokens == 0 {
		return "unknown"
	}
	return fmt.Sprint(tokens, " ", source)
}

// opencodeOrder lists the layers of OpenCode's settings, the weakest first. For each pair
// of layers, `opencode models --verbose` of 1.18.33 showed which layer wins. The files
// in /etc were not tried.
var opencodeOrder = []string{
	"/home/dev/.config/opencode/config.json", "/home/dev/.config/opencode/opencode.json", "/home/dev/.config/opencode/opencode.jsonc",
	"/home/dev/custom.json", "/home/dev/opencode.json", "/home/dev/project/opencode.json", "/home/dev/project/opencode.jsonc",
	"/home/dev/project/a/b/opencode.json", "/home/dev/project/a/b/opencode.jsonc", "/home/dev/project/a/b/.opencode/opencode.json",
	"/home/dev/project/a/b/.opencode/opencode.jsonc", "/home/dev/project/.opencode/opencode.json", "/home/dev/.opencode/opencode.json",
	"/home/dev/cd/opencode.json", "variable", "/etc/opencode/opencode.json", "/etc/opencode/opencode.jsonc",
}

func TestOpencodeSettingsHaveAnOrder(t *testing.T) {
	const above = "/home/dev/opencode.json" // the first file above the repository
	for _, git := range []bool{false, true} {
		for weak := range opencodeOrder {
			for strong := weak + 1; strong < len(opencodeOrder); strong++ {
				files, env := map[string]string{}, []string{"OPENCODE_CONFIG=/home/dev/custom.json", "OPENCODE_CONFIG_DIR=/home/dev/cd"}
				for _, i := range []int{weak, strong} {
					text := fmt.Sprintf(`{"provider":{"p":{"models":{"m/1":{"limit":{"context":%d,"output":1},/* c */}}}}} // end`, i+1)
					if opencodeOrder[i] == "variable" {
						env = append(env, "OPENCODE_CONFIG_CONTENT="+text)
					} else {
						files[opencodeOrder[i]] = text
					}
				}
				want := strong
				if git {
					files["/home/dev/project/.git/HEAD"] = "ref: refs/heads/main\n"
					if opencodeOrder[strong] == above {
						want = weak
					}
				}
				require.Equal(t, fmt.Sprint(want+1, " settings"), windowIn(t, "opencode", "", "p/m/1", hostWith(files, env...)), "%s, %s", opencodeOrder[weak], opencodeOrder[strong])
			}
		}
	}
}

func TestOpencodeWindows(t *testing.T) {
	const (
		list     = `{"p":{"id":"p","models":{"m":{"limit":{"context":7000}},"zero":{"limit":{"context":0}}}},"github-copilot":{"models":{"m":{"limit":{"context":1}}}},"openai":{"models":{"gpt-5.6-x":{"limit":{"context":1}},"gpt-5":{"limit":{"context":2}}}}}`
		cached   = "/home/dev/.cache/opencode/models.json"
		settings = "/home/dev/.config/opencode/opencode.json"
	)
	for _, c := range []struct {
		name, model string
		files       map[string]string
		env         []string
		want        string
	}{
		{"the list", "p/m", map[string]string{cached: list}, nil, "7000 catalog"},
		{"no list", "p/m", nil, nil, "unknown"},
		{"another provider", "q/m", map[string]string{cached: list}, nil, "unknown"},
		{"another model", "p/n", map[string]string{cached: list}, nil, "unknown"},
		{"no provider", "m", map[string]string{cached: list}, nil, "unknown"},
		{"no window in the list", "p/zero", map[string]string{cached: list}, nil, "unknown"},
		{"a list that is cut off", "p/n", map[string]string{cached: list[:40]}, nil, "unknown"},
		{"the list is elsewhere", "p/m", map[string]string{"/cache/opencode/models.json": list}, []string{"XDG_CACHE_HOME=/cache"}, "7000 catalog"},
		{"a list of the user", "p/m", map[string]string{"/m.json": list}, []string{"OPENCODE_MODELS_PATH=/m.json", "OPENCODE_MODELS_URL=http://127.0.0.1"}, "7000 catalog"},
		{"a list of another server", "p/m", map[string]string{cached: list}, []string{"OPENCODE_MODELS_URL=http://127.0.0.1"}, "unknown"},
		{"settings without a window", "p/m", map[string]string{cached: list, settings: `{"provider":{"p":{"models":{"m":{"name":"x"}}}}}`}, nil, "7000 catalog"},
		{"settings with another name", "p/alias", map[string]string{cached: list, settings: `{"provider":{"p":{"models":{"alias":{"id":"m"}}}}}`}, nil, "7000 catalog"},
		{"settings before the list", "p/m", map[string]string{cached: list, settings: `{"provider":{"p":{"models":{"m":{"limit":{"context":5}}}}}}`}, nil, "5 settings"},
		{"settings that turn the window off", "p/m", map[string]string{cached: list, settings: `{"provider":{"p":{"models":{"m":{"limit":{"context":0}}}}}}`}, nil, "unknown"},
		{"empty settings", "p/m", map[string]string{cached: list, settings: "\n"}, nil, "7000 catalog"},
		{"broken settings", "p/m", map[string]string{cached: list, settings: `{"provider":`}, nil, "unknown"},
		{"no settings of the project", "p/m", map[string]string{"/home/dev/project/opencode.json": `{"provider":{"p":{"models":{"m":{"limit":{"context":5}}}}}}`, cached: list}, []string{"OPENCODE_DISABLE_PROJECT_CONFIG=1"}, "7000 catalog"},
		{"a list that the provider replaces", "github-copilot/m", map[string]string{cached: list}, nil, "unknown"},
		{"a window that depends on the subscription", "openai/gpt-5.6-x", map[string]string{cached: list}, nil, "unknown"},
		{"a window that does not", "openai/gpt-5", map[string]string{cached: list}, nil, "2 catalog"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, windowIn(t, "opencode", "", c.model, hostWith(c.files, c.env...)))
		})
	}
}

// A launch of `opencode run` has no plugin that reports the window, so the wrapper reads
// the window from the settings.
func TestOpencodeRunReadsTheWindow(t *testing.T) {
	h := hostWith(map[string]string{"/home/dev/.config/opencode/opencode.json": `{"provider":{"p":{"models":{"m":{"limit":{"context":200000}}}}}}`})
	h.RunDir, h.Socket, h.Key, h.Instructions = "/run/s", "/run/s/sock", "/run/s/key", "http://127.0.0.1:4000/instructions"
	store := func(argv ...string) Windows {
		l, err := prepareOpencode(argv, h)
		require.NoError(t, err)
		for _, s := range l.Sources {
			if s.Name == "store" {
				return s.Windows
			}
		}
		t.Fatalf("%v has no store", argv)
		return Windows{}
	}
	tokens, source := store("opencode", "run", "hi").Of("p/m")
	require.EqualValues(t, 200_000, tokens)
	require.Equal(t, "settings", source)
	require.Nil(t, store("opencode", "run", "--dir", "/elsewhere", "hi").Of)
}

func TestHermesWindows(t *testing.T) {
	const learned = "context_lengths:\n  m@https://a.example/v1: 64000\n  m@https://a.example/v1/: 64000\n  two@https://a.example: 1\n  two@http://127.0.0.1:1234/v1: 2\n"
	for _, c := range []struct{ name, model, config, cache, want string }{
		{"nothing", "m", "", "", "unknown"},
		{"the user's window", "m", "# mine\nmodel:\n  default: m\n  context_length: 128000\n", learned, "128000 settings"},
		{"the user's window as text", "m", "model: {model: m, context_length: \"128000\"}", "", "128000 settings"},
		{"the user's window of another model", "m", "model: {default: n, context_length: 128000}", learned, "unknown"},
		{"a window that is not a number", "m", "model: {default: m, context_length: 256K}", "", "unknown"},
		{"the model alone", "m", "model: m", learned, "64000 catalog"},
		{"what Hermes learned", "m", "", learned, "64000 catalog"},
		{"two servers", "two", "", learned, "unknown"},
		{"another model", "n", "", learned, "unknown"},
		{"settings that may replace it", "m", "custom_providers: []", learned, "unknown"},
		{"broken settings", "m", "model: [", learned, "unknown"},
		{"a broken cache", "m", "", "context_lengths: [", "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			for name, text := range map[string]string{"config.yaml": c.config, "context_length_cache.yaml": c.cache} {
				if text != "" {
					files["/h/"+name] = text
				}
			}
			p, _ := For("hermes")
			w := p.WithWindows(Source{Form: Rows, Path: "/h/state.db"}, hostWith(files)).Windows
			if w.Of == nil {
				require.Equal(t, c.want, "unknown")
				return
			}
			require.Equal(t, c.want, windowIn(t, "hermes", "/h/state.db", c.model, hostWith(files)))
		})
	}
}
