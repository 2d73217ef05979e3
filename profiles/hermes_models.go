package profiles

import (
	"path/filepath"
	"strconv"
	"strings"

	"lifeloop/internal/document"
)

// hermesWindows finds the context window that Hermes applies to a model, in the files
// beside its database. It follows Hermes's source and was never tested with the program:
//
//	config.yaml                 model: {default: NAME, context_length: N}
//	context_length_cache.yaml   context_lengths: {NAME@URL: N}
//
// The first is the user's, and applies to the named model alone. The second has windows
// that Hermes got from servers. It is used only if config.yaml has no context_length, and
// if all servers have the same window for the model. Neither is used if config.yaml has
// other settings that can replace a window. Hermes has other sources, which are not in
// files.
func hermesWindows(s Source, h Host) Windows {
	if s.Form != Rows {
		return Windows{} // the source is not the database, so Hermes's settings may be in another folder
	}
	dir := filepath.Dir(s.Path)
	config, ok := h.yaml(filepath.Join(dir, "config.yaml"))
	if !ok {
		return Windows{}
	}
	configured, _ := config.Member("model")
	name, fixed := hermesDefault(configured)
	replaced := false
	for _, key := range []string{"custom_providers", "providers", "model_overrides"} {
		_, has := config.Member(key)
		replaced = replaced || has
	}
	learned := map[string]int64{}
	if cache, ok := h.yaml(filepath.Join(dir, "context_length_cache.yaml")); ok {
		lengths, _ := cache.Member("context_lengths")
		for _, m := range lengths.Members {
			model, _, _ := strings.Cut(m.Name, "@")
			n := wholeNumber(m.Value)
			if other, seen := learned[model]; seen && other != n {
				n = 0 // two servers have different windows, so the window is unknown
			}
			learned[model] = n
		}
	}
	return Windows{Of: func(model string) (int64, string) {
		switch {
		case model == "" || replaced:
			return 0, ""
		case fixed > 0 && model == name:
			return fixed, "settings"
		case fixed > 0:
			return 0, "" // some versions of Hermes use context_length for other models too, and some do not
		}
		return learned[model], "catalog"
	}}
}

// hermesDefault returns the name of the configured model and its context window. A name
// that the configuration does not give is empty, and a window that it does not give is 0.
func hermesDefault(model document.Value) (name string, window int64) {
	if model.Kind == document.String {
		return model.Text, 0
	}
	for _, key := range []string{"default", "model"} {
		if v, ok := model.Member(key); ok && name == "" {
			name = v.Text
		}
	}
	length, _ := model.Member("context_length")
	return name, wholeNumber(length)
}

func wholeNumber(v document.Value) int64 {
	n, err := strconv.ParseInt(v.Text, 10, 53)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// yaml reads a file. A missing file counts as empty. It returns false if the file
// cannot be parsed.
func (h Host) yaml(path string) (document.Value, bool) {
	data, exists := h.read(path)
	if !exists {
		return document.Value{}, true
	}
	if h.YAML == nil {
		return document.Value{}, false
	}
	v, err := h.YAML(data)
	return v, err == nil
}
