//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"lifeloop/control"
	"lifeloop/hosts"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/watchers"
)

// versionPatience bounds how long a harness may take to tell its version.
const versionPatience = 5 * time.Second

func lookPath(programs []string) (string, error) {
	err := error(exec.ErrNotFound)
	for _, name := range programs {
		var path string
		if path, err = exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", err
}

// installedHooks is what host status says of one scope.
type installedHooks struct {
	Scope     string   `json:"scope"`
	Path      string   `json:"path"`
	State     string   `json:"state"` // as of host status, or unreadable
	Missing   []string `json:"missing"`
	Differing []string `json:"differing"`
}

// hooks says what is installed in the user's and the project's settings. That
// nothing is, is a choice; that it is half or an older version's, is not.
func (d *diagnosis) hooks(p profiles.Profile, stateDir string) []installedHooks {
	list := []installedHooks{}
	for _, scope := range []string{"user", "project"} {
		verb := func(what string) string {
			return fmt.Sprintf("lifeloop-wrap host %s %s --scope %s", what, p.Adapter, scope)
		}
		in, err := installation(p, scope == "project")
		var r hosts.Report
		if err == nil {
			r, err = hostStore(stateDir).Status(in)
		}
		one := installedHooks{Scope: scope, Path: in.Path, State: r.State, Missing: append([]string{}, r.Missing...), Differing: append([]string{}, r.Differing...)}
		switch {
		case err != nil:
			one.State = "unreadable"
			d.problem(p.Adapter, fmt.Sprintf("the %s settings are not understood: %v", scope, err), cmpPath("${EDITOR:-vi} "+quoted(in.Path), in.Path, verb("status")))
		case r.State == "partly":
			d.problem(p.Adapter, fmt.Sprintf("of our hooks in %s these are missing: %s", in.Path, strings.Join(append(r.Missing, r.Differing...), ", ")), verb("apply"))
		case r.State == "outdated":
			d.problem(p.Adapter, fmt.Sprintf("our hooks in %s are not as this version writes them: %s", in.Path, strings.Join(append(r.Differing, r.Missing...), ", ")), verb("apply"))
		}
		list = append(list, one)
	}
	return list
}

// cmpPath is a command that needs a path, or another one where there is none.
func cmpPath(with, path, without string) string {
	if path == "" {
		return without
	}
	return with
}

// quoted is a path as a shell takes it.
func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// A launchLook says what `run` would get of a launch from this folder.
type launchLook struct {
	Hooks bool   `json:"hooks"` // they would be injected
	Lacks []lack `json:"lacks"`
}

type lack struct {
	Capability string `json:"capability"`
	Reason     string `json:"reason"`
}

// launch prepares a launch and makes none. Where one in an empty home would be
// given hooks, and this one is not, settings of the user's or the machine's have
// silenced them.
func (d *diagnosis) launch(p profiles.Profile, program *string) launchLook {
	argv := []string{p.Adapter}
	if program != nil {
		argv[0] = *program
	}
	look := launchLook{Lacks: []lack{}}
	exe, err := os.Executable()
	dir, err2 := os.Getwd()
	if err != nil || err2 != nil {
		return look
	}
	h := profiles.Host{Env: os.Environ(), Dir: realPath(dir), Exe: exe, Hook: hookWords(exe), RunDir: "/nonexistent/run", Socket: "/nonexistent/door",
		SessionID: uuid.Nil.String(), NewID: uuid.Nil.String(), Terminal: true, ReadFile: os.ReadFile, Real: realPath}
	here, err := p.Prepare(argv, h)
	if err != nil {
		d.problem(p.Adapter, fmt.Sprintf("a launch cannot be prepared: %v", err), "lifeloop-wrap run --no-hooks -- "+argv[0])
		return look
	}
	h.Env = []string{"HOME=/nonexistent/home"}
	h.ReadFile = func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	clean, err := p.Prepare(argv, h)
	look.Hooks = here.Hooks
	for _, w := range here.Weak {
		look.Lacks = append(look.Lacks, lack(w))
	}
	switch {
	case here.Plain:
		d.note(p.Adapter, "without arguments it begins no session of its own, so nothing is injected and nothing is expected", "lifeloop-wrap run -- "+argv[0]+" PROMPT")
	case err == nil && clean.Hooks && !here.Hooks && len(here.Weak) > 0:
		d.problem(p.Adapter, "our hooks stay silent: "+here.Weak[0].Reason, "take that setting back, then lifeloop-wrap doctor "+p.Adapter)
	}
	return look
}

// foundSessions are those that the harness itself keeps.
type foundSessions struct {
	Places []string      `json:"places"`
	Here   int           `json:"here"` // of the working folder
	Newest *foundSession `json:"newest"`
}

type foundSession struct {
	Session string    `json:"session"`
	At      time.Time `json:"at"` // of its last change
}

func (d *diagnosis) sessions(p profiles.Profile) *foundSessions {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	dir = realPath(dir)
	places := p.Places(profiles.Host{Env: os.Environ(), Dir: dir})
	if len(places) == 0 {
		return nil
	}
	s := &foundSessions{Places: []string{}}
	for _, place := range places {
		s.Places = append(s.Places, place.Dir)
	}
	found, err := supervisor.Find(places, dir)
	if err != nil {
		d.problem(p.Adapter, fmt.Sprintf("its sessions cannot be read: %v", err), "ls -l "+quoted(places[0].Dir))
		return s
	}
	if s.Here = len(found); len(found) > 0 {
		s.Newest = &foundSession{Session: found[0].Session, At: found[0].At}
	}
	return s
}

// machine is what every harness here shares.
type machine struct {
	Inotify  map[string]string `json:"inotify"` // the limits of this machine
	Sockets  string            `json:"sockets"` // the folder of the sessions' doors
	StateDir string            `json:"state_dir"`
	Sessions int               `json:"sessions"` // kept, of whatever adapter
	Damaged  []string          `json:"damaged"`  // whose ledger is not what was written
}

func (d *diagnosis) machine(stateDir string) {
	d.Machine.StateDir, d.Machine.Inotify = stateDir, watchers.Limits()
	if limit, err := watchers.Try("/"); err != nil {
		d.problem("machine", fmt.Sprintf("files cannot be watched and are polled instead: %v (%s is %s)", err, limit, d.Machine.Inotify[limit]),
			"sudo sysctl fs.inotify."+limit+"=NUMBER, more than now")
	}
	dir, err := control.SocketDir()
	wanted := os.Getenv("XDG_RUNTIME_DIR")
	switch d.Machine.Sockets = dir; {
	case err != nil:
		d.problem("machine", fmt.Sprintf("there is no place for sockets: %v", err), "export XDG_RUNTIME_DIR=DIR, a folder of yours with mode 0700")
	case wanted == "":
		d.note("machine", "XDG_RUNTIME_DIR is not set; the sockets are in "+dir, "export XDG_RUNTIME_DIR=/run/user/$(id -u)")
	case !filepath.IsAbs(wanted) || !strings.HasPrefix(dir, filepath.Clean(wanted)+"/"):
		d.problem("machine", fmt.Sprintf("the sockets are in %s, because %s is no folder of yours with mode 0700", dir, filepath.Join(wanted, "lifeloop")),
			"mkdir -p "+quoted(filepath.Join(wanted, "lifeloop"))+" && chmod 0700 "+quoted(filepath.Join(wanted, "lifeloop")))
	}
	if err := writable(stateDir); err != nil {
		d.problem("machine", fmt.Sprintf("nothing can be kept in %s: %v", stateDir, err), "lifeloop-wrap run --state-dir DIR, or export LIFELOOP_STATE_DIR=DIR")
	}
}

// writable says why a folder cannot be written to. One that is not there is
// not made: then the folder is meant that it would be made in.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
			dir = filepath.Dir(dir)
			continue
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a folder", dir)
		}
		const canWrite = 2 | 1 // W_OK and X_OK
		if err := syscall.Access(dir, canWrite); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		return nil
	}
}
