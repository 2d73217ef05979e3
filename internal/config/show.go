package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"lifeloop/attempt/policy"
	"lifeloop/internal/document"
	"lifeloop/internal/environ"
	"lifeloop/internal/vt"
)

// Show returns the merged configuration as YAML that Load accepts, each value followed
// by its origin. In commands and in the values of env, ${env:VAR} is not expanded. A
// comment names a project's file that is not used.
func Show(cfg Config, origins Origins) string {
	p := printer{origins: origins}
	if cfg.Ignored != nil {
		fmt.Fprintf(&p.out, "# not used: %s\n", text(cfg.Ignored.Error()))
	}
	p.members(reflect.ValueOf(cfg.asWritten()), "", "", "")
	return p.out.String()
}

// ShowJSON is [Show] as JSON: {"config":{…},"origins":{"path":"origin"},
// "ignored":{"path","why"}|null}, with an origin for every value that is not a
// default.
func ShowJSON(cfg Config, origins Origins) ([]byte, error) {
	words := map[string]string{}
	for path, at := range origins {
		words[path] = at.String()
	}
	var ignored any
	if cfg.Ignored != nil {
		ignored = map[string]string{"path": cfg.Ignored.Path, "why": cfg.Ignored.Why}
	}
	return json.Marshal(map[string]any{"config": plain(reflect.ValueOf(cfg.asWritten()), false), "origins": words, "ignored": ignored})
}

// asWritten returns c with the commands and the variables as they were before
// expansion.
func (c Config) asWritten() Config {
	c.Clients = slices.Clone(c.Clients)
	for i, cl := range c.Clients {
		if cl.written != nil {
			c.Clients[i].Command = cl.written
		}
		c.Clients[i].Env = cl.Spec.Written
	}
	c.Attempts.Profiles = slices.Clone(c.Attempts.Profiles)
	for i, p := range c.Attempts.Profiles {
		if p.Written != nil {
			c.Attempts.Profiles[i].Command = p.Written
		}
	}
	c.Profiles = slices.Clone(c.Profiles)
	for i := range c.Profiles {
		p := &c.Profiles[i]
		if p.Prepare.Written != nil {
			p.Prepare.Command = p.Prepare.Written
		}
		if p.Continue.Written != nil {
			p.Continue.Command = p.Continue.Written
		}
		p.Env = p.Spec.Written
	}
	if c.Anchor.written != nil {
		c.Anchor.Command = c.Anchor.written
	}
	c.Anchor.Env = c.Anchor.Spec.Written
	d := &c.Attempts.Retry.Decide
	if d.Written != nil {
		d.Command = d.Written
	}
	d.Env = d.Spec.Written
	return c
}

type printer struct {
	out     bytes.Buffer
	origins Origins
}

// members prints the members of a struct: the first after lead (a list's dash),
// the others after indent.
func (p *printer) members(v reflect.Value, path, lead, indent string) {
	for _, f := range document.Fields(v.Type()) {
		if m := v.FieldByIndex(f.Index); !omitted(m, f) {
			p.member(m, f, document.Join(path, f.Key), lead)
			lead = indent
		}
	}
}

func (p *printer) member(v reflect.Value, f document.Field, path, lead string) {
	inner := strings.Repeat(" ", len(lead)) + "  "
	switch {
	case v.Kind() == reflect.Struct:
		fmt.Fprintf(&p.out, "%s%s:\n", lead, f.Key)
		p.members(v, path, inner, inner)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && v.Len() > 0:
		fmt.Fprintf(&p.out, "%s%s:\n", lead, f.Key)
		for i := range v.Len() {
			p.members(v.Index(i), fmt.Sprintf("%s[%d]", path, i), inner+"- ", inner+"  ")
		}
	case v.Kind() == reflect.Map && v.Len() > 0:
		fmt.Fprintf(&p.out, "%s%s:\n", lead, f.Key)
		values := plain(v, false).(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			p.line(inner, text(key), values[key], document.Join(path, key))
		}
	default:
		p.line(lead, f.Key, plain(v, f.MS), path)
	}
}

func (p *printer) line(lead, key string, value any, path string) {
	fmt.Fprintf(&p.out, "%s%s: %s  # %s\n", lead, key, text(value), vt.Plain(p.origins.Of(path).String()))
}

// omitted reports whether a member is left out: an optional word or list that
// was not given, or a value that was not given and whose absence has a special
// meaning.
func omitted(v reflect.Value, f document.Field) bool {
	switch f.Key {
	case "support", "adapter", "command", "env", "inherit":
		return v.Len() == 0
	case "max_retries":
		return v.Int() == policy.Unset
	case "retry_on", "success_codes":
		return v.IsNil()
	}
	return false
}

// plain converts v to maps, slices and scalars that encoding/json encodes with the keys
// of the file format.
func plain(v reflect.Value, ms bool) any {
	switch {
	case v.Type() != reflect.TypeFor[time.Duration]():
	case ms:
		return v.Int() / int64(time.Millisecond)
	default:
		return time.Duration(v.Int()).String()
	}
	if list, ok := v.Interface().(environ.Names); ok && list.Word() != "" {
		return list.Word()
	}
	switch v.Kind() {
	case reflect.Struct:
		out := map[string]any{}
		for _, f := range document.Fields(v.Type()) {
			if m := v.FieldByIndex(f.Index); !omitted(m, f) {
				out[f.Key] = plain(m, f.MS)
			}
		}
		return out
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, plain(v.Index(i), false))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[k.String()] = plain(v.MapIndex(k), false)
		}
		return out
	}
	return v.Interface()
}

// text returns a value in JSON, which is also YAML. It escapes characters that
// control a terminal.
func text(value any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(vt.NewFilter(&out))
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // cannot fail, because plain returns only values that JSON can represent
	return strings.TrimSuffix(out.String(), "\n")
}
