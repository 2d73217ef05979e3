// Package programs runs the two programs of renewal profiles. The first one prints a
// continuation, which is stored in the vault. The second one turns the continuation into
// text for the model of the fresh session.
//
// The package does not decide whether a session is renewed and does not deliver the
// text. The package writes no log and saves no other output of a program. Prepare and
// Continue return [*dispatch.Failure] errors, which never quote a program's output or a
// continuation.
//
//	r, err := programs.New(programs.Config{Profiles: active, Vault: vault.At(folder), Dir: dir, Around: around})
//	digest, expires, err := r.Prepare(ctx, ref)      // stores the continuation
//	text, err := r.Continue(ctx, ref, digest)        // consumes the continuation
package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lifeloop/canon"
	"lifeloop/dispatch"
	"lifeloop/internal/environ"
	"lifeloop/kernel/effect"
	"lifeloop/lifeloop"
	"lifeloop/renewal/profile"
	"lifeloop/vault"
)

// A Config is what the programs of a session need. Profiles, Vault and Dir are required.
type Config struct {
	Profiles []profile.Profile // the active profiles
	Vault    *vault.Vault
	Dir      string // the session's working directory, absolute
	// Around returns the part of a program's dispatch.Config that depends on the
	// caller. In the result, Env has only the variables that the caller sets.
	// StderrFile is ignored, because a program may print its continuation to stderr. A
	// nil Around means the zero Config.
	Around func(client string) dispatch.Config
	// Ask returns the command line that makes the harness write the note of a renewal.
	// The harness then has the context of the old harness session. ok is false if the
	// harness has no such command line; a nil Ask means the same.
	Ask func(r effect.RenewalRef) (argv []string, ok bool)
	// Environ is the environment from which programs inherit variables; nil means the
	// environment of this process.
	Environ []string
	Now     func() time.Time // nil means time.Now
}

// Programs runs the programs of the active profiles. It is immutable, and safe for
// concurrent use. A session's supervisor uses it as its Renewer.
type Programs struct{ cfg Config }

// New checks the configuration. It starts nothing.
func New(cfg Config) (*Programs, error) {
	if cfg.Vault == nil {
		return nil, errors.New("programs of renewals: no vault")
	}
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("programs of renewals: the working directory %q is not absolute", cfg.Dir)
	}
	if cfg.Around == nil {
		cfg.Around = func(string) dispatch.Config { return dispatch.Config{} }
	}
	if cfg.Ask == nil {
		cfg.Ask = func(effect.RenewalRef) ([]string, bool) { return nil, false }
	}
	if cfg.Environ == nil {
		cfg.Environ = os.Environ()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Programs{cfg}, nil
}

// Asks returns the name of the profile by which a client's answer asks for a renewal,
// or "" if the answer asks for none. Only the client that owns a profile can ask.
func (p *Programs) Asks(client string, answer []byte) string {
	for _, f := range p.cfg.Profiles {
		if f.Owner() == client && f.Asks.In(answer) {
			return f.Name
		}
	}
	return ""
}

// Reads lists the top-level members of a client's answers in which the active profiles
// look for a request for a renewal. These members cause no warning in a receipt, even if
// package lifeloop does not define them.
func (p *Programs) Reads(client string) (members []string) {
	for _, f := range p.cfg.Profiles {
		if name, _, _ := strings.Cut(f.Asks.Member, "."); f.Owner() == client && name != "" {
			members = append(members, name)
		}
	}
	return members
}

// Prepare runs the profile's prepare program, or the harness itself to write a note,
// and stores what that process prints: the continuation. expires is nil if the
// continuation does not expire. After an error nothing is stored.
func (p *Programs) Prepare(ctx context.Context, r effect.RenewalRef) (digest string, expires *time.Time, err error) {
	f, err := p.profile(r)
	if err != nil {
		return "", nil, err
	}
	what := dispatch.Config{Command: profile.Fill(f.Prepare.Command, values(r)), Timeout: f.Preparing(), MaxAnswer: vault.MaxToken}
	if f.Self() {
		var ok bool
		if what.Command, ok = p.cfg.Ask(r); !ok {
			return "", nil, failed(r, lifeloop.CapabilityUnsupported, "with this command line, the harness cannot be asked for a note", nil)
		}
		f.Inherit = environ.Names{"*"} // the harness inherits the full environment of the user
		what.Env = noHooks()
	}
	if len(what.Command) == 0 {
		return "", nil, failed(r, lifeloop.InvalidRequest, "the profile has no prepare command", nil)
	}
	out, err := p.call(ctx, r, f, what, []byte(f.Note.Prompt))
	if err != nil {
		return "", nil, err
	}
	text, until, err := f.Prepare.Token.Read(out)
	if err != nil {
		return "", nil, failed(r, lifeloop.InvalidRequest, err.Error(), nil)
	}
	return p.store(r, f, text, until)
}

func (p *Programs) store(r effect.RenewalRef, f profile.Profile, text string, until int64) (string, *time.Time, error) {
	now := p.cfg.Now()
	if until == 0 && f.Prepare.Lifetime > 0 {
		until = now.Add(f.Prepare.Lifetime).Unix()
	}
	ticket, err := p.cfg.Vault.Put(p.binding(r), vault.NewToken(text), until, now)
	if refused, is := errors.AsType[*vault.RefusedError](err); is {
		return "", nil, failed(r, lifeloop.PayloadRejected, "the continuation is "+string(refused.Why), err)
	}
	if err != nil {
		return "", nil, failed(r, lifeloop.InternalError, "the continuation cannot be stored", err)
	}
	var expires *time.Time
	if until != 0 {
		expires = new(time.Unix(until, 0).UTC())
	}
	return string(ticket.Digest), expires, nil
}

// Continue takes the continuation out of the vault, which consumes it, and returns
// the text for the model. After an error the continuation may be lost.
func (p *Programs) Continue(ctx context.Context, r effect.RenewalRef, digest string) (lifeloop.Opaque, error) {
	f, err := p.profile(r)
	if err != nil {
		return lifeloop.Opaque{}, err
	}
	token, err := p.cfg.Vault.Take(vault.Ticket{Binding: p.binding(r), Digest: canon.Digest(digest)}, p.cfg.Now())
	if refused, is := errors.AsType[*vault.RefusedError](err); is {
		return lifeloop.Opaque{}, failed(r, lifeloop.PayloadRejected, "the continuation is "+string(refused.Why), err)
	}
	if err != nil {
		return lifeloop.Opaque{}, failed(r, lifeloop.PayloadRejected, "the continuation cannot be read", err)
	}
	if len(f.Continue.Command) == 0 {
		return lifeloop.NewOpaque(token.Reveal()), nil
	}
	out, err := p.expand(ctx, r, f, token)
	if err != nil {
		return lifeloop.Opaque{}, err
	}
	switch {
	case len(bytes.TrimSpace(out)) == 0:
		return lifeloop.Opaque{}, failed(r, lifeloop.InvalidRequest, "the output is empty", nil)
	case !utf8.Valid(out):
		return lifeloop.Opaque{}, failed(r, lifeloop.InvalidRequest, "the output is not UTF-8", nil)
	}
	return lifeloop.NewOpaque(string(out)), nil
}

// expand runs the continue program. The profile says how the program receives the token.
func (p *Programs) expand(ctx context.Context, r effect.RenewalRef, f profile.Profile, token vault.Token) ([]byte, error) {
	given := values(r)
	var input []byte
	switch f.Continue.Given() {
	case profile.OnStdin:
		input = []byte(token.Reveal())
	case profile.InArguments:
		given[profile.TokenText] = token.Reveal()
	case profile.InFile:
		path, remove, err := p.cfg.Vault.File(token)
		if err != nil {
			return nil, failed(r, lifeloop.InternalError, "the continuation cannot be written to a file", err)
		}
		defer remove()
		given[profile.TokenFile] = path
	}
	return p.call(ctx, r, f, dispatch.Config{Command: profile.Fill(f.Continue.Command, given), Timeout: f.Continue.Timeout}, input)
}

// Discard removes a continuation that will not be delivered. Without a digest, it
// removes all continuations of the renewal. It is not an error if the vault no longer
// has the continuation.
func (p *Programs) Discard(r effect.RenewalRef, digest string) error {
	if digest == "" {
		return p.discardAll(r)
	}
	return p.discard(vault.Ticket{Binding: p.binding(r), Digest: canon.Digest(digest)})
}

func (p *Programs) discardAll(r effect.RenewalRef) error {
	held, err := p.cfg.Vault.Held(func(b vault.Binding) bool { return b == p.binding(r) }, p.cfg.Now())
	for _, t := range held {
		err = errors.Join(err, p.discard(t))
	}
	return err
}

func (p *Programs) discard(t vault.Ticket) error {
	err := p.cfg.Vault.Discard(t, p.cfg.Now())
	if _, over := errors.AsType[*vault.RefusedError](err); over {
		return nil
	}
	return err
}

func (p *Programs) profile(r effect.RenewalRef) (profile.Profile, error) {
	i := slices.IndexFunc(p.cfg.Profiles, func(f profile.Profile) bool { return f.Name == r.Profile })
	if i < 0 {
		return profile.Profile{}, failed(r, lifeloop.OperatorRequired, "profile "+r.Profile+" is not active", nil)
	}
	return p.cfg.Profiles[i], nil
}

func (p *Programs) binding(r effect.RenewalRef) vault.Binding {
	return vault.Binding{Renewal: r.Renewal, Client: r.Client, Adapter: r.Adapter, Dir: p.cfg.Dir, HarnessSession: r.Session}
}

// values returns the values for the names in braces that the prepare command and the
// continue command can use.
func values(r effect.RenewalRef) map[string]string {
	return map[string]string{profile.Adapter: r.Adapter, profile.HarnessSession: r.Session}
}

// noHooks returns variables that disable our hooks in the user's own settings. The harness
// is started only to write a note, in a copy of the harness session. Hooks would report
// this copy as a session of the user.
func noHooks() []string { return []string{"LIFELOOP_SOCKET=/nonexistent"} }

// call runs one program of a profile.
func (p *Programs) call(ctx context.Context, r effect.RenewalRef, f profile.Profile, what dispatch.Config, input []byte) ([]byte, error) {
	cfg := p.cfg.Around(r.Client)
	cfg.ID, cfg.Dir, cfg.StderrFile = r.Client, p.cfg.Dir, ""
	cfg.Command, cfg.Timeout, cfg.MaxAnswer = what.Command, what.Timeout, what.MaxAnswer
	cfg.Env = f.Of(p.cfg.Environ, append(slices.Concat(cfg.Env, what.Env), "LIFELOOP_CLIENT_ID="+r.Client, "LIFELOOP_ADAPTER_ID="+r.Adapter, "LIFELOOP_HARNESS_SESSION_ID="+r.Session)...)
	program, err := dispatch.NewOneshot(cfg)
	if err != nil {
		return nil, failed(r, lifeloop.InvalidRequest, "the command or the environment of the program is not valid", err)
	}
	answer, err := program.Call(ctx, input)
	return answer.Body, err
}

func failed(r effect.RenewalRef, class lifeloop.FailureClass, why string, cause error) *dispatch.Failure {
	return &dispatch.Failure{Client: r.Client, Class: class, Why: why, ExitCode: -1, Err: cause}
}
