package acts

import (
	"path"
	"slices"
	"strings"

	"lifeloop/gate"
	"lifeloop/telemetry"
)

// The data classes of targets, which a policy can match. A target has at most one
// class; a path with several classes is several targets.
const (
	// Undecidable marks a command whose effect is known only when it runs, a path that is
	// written or deleted and whose name is known only then, or arguments of a tool that do
	// not show all that the call does.
	Undecidable = "undecidable"
	// OutsideWrite marks a path outside the workspace that is written or deleted.
	OutsideWrite = "outside_write"
	// Secret marks a file that usually holds keys or passwords.
	Secret = "secret"
	// Destructive marks a command that may destroy data irrecoverably.
	Destructive = "destructive"
	// HarnessSettings marks a file whose change or deletion can disable the hooks of a
	// harness.
	HarnessSettings = "harness_settings"
)

// A Tool is a tool call of a harness.
type Tool struct{ telemetry.ToolUse }

// Intent returns the intent of a tool call. The intent's tool name is "tool." followed by
// the harness's name of the tool in lower case. Paths below the workspace are relative
// to it, and paths below the user's home begin with ~/.
func (t Tool) Intent(s Scene) (gate.Intent, error) {
	c := collector{scene: s}
	if t.Dir != "" && path.IsAbs(t.Dir) {
		c.dir = path.Clean(t.Dir)
	} else {
		c.dir = path.Join(s.Workspace, t.Dir)
	}
	for _, p := range t.Paths {
		switch c.literal = t.Literal() && p.Op != "match"; p.Op {
		case "match":
			c.match(p.Path)
		case "read":
			c.path(p.Path, opContent, []string{c.dir})
		default:
			c.path(p.Path, p.Op, []string{c.dir})
		}
	}
	c.literal = false
	for _, u := range t.URLs {
		c.add(gate.Target{Kind: "url", Value: u, Operation: "get"})
	}
	for _, line := range t.Commands {
		c.shell(line)
	}
	if t.Opaque {
		c.undecidable("arguments")
	}
	if len(c.targets) == 0 {
		c.add(gate.Target{Kind: "other", Value: t.Name, Operation: "call", EndpointClass: "other"})
	}
	risk := riskLow
	if slices.ContainsFunc(c.targets, func(t gate.Target) bool { return t.EndpointClass != "fs.read" && t.Operation != "call" }) {
		risk = riskHigh
	}
	args := map[string]any{}
	if t.Args != nil {
		args["arguments_digest"], args["argument_bytes"] = strings.TrimPrefix(t.Args.Digest, "sha256:"), t.Args.Size
	}
	return s.intent("tool."+strings.ToLower(t.Name), risk, args, c.targets)
}

// A collector gathers the targets of one tool call.
type collector struct {
	scene    Scene
	dir      string // the working directory
	targets  []gate.Target
	has      map[gate.Target]bool
	paths    int // the number of targets that are paths
	placed   []copied
	links    map[[2]string]bool // the answers of isLink
	steps    int                // the number of commands analysed so far
	read     int                // the number of words analysed so far (see maxWords)
	numbers  arithmetic
	choosing int  // the number of choices (see arg) and of words made from braces, counted by collector.made
	literal  bool // in a path, characters such as * stand for themselves
}

// maxPaths limits the paths among the targets of one tool call, because each path may be
// resolved from many working directories. A call that touches more paths is undecidable.
// Other targets need no limit: there are at most as many of them as analysed words.
const maxPaths = 10000

// add adds a target, once.
func (c *collector) add(t gate.Target) {
	if c.has == nil {
		c.has = map[gate.Target]bool{}
	}
	if !c.has[t] {
		c.has[t] = true
		c.targets = append(c.targets, t)
		if t.Kind == "path" {
			c.paths++
		}
	}
}

// undecidable adds a target of the class Undecidable. The parameter what is the part of the
// call that cannot be decided: "command", "path" or "arguments".
func (c *collector) undecidable(what string) {
	c.add(gate.Target{Kind: "other", Value: what, Operation: "exec", EndpointClass: "proc.exec", Sensitivity: Undecidable})
}

// path adds a path, resolved from each of the possible working directories.
func (c *collector) path(p, op string, dirs []string) {
	if p == "" {
		return
	}
	for _, dir := range dirs {
		if c.paths >= maxPaths {
			c.undecidable("path")
			return
		}
		c.onePath(p, op, dir)
	}
}

// match adds the files that a search tool may read. The parameter pattern may hold several
// patterns, and each of them may have alternatives, as in *.{pem,key}. match ignores those
// that begin with !, because they exclude files.
func (c *collector) match(pattern string) {
	list, ok := alternatives(strings.ReplaceAll(pattern, `\`, ""))
	if !ok {
		c.undecidable("path")
	}
	for _, one := range list {
		for _, part := range strings.FieldsFunc(one, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' }) {
			if !strings.HasPrefix(part, "!") {
				c.path(part, opContent, []string{c.dir})
			}
		}
	}
}

// alternatives returns the patterns that {a,b} in a pattern expands to. ok is false if there
// are too many of them, or if a pattern with a { is too long.
func alternatives(pattern string) (all []string, ok bool) {
	all = []string{pattern}
	if len(pattern) > 4<<10 {
		return all, !strings.Contains(pattern, "{")
	}
	for i := 0; i < len(all); {
		p := all[i]
		end := strings.IndexByte(p, '}')
		start := strings.LastIndexByte(p[:max(end, 0)], '{')
		if start < 0 {
			i++
			continue
		}
		all = slices.Delete(all, i, i+1)
		for alternative := range strings.SplitSeq(p[start+1:end], ",") {
			all = append(all, p[:start]+alternative+p[end+1:])
		}
		if len(all) > 64 {
			return all, false
		}
	}
	return all, true
}

// The operations on paths, besides read, write and delete.
const (
	opContent = "content" // reads a file; "read" is for a word that may also name a folder or be no path at all
	opName    = "name"    // uses the name of a file, not its content
	opPut     = "put"     // writes a file without showing what it held
)

func (c *collector) onePath(p, op, dir string) {
	shows := op
	if op = map[string]string{opContent: "read", opName: "read", opPut: "write"}[op]; op == "" {
		op = shows
	}
	if i := strings.IndexAny(p, "*?["); !c.literal && i >= 0 && strings.Contains(p[i:], "/..") {
		c.undecidable("path")
		return
	}
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		if c.scene.Home == "" {
			c.undecidable("path")
			return
		}
		p = c.scene.Home + p[1:]
	case strings.HasPrefix(p, "~"):
		c.undecidable("path")
		return
	case !path.IsAbs(p) && dir == "":
		if op != "read" {
			c.undecidable("path")
		}
		return
	case !path.IsAbs(p):
		p = dir + "/" + p
	}
	if op != "read" && !c.literal && (globFolder(p) || matchesParent(path.Base(p))) { // the pattern may match a link, or ..
		c.undecidable("path")
		return
	}
	if op != "read" && c.throughCopy(path.Clean(p), op) {
		c.undecidable("path")
	}
	linked := p
	p = path.Clean(p)
	if slices.Contains([]string{"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"}, p) || strings.HasPrefix(p, "/dev/fd/") {
		return
	}
	written := p
	if c.scene.Resolve != nil {
		parent, base := path.Split(linked)
		if op == "delete" && base != "" { // deleting a link does not delete its target
			p = path.Join(c.scene.Resolve(parent), base)
		} else {
			p = c.scene.Resolve(linked)
		}
	}
	shown, outside := c.scene.shown(p)
	outside = outside && (op == "delete" || shown != ".") // writing to the workspace folder writes a file inside it
	t := gate.Target{Kind: "path", Value: shown, Operation: op, EndpointClass: "fs." + op}
	secret := isSecret(written) || isSecret(p) || isSecret(shown) || shows == opContent && (path.Base(p) == "credentials" || dotFiles(path.Base(p)))
	n := len(c.targets)
	for class, has := range map[string]bool{
		OutsideWrite: op != "read" && outside, Secret: secret && shows != opName && (shows != opPut || outside),
		HarnessSettings: op != "read" && (telemetry.IsSettings(written) || telemetry.IsSettings(p)),
	} {
		if has {
			t.Sensitivity = class
			c.add(t)
		}
	}
	if len(c.targets) == n {
		c.add(t)
	}
}

// globFolder reports whether a path has a pattern before its last part.
func globFolder(p string) bool {
	return strings.ContainsAny(path.Dir(strings.TrimRight(p, "/")), "*?[")
}

// matchesParent reports whether a pattern, the last part of a path, may match .., the folder
// above.
func matchesParent(pattern string) bool {
	if !strings.HasPrefix(pattern, ".") || !strings.ContainsAny(pattern, "*?[") {
		return false
	}
	matches, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), "..")
	return matches || err != nil || strings.Contains(pattern, "[:")
}

// shown returns a path in the form that intents have, and whether it is outside the
// workspace. The workspace folder itself is "." and counts as outside, because deleting
// it is not allowed.
func (s Scene) shown(p string) (shown string, outside bool) {
	if p == path.Clean(s.Workspace) {
		return ".", true
	}
	if rest, below := strings.CutPrefix(p, strings.TrimSuffix(s.Workspace, "/")+"/"); below {
		return rest, false
	}
	if rest, below := strings.CutPrefix(p, s.Home+"/"); below && s.Home != "" {
		return "~/" + rest, true
	}
	return p, true
}

// isSecret reports whether a path usually holds keys or passwords. A pattern counts if
// it matches the name of such a file.
func isSecret(p string) bool {
	for _, dir := range []string{"/.ssh/", "/.aws/", "/.gnupg/", "/.kube/", "/.azure/", "/.config/gcloud/", "/.config/gh/", "/.password-store/"} {
		if strings.Contains(p+"/", dir) || strings.HasPrefix(p+"/", dir[1:]) {
			return true
		}
	}
	base := original(path.Base(p))
	for _, end := range []string{".example", ".sample", ".template", ".dist", ".pub"} {
		if strings.HasSuffix(base, end) {
			return false
		}
	}
	names := []string{".env", ".envrc", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", "credentials.json",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".docker/config.json"}
	if base == "credentials" && strings.HasPrefix(path.Base(path.Dir(p)), ".") && path.Dir(p) != "." && path.Base(path.Dir(p)) != ".." {
		return true // as ~/.cargo/credentials; elsewhere, a file or folder of source code often has this name
	}
	if slices.Contains(names, base) || p == "/etc/shadow" || p == "/etc/gshadow" || strings.HasSuffix(p, "/.docker/config.json") || telemetry.HoldsLogin(p) {
		return true
	}
	for _, pattern := range []string{".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "hook-key-*"} {
		if ok, _ := path.Match(pattern, base); ok {
			return true
		}
	}
	if name, is := strings.CutSuffix(base, ".env"); is && !hasWord("example sample template process import.meta meta Deno Bun", name) { // as prod.env, not the variable process.env
		return true
	}
	literal := 0 // the characters of base that are not part of a pattern's syntax
	for i := range len(base) {
		if strings.IndexByte("*?[]", base[i]) < 0 {
			literal++
		}
	}
	if literal == len(base) || literal < 2 {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool {
		ok, _ := path.Match(base, name)
		return ok && (name[0] == '.' || 2*literal >= len(name)) // a pattern such as *.json, with few letters of the name, is not meant for credentials.json
	})
}

// original returns the name of the edited file for the name of a copy that an editor
// keeps: x for x~, x.bak and .x.swp.
func original(base string) string {
	if name, is := strings.CutSuffix(base, ".swp"); is {
		base = strings.TrimPrefix(name, ".")
	}
	for _, end := range []string{"~", ".bak", ".backup", ".old", ".orig", ".save"} {
		base = strings.TrimSuffix(base, end)
	}
	return base
}

// dotFiles reports whether base is a pattern such as .* or .e*, which matches .env among
// other names that begin with a dot.
func dotFiles(base string) bool {
	ok, _ := path.Match(base, ".env")
	return ok && base[0] == '.' && strings.ContainsAny(base, "*?[")
}
