package profiles

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Generic is the adapter for an unknown program.
const Generic = "generic"

// profiles lists every profile, in the order of Adapters.
func profiles() []Profile {
	return []Profile{
		claudeProfile(),
		codexProfile(),
		geminiProfile(),
		opencodeProfile(),
		openclawProfile(),
		hermesProfile(),
		genericProfile(),
	}
}

// For returns the profile of one adapter.
func For(adapter string) (Profile, bool) {
	for _, p := range profiles() {
		if p.Adapter == adapter {
			return p.resuming(), true
		}
	}
	return Profile{}, false
}

// resuming returns the profile with a Prepare that supports Host.Resume.
func (p Profile) resuming() Profile {
	prepare := p.Prepare
	p.Prepare = func(argv []string, h Host) (Launch, error) {
		on := argv
		if h.Resume != "" {
			again, ok := p.Resume(argv, h.Resume, h.Terminal)
			if !ok {
				return Launch{}, fmt.Errorf("prepare launch: adapter %s cannot continue harness session %s with this command line", p.Adapter, h.Resume)
			}
			on = again
		}
		if h.Fresh {
			again, ok := p.Fresh(argv, h.Terminal)
			if !ok {
				return Launch{}, fmt.Errorf("prepare launch: adapter %s cannot begin a fresh session with this command line", p.Adapter)
			}
			on = again
		}
		l, err := prepare(on, h)
		if err != nil {
			return l, err
		}
		if h.Resume != "" {
			l.SessionID, l.Cause = h.Resume, "resume"
		}
		l.Evidence = cmp.Or(l.Evidence, ByExit)
		l.Resumes = p.Resumes(argv, h.Terminal)
		return l, nil
	}
	return p
}

// Resumes reports whether a command line can be changed to continue a harness
// session by its id.
func (p Profile) Resumes(argv []string, terminal bool) bool {
	_, ok := p.Resume(argv, p.anySession, terminal)
	return ok
}

// Resume returns the command line that continues exactly this harness session,
// never simply the newest session; terminal is as in Host.Terminal. Arguments that
// select another session are removed. A prompt is removed if the user will continue
// in the terminal, but kept if the harness answers it and exits. Resume returns
// false if it is not certain that the command line can be resumed.
func (p Profile) Resume(argv []string, session string, terminal bool) ([]string, bool) {
	if p.resume == nil || len(argv) == 0 || Infer(argv[0]) != p.Adapter {
		return nil, false
	}
	args, ok := p.resume(argv[1:], session, terminal)
	return slices.Concat(argv[:1], args), ok
}

// Ask returns the command line that answers one question with the context of a
// harness session. The question is its standard input, the answer its output. The
// session itself does not change, and may be open in a terminal. Ask returns false if
// the harness or the command line does not allow such a question.
func (p Profile) Ask(argv []string, session string) ([]string, bool) {
	if p.ask == nil || len(argv) == 0 || Infer(argv[0]) != p.Adapter {
		return nil, false
	}
	args, ok := p.ask(argv[1:], session)
	return slices.Concat(argv[:1], args), ok
}

// Fresh returns the command line that begins a new harness session in a terminal,
// without the prompt of argv. It returns false if there is no terminal, or if Resume
// returns false. It also returns false for a command line that answers its prompt and
// exits, because the new session would repeat the prompt.
func (p Profile) Fresh(argv []string, terminal bool) ([]string, bool) {
	words, ok := p.Resume(argv, p.anySession, terminal)
	if !ok || !terminal || p.prints == nil || p.prints(argv[1:]) {
		return nil, false
	}
	for i := 1; i < len(words); i++ {
		if words[i] == p.anySession && slices.Contains([]string{"--resume", "resume", "--session"}, words[i-1]) {
			return slices.Concat(words[:i-1], words[i+1:]), true
		}
	}
	return nil, false
}

// Adapters lists the ids of all adapters, with "generic" last.
func Adapters() []string {
	var ids []string
	for _, p := range profiles() {
		ids = append(ids, p.Adapter)
	}
	return ids
}

// Infer returns the adapter for a program's name or path (argv[0]), or "generic"
// if no other adapter matches.
func Infer(program string) string {
	base := program[strings.LastIndexAny(program, `/\`)+1:]
	if n := len(base) - len(".exe"); n > 0 && strings.EqualFold(base[n:], ".exe") {
		base = base[:n]
	}
	for _, p := range profiles() {
		if slices.Contains(p.Programs, base) {
			return p.Adapter
		}
	}
	return Generic
}
