package config

import (
	"cmp"
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
	"lifeloop/internal/environ"
	"lifeloop/internal/trust"
	"lifeloop/lifeloop"
	"lifeloop/renewal/profile"
)

// ProjectFile is the name of a project's file.
const ProjectFile = ".lifeloop.yaml"

// Options are the sources of a configuration. Load reads nothing else.
type Options struct {
	Getenv  func(string) string // os.Getenv; an empty variable counts as unset
	WorkDir string              // the working directory; absolute
	File    string              // the value of --config; this file replaces the two usual files
	// Flags holds the given flags by name without dashes, each with its values
	// in order. [HasFlag] must be true for each name.
	Flags    map[string][]string
	ReadFile func(string) ([]byte, error) // [trust.ReadFile]
	// Project finds the project's file; nil means that there is none. stateDir is
	// the state folder that the other sources set, because a project's file must
	// not choose the folder that records whether it is trusted.
	Project func(stateDir string) trust.File
}

// Load merges defaults, the user's file, the project's file, LIFELOOP_*
// variables and flags. A later source overrides an earlier one. A project's file
// that is not trusted is not parsed, and [Config.Ignored] names it.
//
// A value replaces the earlier value completely, even if it is a list; but the flags
// --require, --profile and --fallback add to their lists. A mapping is merged key by
// key. Clients are merged by id, and profiles by name: a later one replaces an earlier
// one, and others are added. Each scalar outside lists and outside mappings with free
// keys, such as env, has a variable, which is named after the path of the scalar:
// LIFELOOP_PRESSURE_HIGH for pressure.high.
//
// A relative state_dir, log_file, policy, anchor.file or program (the first word of
// a command, if it has a slash) is relative to the folder of the file that contains
// it, or to the working directory for a variable or a flag. A program without a slash is
// searched for in PATH; the words after the program are not resolved.
func Load(opts Options) (Config, Origins, error) {
	files, err := opts.userFile()
	if err != nil {
		return Config{}, nil, err
	}
	cfg, origins, err := opts.merged(files)
	if err == nil && opts.File == "" && opts.Project != nil {
		switch project := opts.Project(cfg.StateDir); {
		case project.Path == "":
		case project.Refused != nil:
			cfg.Ignored = project.Refused
		default:
			cfg, origins, err = opts.merged(append(files, source{project.Path, project.Data}))
		}
	}
	if err == nil {
		err = check(cfg, origins)
	}
	if err != nil {
		return Config{}, nil, err
	}
	return cfg, origins, nil
}

// merged merges the files, the variables and the flags.
func (o Options) merged(files []source) (Config, Origins, error) {
	cfg, origins := Default(), Origins{}
	for _, f := range files {
		if err := o.mergeFile(&cfg, origins, f); err != nil {
			return Config{}, nil, err
		}
	}
	if err := o.mergeEnv(&cfg, origins); err != nil {
		return Config{}, nil, err
	}
	if err := o.mergeFlags(&cfg, origins); err != nil {
		return Config{}, nil, err
	}
	return cfg, origins, o.stateDir(&cfg)
}

type source struct {
	path string
	data []byte
}

// userFile reads the file of --config, which must exist, or else the user's own
// file, if there is one.
func (o Options) userFile() ([]source, error) {
	path := o.absolute(o.File)
	if o.File == "" {
		dir := o.xdg("XDG_CONFIG_HOME", ".config")
		if dir == "" {
			return nil, nil
		}
		path = filepath.Join(dir, "lifeloop", "config.yaml")
	}
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
	// The layer is decoded over the values of the earlier layers, so a member
	// that the layer omits keeps its value. The layer's clients, profiles and
	// lists do not include the earlier ones.
	next, given := *cfg, Origins{}
	next.Clients, next.Profiles = nil, nil
	root, err := yaml.Parse(f.data)
	if err == nil && root.Line > 0 {
		err = document.Decode(root, &next, "", func(path string, v document.Value) { given[path] = Origin{File: f.path, Line: v.Line} })
	}
	if err != nil {
		return located(err, f.path)
	}
	if err := o.settle(&next, given, filepath.Dir(f.path)); err != nil {
		return err
	}
	return merge(cfg, origins, next, given)
}

// located adds the file and the position to the beginning of a document's
// error.
func located(err error, file string) error {
	if fault, ok := errors.AsType[*document.Error](err); ok {
		return errors.New(fault.In(file))
	}
	return err
}

// merge replaces cfg by next, a copy of cfg in which one layer (a file or a flag) has
// set its values. But next.Clients and next.Profiles have only the entries of the
// layer: merge adds them to the entries of cfg.
func merge(cfg *Config, origins Origins, next Config, given Origins) error {
	if err := cmp.Or(unique("clients", next.Clients, given), unique("profiles", next.Profiles, given)); err != nil {
		return err
	}
	next.Clients = mergeEntries("clients", cfg.Clients, next.Clients, origins, given)
	next.Profiles = mergeEntries("profiles", cfg.Profiles, next.Profiles, origins, given)
	*cfg = next

	// A new list replaces an earlier list, so drop the origins of the earlier entries.
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(given)), func(p string) bool { return below(p, "clients") || below(p, "profiles") })
	for _, p := range paths {
		origins.drop(p)
	}
	for _, p := range paths {
		origins[p] = given[p]
	}
	return nil
}

// entryID returns the id by which entries of a list are merged, its key, and
// the word for such an entry in messages.
func entryID(entry any) (key, word, id string) {
	switch e := entry.(type) {
	case Client:
		return "id", "client", e.ID
	case profile.Profile:
		return "name", "profile", e.Name
	}
	panic("config: entries without an id")
}

// mergeEntries merges the entries of a layer into the earlier ones.
func mergeEntries[T any](list string, earlier, added []T, origins, from Origins) []T {
	merged := slices.Clone(earlier)
	for i, e := range added {
		_, _, id := entryID(e)
		j := slices.IndexFunc(merged, func(old T) bool { _, _, was := entryID(old); return was == id })
		if j < 0 {
			j = len(merged)
			merged = append(merged, e)
		}
		merged[j] = e
		at := fmt.Sprintf("%s[%d]", list, j)
		origins.drop(at)
		origins.graft(from, fmt.Sprintf("%s[%d]", list, i), at)
	}
	return merged
}

// unique rejects two entries with one id in one layer. Across layers, a later entry
// replaces an earlier one.
func unique[T any](list string, entries []T, origins Origins) error {
	for i, e := range entries {
		key, word, id := entryID(e)
		at := func(i int) string { return fmt.Sprintf("%s[%d].%s", list, i, key) }
		if j := slices.IndexFunc(entries[:i], func(d T) bool { _, _, other := entryID(d); return other == id }); j >= 0 {
			return fmt.Errorf("%s: %s: a second %s %q; %ss must be unique (the first: %s)", origins.Of(at(i)), at(i), word, id, key, origins.Of(at(j)))
		}
	}
	return nil
}

// mergeEnv reads the variable of every scalar outside lists and maps.
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

// envName returns the name of the variable for the value at path.
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

// scalarFlags maps each flag that sets a single value to the path of that
// value.
func scalarFlags() map[string]string {
	return map[string]string{
		"state-dir":       "state_dir",
		"log-level":       "log_level",
		"log-file":        "log_file",
		"client-drain":    "client_drain",
		"subagent-frames": "subagent_frames",
		"on-ledger-error": "on_ledger_error",
		"contain":         "contain",
		"on-limit":        "on_limit",
		"archive":         "archive",
		"policy":          "policy",
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

// listFlag returns the parser of a flag that has a special format, or nil.
func listFlag(name string) func(*Config, Origins, []string) error {
	return map[string]func(*Config, Origins, []string) error{
		"client": clientFlag, "require": requireFlag, "fallback": fallbackFlag, "meta": metaFlag, "backoff": backoffFlag,
		"profile": profileFlag,
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
		next.Clients, next.Profiles = nil, nil
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

// fallbackFlag reads each value as a command line, and adds a profile with this command
// to attempts.profiles.
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

// profileFlag activates profiles, in addition to those that are active.
func profileFlag(cfg *Config, given Origins, values []string) error {
	active := slices.Clone(cfg.Renewal.Profiles)
	for _, name := range values {
		if !slices.Contains(active, name) {
			given[fmt.Sprintf("renewal.profiles[%d]", len(active))] = Origin{Flag: "profile"}
			active = append(active, name)
		}
	}
	cfg.Renewal.Profiles = active
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

// settle resolves the values of one layer: it joins relative paths to dir and
// expands ${env:VAR} in commands and variables.
func (o Options) settle(cfg *Config, given Origins, dir string) error {
	for path, p := range map[string]*string{"state_dir": &cfg.StateDir, "log_file": &cfg.LogFile, "policy": &cfg.Policy, "anchor.file": &cfg.Anchor.File} {
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
		if err := o.settleEnv(&c.Spec, given, fmt.Sprintf("clients[%d].env", i)); err != nil {
			return err
		}
	}
	for i := range cfg.Profiles {
		if err := o.settleProfile(&cfg.Profiles[i], given, fmt.Sprintf("profiles[%d]", i), dir); err != nil {
			return err
		}
	}
	if err := cmp.Or(o.settleCommand(&cfg.Anchor.Command, &cfg.Anchor.written, given, "anchor.command", dir),
		o.settleEnv(&cfg.Anchor.Spec, given, "anchor.env")); err != nil {
		return err
	}
	d := &cfg.Attempts.Retry.Decide
	if err := o.settleCommand(&d.Command, &d.Written, given, "attempts.retry.decide.command", dir); err != nil {
		return err
	}
	if err := o.settleEnv(&d.Spec, given, "attempts.retry.decide.env"); err != nil {
		return err
	}
	for i := range cfg.Attempts.Profiles {
		p, path := &cfg.Attempts.Profiles[i], fmt.Sprintf("attempts.profiles[%d].command", i)
		if err := o.settleCommand(&p.Command, &p.Written, given, path, dir); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) settleProfile(p *profile.Profile, given Origins, path, dir string) error {
	return cmp.Or(
		o.settleCommand(&p.Prepare.Command, &p.Prepare.Written, given, path+".prepare.command", dir),
		o.settleCommand(&p.Continue.Command, &p.Continue.Written, given, path+".continue.command", dir),
		o.settleEnv(&p.Spec, given, path+".env"))
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

// settleEnv expands ${env:VAR} in the values of e.Env; path is the path of e.Env. Values
// that are not in given are skipped, because an earlier layer has expanded them.
func (o Options) settleEnv(e *environ.Spec, given Origins, path string) error {
	if len(e.Env) == 0 {
		return nil
	}
	full, written := maps.Clone(e.Env), map[string]string{}
	maps.Copy(written, e.Written)
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		at, ok := given[document.Join(path, name)]
		if !ok {
			continue
		}
		value, err := expand(e.Env[name], o.Getenv)
		if err != nil {
			return fmt.Errorf("%s: %s.%s: %w", at, path, name, err)
		}
		full[name], written[name] = value, e.Env[name]
	}
	e.Env, e.Written = full, written
	return nil
}

// stateDir sets the default state directory.
func (o Options) stateDir(cfg *Config) error {
	if cfg.StateDir != "" {
		return nil
	}
	dir := o.xdg("XDG_STATE_HOME", ".local/state")
	if dir == "" {
		return errors.New("no state directory: neither HOME nor XDG_STATE_HOME is an absolute path; set one, or give --state-dir")
	}
	cfg.StateDir = filepath.Join(dir, "lifeloop")
	return nil
}

// xdg returns the base directory that the variable called name contains, or its
// default below the home directory. It returns "" if neither that variable nor HOME is
// an absolute path. The XDG specification requires that a relative path is ignored.
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
