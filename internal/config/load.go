package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"lifeloop/attempt"
	"lifeloop/attempt/policy"
	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
	"lifeloop/lifeloop"
)

// ProjectFile is searched in the working directory and in each directory above
// it.
const ProjectFile = ".lifeloop.yaml"

// maxFile bounds a configuration file, in bytes: a project's file is not trusted.
const maxFile = 64 << 10

// Options are the sources of a configuration. Load reads nothing else.
type Options struct {
	Getenv  func(string) string // os.Getenv; an empty variable counts as unset
	WorkDir string              // absolute
	File    string              // --config: replaces the two usual files
	// Flags holds the given flags by name without dashes, each with its values
	// in order. [HasFlag] must be true for each name.
	Flags    map[string][]string
	ReadFile func(string) ([]byte, error) // os.ReadFile
}

// Load merges defaults, the user's file, the project's file, LIFELOOP_*
// variables and flags. A later source overrides an earlier one.
//
// A value replaces the earlier one completely, also a list. Clients are merged
// by id: a later client replaces an earlier one with the same id, and others
// are added. Every value outside lists has a variable: its path in upper case,
// LIFELOOP_PRESSURE_HIGH for pressure.high.
//
// A relative state_dir, log_file or program (the first word of a command, if it
// has a slash) is relative to the folder of the file that contains it, or to
// the working directory for a variable or a flag. A program without a slash is
// searched in PATH; the words after it are not changed.
func Load(opts Options) (Config, Origins, error) {
	cfg, origins := Default(), Origins{}
	files, err := opts.files()
	if err != nil {
		return Config{}, nil, err
	}
	for _, f := range files {
		if err := opts.mergeFile(&cfg, origins, f); err != nil {
			return Config{}, nil, err
		}
	}
	if err := opts.mergeEnv(&cfg, origins); err != nil {
		return Config{}, nil, err
	}
	if err := opts.mergeFlags(&cfg, origins); err != nil {
		return Config{}, nil, err
	}
	if err := opts.stateDir(&cfg); err != nil {
		return Config{}, nil, err
	}
	if err := check(cfg, origins); err != nil {
		return Config{}, nil, err
	}
	return cfg, origins, nil
}

type source struct {
	path string
	data []byte
}

// files reads the files to merge, first to last.
func (o Options) files() (files []source, err error) {
	if o.File != "" {
		return o.read(o.absolute(o.File))
	}
	if dir := o.xdg("XDG_CONFIG_HOME", ".config"); dir != "" {
		if files, err = o.read(filepath.Join(dir, "lifeloop", "config.yaml")); err != nil {
			return nil, err
		}
	}
	for dir := filepath.Clean(o.WorkDir); filepath.IsAbs(dir); dir = filepath.Dir(dir) {
		project, err := o.read(filepath.Join(dir, ProjectFile))
		if err != nil || len(project) > 0 || dir == filepath.Dir(dir) {
			return append(files, project...), err
		}
	}
	return files, nil
}

// read reads the file at path. Only the file that --config names must exist.
func (o Options) read(path string) ([]source, error) {
	data, err := o.ReadFile(path)
	if o.File == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return []source{{path, data}}, nil
}

func (o Options) mergeFile(cfg *Config, origins Origins, f source) error {
	if len(f.data) > maxFile {
		return fmt.Errorf("%s: too large for a configuration file (limit: %d KiB)", f.path, maxFile>>10)
	}
	// The layer is decoded over the earlier ones, so that members it does not
	// give stay; its clients and lists are its own.
	next, given := *cfg, Origins{}
	next.Clients = nil
	root, err := yaml.Parse(f.data)
	if err == nil && root.Line > 0 {
		err = document.Decode(root, &next, "", func(path string, v document.Value) { given[path] = Origin{File: f.path, Line: v.Line} })
	}
	if fault, ok := errors.AsType[*document.Error](err); ok {
		return errors.New(fault.In(f.path))
	}
	if err := o.settle(&next, given, filepath.Dir(f.path)); err != nil {
		return err
	}
	return merge(cfg, origins, next, given)
}

// merge replaces cfg by next, which is cfg with the values of a layer. The
// clients of next are the layer's own and are merged into those of cfg.
func merge(cfg *Config, origins Origins, next Config, given Origins) error {
	if err := unique(next.Clients, given); err != nil {
		return err
	}
	added := next.Clients
	next.Clients = cfg.Clients
	mergeClients(&next, origins, added, given)
	*cfg = next

	// A list replaces the earlier one with all its entries.
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(given)), func(p string) bool { return below(p, "clients") })
	for _, p := range paths {
		origins.drop(p)
	}
	for _, p := range paths {
		origins[p] = given[p]
	}
	return nil
}

// mergeClients merges the clients of a layer into those of cfg.
func mergeClients(cfg *Config, origins Origins, added []Client, from Origins) {
	merged := slices.Clone(cfg.Clients)
	for i, c := range added {
		j := slices.IndexFunc(merged, func(old Client) bool { return old.ID == c.ID })
		if j < 0 {
			j = len(merged)
			merged = append(merged, c)
		}
		merged[j] = c
		at := fmt.Sprintf("clients[%d]", j)
		origins.drop(at)
		origins.graft(from, fmt.Sprintf("clients[%d]", i), at)
	}
	cfg.Clients = merged
}

// unique rejects two clients with one id in one layer. Across layers, a later
// client replaces an earlier one.
func unique(clients []Client, origins Origins) error {
	for i, c := range clients {
		if j := slices.IndexFunc(clients[:i], func(d Client) bool { return d.ID == c.ID }); j >= 0 {
			return fmt.Errorf("%s: clients[%d].id: a second client %q; ids are unique (the first: %s)", origins.Of(fmt.Sprintf("clients[%d].id", i)), i, c.ID, origins.Of(fmt.Sprintf("clients[%d].id", j)))
		}
	}
	return nil
}

// mergeEnv reads the variable of every scalar outside lists.
func (o Options) mergeEnv(cfg *Config, origins Origins) error {
	given := Origins{}
	err := scalars(reflect.ValueOf(cfg).Elem(), "", func(path string, v reflect.Value, ms bool) error {
		name := envName(path)
		text := o.Getenv(name)
		if text == "" {
			return nil
		}
		given[path] = Origin{Env: name}
		if err := document.SetText(v, text, ms); err != nil {
			return fmt.Errorf("env %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	maps.Copy(origins, given)
	return o.settle(cfg, given, o.WorkDir)
}

// envName is the variable of the value at path.
func envName(path string) string {
	return "LIFELOOP_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// scalars calls f for every scalar in v, except those in lists and maps.
func scalars(v reflect.Value, path string, f func(path string, v reflect.Value, ms bool) error) error {
	for _, fl := range document.Fields(v.Type()) {
		member, at := v.FieldByIndex(fl.Index), document.Join(path, fl.Key)
		var err error
		switch member.Kind() {
		case reflect.Slice, reflect.Map:
		case reflect.Struct:
			err = scalars(member, at, f)
		default:
			err = f(at, member, fl.MS)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scalarFlags names the value that each plain flag sets.
func scalarFlags() map[string]string {
	return map[string]string{
		"state-dir":       "state_dir",
		"log-level":       "log_level",
		"log-file":        "log_file",
		"client-drain":    "client_drain",
		"subagent-frames": "subagent_frames",
		"on-ledger-error": "on_ledger_error",
		"on-limit":        "on_limit",
		"retries":         "attempts.retry.attempts",
		"max-retries":     "attempts.retry.max_retries",
		"timeout-initial": "attempts.timeouts_ms.initial",
		"timeout-inter":   "attempts.timeouts_ms.inter",
		"timeout-tool":    "attempts.timeouts_ms.tool",
		"max-duration":    "attempts.timeouts_ms.session",
		"idle-timeout":    "attempts.timeouts_ms.idle",
		"abort-grace":     "attempts.timeouts_ms.abort_grace",
	}
}

// listFlag returns the parser of a flag with a format of its own, or nil.
func listFlag(name string) func(*Config, Origins, []string) error {
	return map[string]func(*Config, Origins, []string) error{
		"client": clientFlag, "require": requireFlag, "fallback": fallbackFlag, "meta": metaFlag, "backoff": backoffFlag,
	}[name]
}

// HasFlag reports whether the flag (without dashes) sets a part of the
// configuration, and may be in [Options.Flags].
func HasFlag(name string) bool {
	return scalarFlags()[name] != "" || listFlag(name) != nil
}

func (o Options) mergeFlags(cfg *Config, origins Origins) error {
	// Sorted, so that the same command line gives the same error.
	for _, name := range slices.Sorted(maps.Keys(o.Flags)) {
		values := o.Flags[name]
		if !HasFlag(name) {
			return fmt.Errorf("flag --%s: not a setting of the configuration", name)
		}
		if len(values) == 0 {
			continue
		}
		next, given := *cfg, Origins{}
		next.Clients = nil
		var err error
		if set := listFlag(name); set != nil {
			err = set(&next, given, values)
		} else {
			err = setScalar(&next, given, name, values[len(values)-1])
		}
		if err != nil {
			return fmt.Errorf("flag --%s: %w", name, err)
		}
		if err := o.settle(&next, given, o.WorkDir); err != nil {
			return err
		}
		if err := merge(cfg, origins, next, given); err != nil {
			return err
		}
	}
	return nil
}

func setScalar(cfg *Config, given Origins, name, text string) error {
	target := scalarFlags()[name]
	return scalars(reflect.ValueOf(cfg).Elem(), "", func(path string, v reflect.Value, ms bool) error {
		if path != target {
			return nil
		}
		given[path] = Origin{Flag: name}
		return document.SetText(v, text, ms)
	})
}

func clientFlag(cfg *Config, given Origins, values []string) error {
	for i, text := range values {
		c, err := ParseClientFlag(text)
		if err != nil {
			return err
		}
		cfg.Clients = append(cfg.Clients, c)
		for _, key := range []string{"", ".id", ".command", ".events"} {
			given[fmt.Sprintf("clients[%d]%s", i, key)] = Origin{Flag: "client"}
		}
	}
	return nil
}

// requireFlag reads CAP=LEVEL[:partial].
func requireFlag(cfg *Config, given Origins, values []string) error {
	cfg.Requires = slices.Clone(cfg.Requires)
	for _, text := range values {
		capability, rest, ok := strings.Cut(text, "=")
		level, partial, cut := strings.Cut(rest, ":")
		if !ok || cut && partial != "partial" {
			return fmt.Errorf("expected CAP=LEVEL or CAP=LEVEL:partial, found %q", text)
		}
		given[fmt.Sprintf("requires[%d]", len(cfg.Requires))] = Origin{Flag: "require"}
		for _, key := range []string{"capability", "level", "accept_partial"} {
			given[fmt.Sprintf("requires[%d].%s", len(cfg.Requires), key)] = Origin{Flag: "require"}
		}
		cfg.Requires = append(cfg.Requires, Require{Capability: capability, Level: lifeloop.Requirement(level), AcceptPartial: cut})
	}
	return nil
}

// fallbackFlag adds a profile for each command line.
func fallbackFlag(cfg *Config, given Origins, values []string) error {
	profiles := slices.Clone(cfg.Attempts.Profiles)
	if len(profiles) == 0 {
		profiles = append(profiles, policy.Profile{Name: "primary"})
	}
	for i, text := range values {
		command, err := split(text)
		if err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		at := fmt.Sprintf("attempts.profiles[%d]", len(profiles))
		for _, key := range []string{"", ".name", ".command"} {
			given[at+key] = Origin{Flag: "fallback"}
		}
		profiles = append(profiles, policy.Profile{Name: fmt.Sprintf("fallback-%d", i+1), Command: command})
	}
	cfg.Attempts.Profiles = profiles
	return nil
}

// metaFlag reads K=V.
func metaFlag(cfg *Config, given Origins, values []string) error {
	meta := map[string]string{}
	maps.Copy(meta, cfg.Attempts.Meta)
	for _, text := range values {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return fmt.Errorf("expected K=V, found %q", text)
		}
		meta[k] = v
		given["attempts.meta."+k] = Origin{Flag: "meta"}
	}
	cfg.Attempts.Meta = meta
	return nil
}

// backoffFlag reads KIND:BASE[:MAX], with BASE and MAX as durations.
func backoffFlag(cfg *Config, given Origins, values []string) error {
	text := values[len(values)-1]
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("expected KIND:BASE or KIND:BASE:MAX, found %q", text)
	}
	b := &cfg.Attempts.Retry.Backoff
	b.Kind = attempt.BackoffKind(parts[0])
	given["attempts.retry.backoff.kind"] = Origin{Flag: "backoff"}
	for i, to := range []*time.Duration{&b.Base, &b.Max} {
		if i+1 == len(parts) {
			break
		}
		if err := document.SetText(reflect.ValueOf(to).Elem(), parts[i+1], true); err != nil {
			return err
		}
		given["attempts.retry.backoff."+[]string{"base_ms", "max_ms"}[i]] = Origin{Flag: "backoff"}
	}
	return nil
}

// settle makes the values of a layer independent of it: relative paths are
// joined to dir, and ${env:VAR} in commands is expanded.
func (o Options) settle(cfg *Config, given Origins, dir string) error {
	for path, p := range map[string]*string{"state_dir": &cfg.StateDir, "log_file": &cfg.LogFile} {
		at, ok := given[path]
		if !ok || *p == "" {
			continue
		}
		if strings.HasPrefix(*p, "~") {
			return fmt.Errorf("%s: %s: ~ is not expanded; write the whole path", at, path)
		}
		if !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	for i := range cfg.Clients {
		c, path := &cfg.Clients[i], fmt.Sprintf("clients[%d].command", i)
		if err := o.settleCommand(&c.Command, &c.written, given, path, dir); err != nil {
			return err
		}
	}
	for i := range cfg.Attempts.Profiles {
		p, path := &cfg.Attempts.Profiles[i], fmt.Sprintf("attempts.profiles[%d].command", i)
		if err := o.settleCommand(&p.Command, &p.Written, given, path, dir); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) settleCommand(command, written *[]string, given Origins, path, dir string) error {
	at, ok := given[path]
	if !ok || len(*command) == 0 {
		return nil
	}
	argv, shown := make([]string, len(*command)), slices.Clone(*command)
	for i, word := range *command {
		full, err := expand(word, o.Getenv)
		if err != nil {
			return fmt.Errorf("%s: %s[%d]: %w", at, path, i, err)
		}
		argv[i] = full
	}
	if strings.HasPrefix(argv[0], "~") {
		return fmt.Errorf("%s: %s[0]: ~ is not expanded; write the whole path", at, path)
	}
	if strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) {
		argv[0] = filepath.Join(dir, argv[0])
	}
	if !strings.Contains(shown[0], "${env:") {
		shown[0] = argv[0]
	}
	*command, *written = argv, shown
	return nil
}

// stateDir sets the default state directory.
func (o Options) stateDir(cfg *Config) error {
	if cfg.StateDir != "" {
		return nil
	}
	dir := o.xdg("XDG_STATE_HOME", ".local/state")
	if dir == "" {
		return errors.New("no state directory: neither HOME nor XDG_STATE_HOME is set; set one, or give --state-dir")
	}
	cfg.StateDir = filepath.Join(dir, "lifeloop")
	return nil
}

// xdg is the base directory in the variable name, or its default below the home
// directory; empty if neither is known. A relative value is ignored, as the XDG
// specification requires.
func (o Options) xdg(name, under string) string {
	if dir := o.Getenv(name); filepath.IsAbs(dir) {
		return dir
	}
	if home := o.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, under)
	}
	return ""
}

func (o Options) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(o.WorkDir, path)
}
