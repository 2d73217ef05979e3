package profiles

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"lifeloop/telemetry/scan"
)

// This file finds the context window that OpenCode applies to a model, in the files that
// OpenCode itself reads. The order of its settings was observed with 1.18.33:
//
//	managed files > OPENCODE_CONFIG_CONTENT > OPENCODE_CONFIG_DIR > ~/.opencode >
//	.opencode (the topmost first) > the project's files (the nearest first) >
//	OPENCODE_CONFIG > the user's files > the list of models
//
// The settings of an organisation or of a remote server are not in files.

// opencodeWindows reads the settings and the list of models once.
func opencodeWindows(_ Source, h Host) Windows {
	w := Windows{Dir: h.Dir, Of: func(string) (int64, string) { return 0, "" }}
	layers, ok := h.opencodeLayers()
	if !ok {
		return w // OpenCode itself does not use settings that cannot be read as JSON
	}
	catalog := h.opencodeCatalog()
	w.Of = func(model string) (int64, string) {
		provider, model, ok := strings.Cut(model, "/")
		if !ok {
			return 0, ""
		}
		name := "" // the model's name in the list of models; empty if the settings give none
		for _, layer := range layers {
			tokens, given, id := opencodeModel(layer, "provider", provider, model)
			if given {
				return tokens, "settings"
			}
			if name == "" {
				name = id
			}
		}
		if name == "" {
			name = model
		}
		if opencodeRenewed(provider, name) {
			return 0, ""
		}
		tokens, _, _ := opencodeModel(catalog, "", provider, name)
		return tokens, "catalog"
	}
	return w
}

// opencodeModel reads a model's window and its id from an object of providers: the given
// member of data, or data itself if member is empty. given reports whether the object has
// a window for the model.
func opencodeModel(data []byte, member, provider, model string) (tokens int64, given bool, id string) {
	field := scan.In(provider, scan.In("models", scan.In(model, scan.Name("id", &id), scan.In("limit", scan.Func("context", func(val []byte) {
		tokens, given = scan.CountOf(val), true
	})))))
	if member != "" {
		field = scan.In(member, field)
	}
	scan.Object(data, field)
	return tokens, given, id
}

// opencodeRenewed reports whether OpenCode may use another context window than its list
// of models says. For some providers, OpenCode asks the provider; for some models of
// OpenAI, the window depends on the user's subscription.
func opencodeRenewed(provider, model string) bool {
	return slices.Contains([]string{"github-copilot", "modal", "digitalocean"}, provider) ||
		provider == "openai" && (strings.Contains(model, "gpt-5.5") || strings.Contains(model, "gpt-5.6"))
}

// opencodeCatalog reads the list of models that OpenCode stores. If the file does not
// exist, OpenCode uses a list in its program.
func (h Host) opencodeCatalog() []byte {
	path := h.getenv("OPENCODE_MODELS_PATH")
	if path == "" && h.getenv("OPENCODE_MODELS_URL") != "" {
		return nil // the list from this URL is in a file with another name
	}
	if path == "" {
		path = filepath.Join(h.home("XDG_CACHE_HOME", ".cache"), "opencode", "models.json")
	}
	data, _ := h.read(h.abs(path))
	return data
}

// opencodeLayers reads all settings, the strongest first. It returns false if some of
// them cannot be read as JSON.
func (h Host) opencodeLayers() (layers [][]byte, ok bool) {
	ok = true
	add := func(text []byte) {
		if len(bytes.TrimSpace(text)) == 0 {
			return
		}
		plain, err := hujson.Standardize(append(slices.Clone(text), '\n')) // the newline ends a comment on the last line
		ok = ok && err == nil
		layers = append(layers, plain)
	}
	files := func(dir string, names ...string) {
		for _, name := range names {
			if text, exists := h.read(filepath.Join(dir, name)); exists && dir != "" {
				add(text)
			}
		}
	}
	both := []string{"opencode.jsonc", "opencode.json"}
	files("/etc/opencode", both...)
	if text := h.getenv(opencodeContent); text != "" {
		add([]byte(text))
	}
	if dir := h.getenv("OPENCODE_CONFIG_DIR"); dir != "" {
		files(h.abs(dir), both...)
	}
	home, inHome := h.getenv("HOME"), ""
	if home != "" {
		inHome = filepath.Join(home, ".opencode")
	}
	var dirs []string
	if set := h.getenv("OPENCODE_DISABLE_PROJECT_CONFIG"); set == "" || set == "0" || set == "false" {
		dirs = h.upToRepository()
	}
	if !slices.Contains(dirs, home) {
		files(inHome, both...)
	}
	for _, dir := range slices.Backward(dirs) {
		files(filepath.Join(dir, ".opencode"), both...)
	}
	for _, dir := range dirs {
		files(dir, both...)
	}
	if path := h.getenv(opencodeConfig); path != "" {
		files(filepath.Dir(h.abs(path)), filepath.Base(path))
	}
	if config := h.home("XDG_CONFIG_HOME", ".config"); config != "" {
		files(filepath.Join(config, "opencode"), "opencode.jsonc", "opencode.json", "config.json")
	}
	return layers, ok
}

// upToRepository lists the working folder and the folders above it, up to the top folder
// of the git repository or, outside a repository, up to the root.
func (h Host) upToRepository() (dirs []string) {
	top := h.repository()
	if _, tree := h.read(filepath.Join(top, ".git")); !tree {
		if _, whole := h.read(filepath.Join(top, ".git", "HEAD")); !whole {
			top = "/"
		}
	}
	for dir := h.Dir; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == top || dir == filepath.Dir(dir) {
			return dirs
		}
	}
}
