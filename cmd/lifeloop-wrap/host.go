package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/hosts"
	"lifeloop/internal/durable"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/renewal/unwrapped"
	"lifeloop/vault"
)

func hostCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "host",
		Short: "Install or remove hooks in the harness's settings",
		Long: `host installs hooks in a harness's own settings, for runs without the wrapper, and
removes them. It changes no other byte of a settings file, and does not touch a
file that it cannot parse.`,
	})
	cmd.AddCommand(
		g.hostVerb("apply", "Install the hooks", func(h *host) error { return h.edit(h.store.Apply) }),
		g.hostVerb("remove", "Remove the hooks", (*host).remove),
		g.hostVerb("status", "Show whether the hooks are installed", (*host).status))
	return cmd
}

// host is one call of host VERB ADAPTER.
type host struct {
	g       *globals
	cmd     *cobra.Command
	adapter string
	profile string
	scope   string
	dry     bool
	store   *hosts.Store
	vault   *vault.Vault
	in      profiles.Installation
}

func (g *globals) hostVerb(verb, short string, do func(*host) error) *cobra.Command {
	h := &host{g: g}
	cmd := &cobra.Command{
		Use: verb + " ADAPTER", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h.cmd, h.adapter = cmd, args[0]
			if err := h.prepare(); err != nil {
				return err
			}
			return hostError(do(h))
		},
	}
	cmd.Flags().StringVar(&h.profile, "profile", "", "`NAME` of a renewal profile that the installed hooks use to renew sessions (default none)")
	cmd.Flags().StringVar(&h.scope, "scope", "user", "settings to change: user or project")
	cmd.Flags().BoolVar(&h.dry, "dry-run", false, "print the changes and make none")
	return cmd
}

func (h *host) prepare() error {
	if h.scope != "user" && h.scope != "project" {
		return usage("--scope %s: want user or project", h.scope)
	}
	profile, ok := profiles.For(h.adapter)
	if !ok {
		return noAdapter(h.adapter)
	}
	if profile.Install == nil {
		return no(lifeloop.CapabilityUnsupported, "adapter %q has no hooks to install", h.adapter).
			withHint("lifeloop-wrap run works without installed hooks")
	}
	cfg, _, err := h.g.load(h.cmd)
	if err != nil {
		return err
	}
	if err := checkHostProfile(cfg, h.adapter, h.profile); err != nil {
		return err
	}
	if h.in, err = installation(profile, h.scope == "project", h.profile); err != nil {
		return err
	}
	if h.profile != "" && h.in.Whole != "" {
		return no(lifeloop.CapabilityUnsupported, "renewal profile %q cannot be installed for adapter %q: this adapter has a plugin and no hooks", h.profile, h.adapter).
			withHint("use lifeloop-wrap run --profile %s instead", h.profile)
	}
	h.store, h.vault = hostStore(cfg.StateDir), hostVault(cfg.StateDir)
	return nil
}

// hostStore returns the store that records which settings files were changed.
func hostStore(stateDir string) *hosts.Store { return hosts.At(filepath.Join(stateDir, "host")) }

// installation returns what to install in the settings of the user, or of the
// project in the working folder. integration is the name of a renewal profile that
// the hooks serve, or empty.
func installation(profile profiles.Profile, project bool, integration string) (profiles.Installation, error) {
	dir, err := os.Getwd()
	if err != nil {
		return profiles.Installation{}, err
	}
	exe, err := ownPath()
	if err != nil {
		return profiles.Installation{}, err
	}
	in, err := profile.Install(project, profiles.Host{Env: os.Environ(), Dir: realPath(dir), Exe: exe, ReadFile: readSettings, Real: realPath, Profile: integration})
	if err != nil {
		return in, no(lifeloop.InvalidRequest, "%v", err)
	}
	return in, nil
}

// surroundings returns the data about this process that package profiles may use. The
// working directory has no symbolic links, because harnesses name folders after
// its real path.
func surroundings() (profiles.Host, error) {
	exe, err := os.Executable()
	if err != nil {
		return profiles.Host{}, fmt.Errorf("find this program: %w", err)
	}
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return profiles.Host{}, fmt.Errorf("find the working directory: %w", err)
	}
	return profiles.Host{Env: os.Environ(), Dir: dir, Exe: exe, Hook: hookWords(exe), ReadFile: readSettings, Real: realPath}, nil
}

// mostSettings is the largest size of a harness's settings file, in bytes.
const mostSettings = 64 << 20

// readSettings reads a file of a harness. The file may come with a checkout and
// could be a FIFO, for which the wrapper must not wait.
func readSettings(path string) ([]byte, error) { return durable.ReadLinked(path, mostSettings) }

// realPath resolves the symbolic links of a path that exists.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// ownPath returns the path of this program to write into settings. It prefers the path
// by which the program was called: a package manager may change the real path with
// each version, and the settings would then name a missing file.
func ownPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	named, err := exec.LookPath(os.Args[0])
	if err != nil {
		return exe, nil
	}
	if named, err = filepath.Abs(named); err != nil {
		return exe, nil
	}
	a, errA := os.Stat(named)
	b, errB := os.Stat(exe)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return exe, nil
	}
	return named, nil
}

func (h *host) edit(edit func(profiles.Installation, bool) ([]hosts.Change, error)) error {
	changes, err := edit(h.in, h.dry)
	if err != nil {
		return err
	}
	out := h.cmd.OutOrStdout()
	if h.g.json {
		type change struct {
			Path    string  `json:"path"`
			Removed bool    `json:"removed"`
			Backup  *string `json:"backup"`
			Diff    string  `json:"diff"`
		}
		list := make([]change, 0, len(changes))
		for _, c := range changes {
			one := change{Path: c.Path, Removed: c.After == nil, Diff: c.Diff()}
			if c.Backup != "" {
				one.Backup = &c.Backup
			}
			list = append(list, one)
		}
		report, err := h.store.Status(h.in)
		if err != nil {
			return err
		}
		return printJSON(out, map[string]any{"adapter_id": h.adapter, "scope": h.scope, "path": h.in.Path,
			"dry_run": h.dry, "state": report.State, "changes": list})
	}
	if len(changes) == 0 {
		_, err := fmt.Fprintf(out, "nothing to do: %s needs no change\n", vt.Plain(h.in.Path))
		return err
	}
	for _, c := range changes {
		switch {
		case h.dry:
			_, err = fmt.Fprint(out, c.Diff())
		case c.After == nil:
			_, err = fmt.Fprintf(out, "removed the file %s, which contained only what \"lifeloop-wrap host apply\" wrote\n", vt.Plain(c.Path))
		case c.Backup == "":
			_, err = fmt.Fprintf(out, "created %s\n", vt.Plain(c.Path))
		default:
			_, err = fmt.Fprintf(out, "changed %s; backup: %s\n", vt.Plain(c.Path), vt.Plain(c.Backup))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove removes the hooks. It also erases the adapter's stored continuations (texts for
// a fresh harness session) for each folder in which no hook delivers them any more; see
// onlyDelivers.
func (h *host) remove() error {
	err := h.edit(h.store.Remove)
	if err != nil || h.dry {
		return err
	}
	only, err := h.onlyDelivers()
	if err != nil {
		return err
	}
	return unwrapped.Forget(h.vault, time.Now(), func(b vault.Binding) bool { return b.Adapter == h.adapter && only(b.Dir) })
}

// onlyDelivers returns a function that reports whether continuations for a folder have
// lost the hooks that deliver them. If the user's hooks were removed, the function
// returns true for every folder. If a project's hooks were removed, it returns true only
// for the project's folder, and only if the user's hooks are not installed.
func (h *host) onlyDelivers() (func(dir string) bool, error) {
	if h.scope == "user" {
		return func(string) bool { return true }, nil
	}
	profile, _ := profiles.For(h.adapter)
	users, err := installation(profile, false, h.profile)
	if err != nil {
		return nil, err
	}
	r, err := h.store.Status(users)
	if err != nil {
		return nil, hostError(err)
	}
	here, err := os.Getwd()
	return func(dir string) bool { return r.State == hosts.NotInstalled && dir == realPath(here) }, err
}

func (h *host) status() error {
	r, err := h.store.Status(h.in)
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(r.State, "_", " ") + ": " + h.in.Path + "\n"
	if len(r.Missing) > 0 {
		text += "missing: " + strings.Join(r.Missing, ", ") + "\n"
	}
	if len(r.Differing) > 0 {
		text += "outdated: " + strings.Join(r.Differing, ", ") + "\n"
	}
	return h.g.print(h.cmd, map[string]any{"adapter_id": h.adapter, "scope": h.scope, "path": h.in.Path,
		"state": r.State, "missing": r.Missing, "differing": r.Differing}, text)
}

// hostError classifies the errors of an edit.
func hostError(err error) error {
	if _, ok := errors.AsType[*hosts.Flaw](err); ok {
		return no(lifeloop.OperatorRequired, "%v", err).withHint("nothing was changed; correct the file and try again")
	}
	if _, ok := errors.AsType[*hosts.ConflictError](err); ok {
		return no(lifeloop.StateConflict, "%v", err).withHint("quit the harness and try again")
	}
	return err
}
