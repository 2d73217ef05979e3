package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"lifeloop/control"
	"lifeloop/harness"
	"lifeloop/hosts"
	"lifeloop/internal/durable"
	"lifeloop/internal/vt"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/watchers"
)

// InstalledHooks is the report of `host status` about one scope.
type InstalledHooks struct {
	Scope     string   `json:"scope"`
	Path      string   `json:"path"`
	State     string   `json:"state"` // as `host status` reports it, or "unreadable"
	Missing   []string `json:"missing"`
	Differing []string `json:"differing"`
}

// hooks examines the user's and the project's settings. Incomplete or outdated hooks are
// a problem. Settings without our hooks are not a problem, because hooks in settings are
// optional.
func (e *examiner) hooks(p profiles.Profile) []InstalledHooks {
	list := []InstalledHooks{}
	for _, scope := range []string{"user", "project"} {
		verb := func(what string) string {
			return fmt.Sprintf("lifeloop-wrap host %s %s --scope %s", what, p.Adapter, scope)
		}
		in, err := e.config.Installed(p, scope == "project")
		var r hosts.Report
		if err == nil {
			r, err = e.config.Settings.Status(in)
		}
		one := InstalledHooks{Scope: scope, Path: in.Path, State: r.State, Missing: append([]string{}, r.Missing...), Differing: append([]string{}, r.Differing...)}
		switch {
		case err != nil:
			one.State = "unreadable"
			fix := verb("status")
			if in.Path != "" {
				fix = "${EDITOR:-vi} " + vt.Word(in.Path)
			}
			e.problem(p.Adapter, fmt.Sprintf("the %s settings cannot be read: %v", scope, err), fix)
		case r.State == "partly":
			e.problem(p.Adapter, fmt.Sprintf("hooks in %s are missing, or the harness does not trust them: %s", in.Path, strings.Join(append(r.Missing, r.Differing...), ", ")), verb("apply"))
		case r.State == "outdated":
			e.problem(p.Adapter, fmt.Sprintf("hooks in %s are outdated: %s", in.Path, strings.Join(append(r.Differing, r.Missing...), ", ")), verb("apply"))
		}
		list = append(list, one)
	}
	return list
}

// A Launch describes the launch that `run` would prepare in this folder.
type Launch struct {
	Hooks bool `json:"hooks"` // whether hooks would be injected
	// HooksFor is the reason why the hooks are injected, if the harness shows hooks to the
	// user. Such a harness gets hooks only if the configuration needs hooks. If the harness
	// shows no hooks, HooksFor is empty.
	HooksFor string `json:"hooks_for,omitempty"`
	Lacks    []Lack `json:"lacks"`
}

// A Lack is a capability that a launch would not have.
type Lack struct {
	Capability string `json:"capability"`
	Reason     string `json:"reason"`
}

// launch prepares a launch and starts nothing. It prepares a second launch with an empty
// home folder. If only the second one has hooks, the user's settings disable hooks.
func (e *examiner) launch(p profiles.Profile, program *string) Launch {
	argv := []string{p.Adapter}
	if program != nil {
		argv[0] = *program
	}
	look := Launch{Lacks: []Lack{}}
	host := e.config.Host
	if e.config.Needs != nil {
		host.Needs = e.config.Needs(p.Adapter)
	}
	here, err := p.Prepare(argv, host)
	if err != nil {
		e.problem(p.Adapter, fmt.Sprintf("a launch cannot be prepared: %v", err), "lifeloop-wrap run --no-hooks -- "+argv[0])
		return look
	}
	host.Env = []string{"HOME=/nonexistent/home"}
	host.ReadFile = func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	clean, err := p.Prepare(argv, host)
	if look.Hooks = here.Hooks; here.Hooks && here.HooksShow {
		look.HooksFor = cmp.Or(host.Needs, "a policy guards the tool calls")
	}
	for _, w := range here.Weak {
		look.Lacks = append(look.Lacks, Lack(w))
	}
	switch {
	case program != nil && host.Guards && p.Refuse() != nil && !here.Guards:
		why := cmp.Or(here.Unguarded, "without arguments, the harness runs no hooks that could check them")
		e.problem(p.Adapter, "lifeloop-wrap run refuses to start the harness, because the policy cannot guard the tool calls: "+why, "lifeloop-wrap config show # names the file with the policy")
	case here.Plain:
		e.note(p.Adapter, "without arguments, the harness starts no session, so no hooks are injected", "lifeloop-wrap run -- "+argv[0]+" PROMPT")
	case err == nil && clean.Hooks && !here.Hooks && len(here.Weak) > 0:
		e.problem(p.Adapter, "hooks are disabled: "+here.Weak[0].Reason, "lifeloop-wrap doctor "+p.Adapter+" # after you have enabled hooks")
	}
	return look
}

// HarnessSessions counts the sessions that the harness itself stores.
type HarnessSessions struct {
	Places []string        `json:"places"`
	Here   int             `json:"here"` // number of sessions of the working folder
	Newest *HarnessSession `json:"newest"`
}

// A HarnessSession is the newest of the sessions that a harness has stored for the
// working folder.
type HarnessSession struct {
	Session string    `json:"session"`
	At      time.Time `json:"at"` // the time of the session's last change
}

func (e *examiner) harnessSessions(p profiles.Profile) *HarnessSessions {
	places := p.Places(e.config.Host)
	if len(places) == 0 {
		return nil
	}
	s := &HarnessSessions{Places: []string{}}
	for _, place := range places {
		s.Places = append(s.Places, place.Dir)
	}
	found, err := supervisor.Find(places, e.config.Host.Dir)
	if err != nil {
		e.problem(p.Adapter, fmt.Sprintf("the sessions that the harness stores cannot be read: %v", err), "ls -l "+vt.Word(places[0].Dir))
		return s
	}
	if s.Here = len(found); len(found) > 0 {
		s.Newest = &HarnessSession{Session: found[0].Session, At: found[0].At}
	}
	return s
}

// A Machine describes what all harnesses on this machine share.
type Machine struct {
	Inotify map[string]string `json:"inotify"` // the inotify limits of this machine, by name
	Sockets string            `json:"sockets"` // the folder of the sessions' sockets
	// Containment is the folder in which --contain would create its control groups.
	// Uncontained is the reason why --contain does not work. One of the two is empty.
	Containment string   `json:"containment,omitempty"`
	Uncontained string   `json:"uncontained,omitempty"`
	StateDir    string   `json:"state_dir"`
	Sessions    int      `json:"sessions"` // the number of recorded sessions, of all adapters
	Bytes       int64    `json:"sessions_bytes"`
	Damaged     []string `json:"damaged"` // ids of sessions whose ledger is damaged
	// Clients are all clients that a recorded session called; those of the newest
	// session come first.
	Clients []ClientCalls `json:"clients"`
}

// manyBytes is the total size of the recorded sessions at which a note says that they
// take much space. With a configured retention there is no note.
const manyBytes = 1 << 30

// sizeText formats a number of bytes in the smallest unit in which it is below 1024,
// but at most in TiB.
func sizeText(bytes int64) string {
	size, unit := float64(bytes), 0
	for ; size >= 1024 && unit < 4; unit++ {
		size /= 1024
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + " " + []string{"bytes", "KiB", "MiB", "GiB", "TiB"}[unit]
}

func (e *examiner) machine() {
	stateDir := e.config.StateDir
	e.Machine.StateDir, e.Machine.Inotify = stateDir, watchers.Limits()
	if limit, err := watchers.Try("/"); err != nil && limit == "" {
		e.note("machine", fmt.Sprintf("files are polled, because they cannot be watched: %v", err), "sysctl fs.inotify")
	} else if err != nil {
		e.problem("machine", fmt.Sprintf("files are polled, because they cannot be watched: %v (%s is %s)", err, limit, e.Machine.Inotify[limit]),
			"sudo sysctl fs.inotify."+limit+"=65536")
	}
	if parent, err := harness.Containable(); err == nil {
		e.Machine.Containment = parent
	} else {
		e.Machine.Uncontained = err.Error()
	}
	dir, err := control.CheckSocketDir()
	wanted := os.Getenv("XDG_RUNTIME_DIR")
	switch e.Machine.Sockets = dir; {
	case err != nil:
		e.problem("machine", fmt.Sprintf("no folder for sockets: %v", err), "export XDG_RUNTIME_DIR=\"$(mktemp -d)\"")
	case wanted == "":
		e.note("machine", "XDG_RUNTIME_DIR is not set; the sockets are in "+dir, "export XDG_RUNTIME_DIR=/run/user/$(id -u)")
	case !filepath.IsAbs(wanted) || !strings.HasPrefix(dir, filepath.Clean(wanted)+"/"):
		e.problem("machine", fmt.Sprintf("the sockets are in %s, because %s cannot be used: it must be an absolute path of a folder that belongs to you and has mode 0700", dir, filepath.Join(wanted, "lifeloop")),
			"mkdir -p "+vt.Word(filepath.Join(wanted, "lifeloop"))+" && chmod 0700 "+vt.Word(filepath.Join(wanted, "lifeloop")))
	}
	if e.Machine.Bytes >= manyBytes && !e.config.Retained {
		e.note("machine", fmt.Sprintf("the size of %s is %s, and no retention is configured", counted(e.Machine.Sessions, "session"), sizeText(e.Machine.Bytes)),
			"lifeloop-wrap prune --older-than 30d # removes sessions that started over 30 days ago")
	}
	err = writable(stateDir)
	if err == nil {
		if err = durable.IsPrivate(stateDir); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		e.problem("machine", fmt.Sprintf("sessions cannot be stored in %s: %v", stateDir, err), "export LIFELOOP_STATE_DIR=\"$HOME/lifeloop\"")
	}
}

// writable returns an error that says why a folder cannot be written to, or nil.
// If the folder does not exist, its nearest existing parent is checked, and
// nothing is created.
func writable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
		return writable(filepath.Dir(dir))
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	}
	const canWrite = 2 | 1 // W_OK and X_OK of access(2)
	if err := syscall.Access(dir, canWrite); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
