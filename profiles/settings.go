package profiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// This file handles the JSON form of settings and hooks that Claude Code and
// Gemini CLI have in common.

// settings is one layer of a harness's settings. Members that the wrapper does
// not read are kept byte for byte.
type settings map[string]json.RawMessage

type hookCall struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitempty"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
	Async   bool   `json:"async,omitempty"` // the harness does not wait for the command
}

type hookGroup struct {
	Matcher string     `json:"matcher,omitempty"`
	Hooks   []hookCall `json:"hooks"`
}

// mergeHooks appends, for each event, our groups of hooks to the user's own groups. It
// changes nothing else.
func mergeHooks(user settings, ours map[string][]hookGroup) (settings, error) {
	merged := maps.Clone(user)
	if merged == nil {
		merged = settings{}
	}
	hooks := map[string]json.RawMessage{}
	if raw, ok := user["hooks"]; ok {
		if !isObject(raw) || json.Unmarshal(raw, &hooks) != nil {
			return nil, errors.New("its hooks are not an object")
		}
	}
	for _, event := range slices.Sorted(maps.Keys(ours)) {
		var groups []json.RawMessage
		if raw, ok := hooks[event]; ok {
			if json.Unmarshal(raw, &groups) != nil || groups == nil {
				return nil, fmt.Errorf("its hooks for %s are not a list", event)
			}
		}
		for _, g := range ours[event] {
			groups = append(groups, encode(g))
		}
		hooks[event] = encode(groups)
	}
	merged["hooks"] = encode(hooks)
	return merged, nil
}

// first returns a member's value from the strongest layer that has it.
func first(layers []settings, member string) (json.RawMessage, bool) {
	for _, s := range layers {
		if raw, ok := s[member]; ok {
			return raw, true
		}
	}
	return nil, false
}

func parseSettings(data []byte) (settings, bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var s settings
	if !isObject(data) || json.Unmarshal(data, &s) != nil {
		return nil, false
	}
	return s, true
}

func isObject(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && data[0] == '{'
}
