package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const canary = "canary-7f3a-do-not-print"

var (
	at    = time.Unix(1778100000, 0)
	later = at.Add(time.Minute)
)

func binding() Binding {
	return Binding{Renewal: "r1", Client: "notes", Adapter: "generic", Dir: "/home/user/project", HarnessSession: "old"}
}

// TestMain runs the tests, or, if VAULT_TEST_DIR is set, calls Take instead. If
// VAULT_TEST_STEP then names a step of Take, the process kills itself at this step.
func TestMain(m *testing.M) {
	if dir := os.Getenv("VAULT_TEST_DIR"); dir != "" {
		v := At(dir)
		v.testOnlyStep = func(step string) {
			if step == os.Getenv("VAULT_TEST_STEP") {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		token, err := v.Take(Ticket{Binding: binding(), Digest: NewToken(canary).Digest()}, later)
		fmt.Println(token.Reveal() == canary, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func refused(t *testing.T, why Reason, err error) {
	t.Helper()
	var r *RefusedError
	require.ErrorAs(t, err, &r)
	require.Equal(t, why, r.Why)
	require.NotContains(t, err.Error(), canary)
}

// texts returns the content of every file of the vault.
func texts(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
		text, err := os.ReadFile(path)
		all.WriteString(e.Name() + "\n")
		all.Write(text)
		return err
	}))
	return all.String()
}

func TestTokenIsGivenOutOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	v := At(dir)
	ticket, err := v.Put(binding(), NewToken(canary), 0, at)
	require.NoError(t, err)
	require.Equal(t, Ticket{Binding: binding(), Digest: NewToken(canary).Digest(), Bytes: len(canary), Stored: at.Unix()}, ticket)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o700, info.Mode())
	require.Contains(t, texts(t, dir), canary)

	// Another process needs only the binding and the digest. The ledger may
	// contain both.
	token, err := At(dir).Take(Ticket{Binding: binding(), Digest: ticket.Digest}, later)
	require.NoError(t, err)
	require.Equal(t, canary, token.Reveal())
	require.NotContains(t, texts(t, dir), canary)

	_, err = v.Take(ticket, later)
	refused(t, Consumed, err)
	_, err = v.Put(binding(), NewToken(canary), 0, later)
	refused(t, Consumed, err)
	refused(t, Consumed, v.Discard(ticket, later))
}

// No token is read from a folder in which another user could have put it.
func TestTokensOfOthers(t *testing.T) {
	above := filepath.Join(t.TempDir(), "state")
	v := At(filepath.Join(above, "vault"))
	ticket, err := v.Put(binding(), NewToken(canary), 0, at)
	require.NoError(t, err)
	for _, open := range []string{above, filepath.Join(above, "vault")} {
		require.NoError(t, os.Chmod(open, 0o777))
		_, err = v.Take(ticket, later)
		require.ErrorContains(t, err, "must be private: ")
		_, err = v.Held(func(Binding) bool { return true }, later)
		require.ErrorContains(t, err, "must be private: ")
		require.NoError(t, os.Chmod(open, 0o700))
	}
	token, err := v.Take(ticket, later)
	require.NoError(t, err)
	require.Equal(t, canary, token.Reveal())
}

func TestTokenIsBound(t *testing.T) {
	v := At(filepath.Join(t.TempDir(), "vault"))
	ticket, err := v.Put(binding(), NewToken(canary), 0, at)
	require.NoError(t, err)
	for name, change := range map[string]func(*Ticket){
		"renewal": func(t *Ticket) { t.Renewal = "r2" },
		"client":  func(t *Ticket) { t.Client = "other" },
		"adapter": func(t *Ticket) { t.Adapter = "other" },
		"folder":  func(t *Ticket) { t.Dir = "/home/user" },
		"session": func(t *Ticket) { t.HarnessSession = "new" },
		"digest":  func(t *Ticket) { t.Digest = NewToken("another").Digest() },
	} {
		t.Run(name, func(t *testing.T) {
			other := ticket
			change(&other)
			_, err := v.Take(other, later)
			refused(t, Missing, err)
		})
	}
	token, err := v.Take(ticket, later)
	require.NoError(t, err, "a refusal does not consume")
	require.Equal(t, canary, token.Reveal())
}

func TestOtherEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		expires int64
		end     func(v *Vault, ticket Ticket) error
		want    Reason
	}{
		{"expired when taken", later.Unix(), func(v *Vault, ticket Ticket) error { _, err := v.Take(ticket, later); return err }, Expired},
		{"discarded", 0, func(v *Vault, ticket Ticket) error { return v.Discard(ticket, later) }, Discarded},
		{"expired when swept", later.Unix(), func(v *Vault, _ Ticket) error { return v.Sweep(later, at) }, Expired},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "vault")
			v := At(dir)
			ticket, err := v.Put(binding(), NewToken(canary), c.expires, at)
			require.NoError(t, err)
			if err := c.end(v, ticket); err != nil {
				refused(t, c.want, err)
			}
			require.NotContains(t, texts(t, dir), canary)
			_, err = v.Take(ticket, later)
			refused(t, c.want, err)
		})
	}
}

func TestWhatCannotBeStored(t *testing.T) {
	parent := t.TempDir()
	v := At(filepath.Join(parent, "vault"))
	_, err := v.Put(binding(), NewToken(""), 0, at)
	require.EqualError(t, err, "store a continuation: it is empty")
	_, err = v.Put(binding(), NewToken(strings.Repeat("x", MaxToken+1)), 0, at)
	require.EqualError(t, err, "store a continuation: it has 1048577 bytes; the limit is 1048576")
	_, err = v.Put(binding(), NewToken("\xff"), 0, at)
	require.EqualError(t, err, "store a continuation: it is not UTF-8")
	_, err = v.Put(binding(), NewToken(canary), at.Unix(), at)
	refused(t, Expired, err)

	require.NoError(t, os.Mkdir(filepath.Join(parent, "open"), 0o755))
	_, err = At(filepath.Join(parent, "open")).Put(binding(), NewToken(canary), 0, at)
	require.ErrorContains(t, err, "must be private")
	require.NotContains(t, texts(t, parent), canary)
}

func TestChangedFileIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	v := At(dir)
	ticket, err := v.Put(binding(), NewToken(canary), 0, at)
	require.NoError(t, err)
	held, err := filepath.Glob(filepath.Join(dir, "*.held"))
	require.NoError(t, err)
	require.Len(t, held, 1)
	was, err := os.ReadFile(held[0])
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(held[0], []byte(strings.Replace(string(was), canary, "forged", 1)), 0o600))
	_, err = v.Take(ticket, later)
	refused(t, Damaged, err)
	require.NoError(t, os.WriteFile(held[0], []byte(canary), 0o600))
	_, err = v.Take(ticket, later)
	require.EqualError(t, err, "read the continuation in "+held[0]+": the file is damaged (remove it)")
}

func TestHeldAndSweep(t *testing.T) {
	here := func(b Binding) bool { return b.Dir == binding().Dir }
	dir := filepath.Join(t.TempDir(), "vault")
	v := At(dir)
	held, err := v.Held(here, at)
	require.NoError(t, err)
	require.Empty(t, held, "there is no folder yet")
	require.NoError(t, v.Sweep(at, at))

	var want []Ticket
	for i, session := range []string{"b", "a"} {
		b := binding()
		b.HarnessSession = session
		ticket, err := v.Put(b, NewToken(canary+session), 0, at.Add(time.Duration(i)*time.Second))
		require.NoError(t, err)
		want = append(want, ticket)
	}
	other := binding()
	other.Dir = "/elsewhere"
	_, err = v.Put(other, NewToken(canary), 0, at)
	require.NoError(t, err)
	_, err = v.Put(binding(), NewToken("soon over"), later.Unix(), at)
	require.NoError(t, err)
	held, err = v.Held(here, later)
	require.NoError(t, err)
	require.Equal(t, want, held)

	_, err = v.Take(want[0], later)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".x.held.tmp-1"), []byte("interrupted"), 0o600))
	require.NoError(t, v.Sweep(later, at))
	require.NotContains(t, texts(t, dir), "interrupted")
	_, err = v.Take(want[0], later)
	refused(t, Consumed, err)
	require.NoError(t, v.Sweep(later, later.Add(time.Second)))
	_, err = v.Take(want[0], later)
	refused(t, Missing, err)
	_, err = v.Take(want[1], later)
	require.NoError(t, err, "what is held is not swept")
}

// Clear erases all texts of a vault: those of held, expired and damaged tokens, and those
// in the files that were written for programs.
func TestClear(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	v := At(dir)
	require.NoError(t, v.Clear(at), "there is no vault yet")
	ticket, err := v.Put(binding(), NewToken(canary), 0, at)
	require.NoError(t, err)
	_, err = v.Put(binding(), NewToken(canary+" soon over"), later.Unix(), at)
	require.NoError(t, err)
	_, _, err = v.File(NewToken(canary))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.held"), []byte(canary), 0o600))
	require.NoError(t, v.Clear(later))
	require.NotContains(t, texts(t, dir), canary)
	_, err = v.Take(ticket, later)
	refused(t, Discarded, err)
}

// Sweep and Ungive keep a file while the process that made it runs, because a program
// that this process started may still read the file.
func TestSweepLeavesAFileToItsProgram(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	v := At(dir)
	require.NoError(t, v.Ungive(), "there is no vault yet")
	_, err := v.Put(binding(), NewToken("another"), 0, at)
	require.NoError(t, err)
	path, remove, err := v.File(NewToken(canary))
	require.NoError(t, err)
	left := filepath.Join(dir, given+"left") // not locked, as after a kill
	for name, sweep := range map[string]func() error{"Ungive": v.Ungive, "Sweep": func() error { return v.Sweep(at.AddDate(0, 0, 1), at) }} {
		require.NoError(t, os.WriteFile(left, []byte(canary+" left"), 0o600))
		require.NoError(t, sweep(), name)
		require.NoFileExists(t, left, name)
		text, err := os.ReadFile(path)
		require.NoError(t, err, name)
		require.Equal(t, canary, string(text), name)
	}
	require.Contains(t, texts(t, dir), "another")
	remove()
	require.NotContains(t, texts(t, dir), given)
}

// Ungive may be called at any moment. It never removes a file that another caller is
// writing or still uses.
func TestFilesAreNotRemovedWhileTheyAreWritten(t *testing.T) {
	dir := t.TempDir()
	v := At(dir)
	var written sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		written.Go(func() {
			for range 200 {
				path, remove, err := v.File(NewToken(canary))
				if !assert.NoError(t, err) {
					return
				}
				text, err := os.ReadFile(path)
				assert.NoError(t, err)
				assert.Equal(t, canary, string(text))
				remove()
			}
		})
	}
	go func() {
		written.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			require.NoError(t, v.Ungive())
			require.Empty(t, texts(t, dir))
			return
		default:
			require.NoError(t, v.Ungive())
		}
	}
}

// Many callers, in one process and in several processes, ask for one token.
func TestConcurrentCallersGetOneToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	ticket, err := At(dir).Put(binding(), NewToken(canary), 0, at)
	require.NoError(t, err)
	var given atomic.Int32
	var callers sync.WaitGroup
	begin := make(chan struct{})
	for i := range 16 {
		callers.Go(func() {
			<-begin
			if i%4 == 0 {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "VAULT_TEST_DIR="+dir)
				out, err := cmd.Output()
				if strings.HasPrefix(string(out), "true ") {
					given.Add(1)
				} else if err != nil || !strings.Contains(string(out), "already consumed") {
					t.Errorf("%s %v", out, err)
				}
				return
			}
			token, err := At(dir).Take(ticket, later)
			var r *RefusedError
			switch {
			case err == nil && token.Reveal() == canary:
				given.Add(1)
			case !errors.As(err, &r) || r.Why != Consumed:
				t.Errorf("%v", err)
			}
		})
	}
	close(begin)
	callers.Wait()
	require.Equal(t, int32(1), given.Load())
	require.NotContains(t, texts(t, dir), canary)
}

// After a process was killed during Take, the next Take either returns the token or
// refuses it as consumed. The token's text is then erased.
func TestKillBetweenTheSteps(t *testing.T) {
	for step, survives := range map[string]bool{"read": true, "created": false, "recorded": false, "erased": false} {
		t.Run(step, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "vault")
			v := At(dir)
			ticket, err := v.Put(binding(), NewToken(canary), 0, at)
			require.NoError(t, err)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "VAULT_TEST_DIR="+dir, "VAULT_TEST_STEP="+step)
			out, err := cmd.Output()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
			require.Empty(t, out)

			require.NoError(t, v.Sweep(later, at))
			token, err := v.Take(ticket, later)
			if survives {
				require.NoError(t, err)
				require.Equal(t, canary, token.Reveal())
			} else {
				refused(t, Consumed, err)
			}
			require.NotContains(t, texts(t, dir), canary)
		})
	}
}

type crash struct{ step string }

// For any order of calls, with crashes between steps, each token is given out at most
// once. No error quotes a token. After Sweep, the text of an ended token is erased.
func TestAtMostOnce(t *testing.T) {
	taken := 0
	rapid.Check(t, func(rt *rapid.T) {
		above := t.TempDir()
		dir := filepath.Join(above, "vault") // Put makes it, and refuses a folder that is not private
		given := map[Ticket]int{}
		names := rapid.SampledFrom([]string{"a", "b"})
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			v := At(dir)
			if stop := rapid.SampledFrom([]string{"", "", "read", "created", "recorded", "erased"}).Draw(rt, "crash"); stop != "" {
				v.testOnlyStep = func(step string) {
					if step == stop {
						panic(crash{step})
					}
				}
			}
			b := binding()
			b.Renewal = names.Draw(rt, "renewal")
			token := NewToken(canary + names.Draw(rt, "token"))
			ticket := Ticket{Binding: b, Digest: token.Digest()}
			call := rapid.SampledFrom([]string{"put", "take", "take", "discard", "sweep"}).Draw(rt, "call")
			err := perform(v, call, ticket, token, func(got Token) {
				given[ticket]++
				if got.Reveal() != token.Reveal() {
					rt.Fatalf("another token than that of the ticket")
				}
			})
			if err != nil && strings.Contains(err.Error(), canary) {
				rt.Fatalf("an error quotes the token")
			}
		}
		for ticket, n := range given {
			if n > 1 {
				rt.Fatalf("token %s of renewal %s was given out %d times", ticket.Digest, ticket.Renewal, n)
			}
		}
		require.NoError(rt, At(dir).Sweep(later, at))
		held, err := At(dir).Held(func(Binding) bool { return true }, later)
		require.NoError(rt, err)
		for _, ticket := range held {
			_, err := At(dir).Take(ticket, later)
			require.NoError(rt, err, "the text of an ended token is left")
		}
		require.NotContains(rt, texts(t, above), canary)
		for ticket := range given {
			_, err := At(dir).Take(ticket, later)
			refused(t, Consumed, err)
		}
		taken += len(given)
	})
	require.Positive(t, taken, "no token was given out")
}

func perform(v *Vault, call string, ticket Ticket, token Token, got func(Token)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if _, ours := p.(crash); !ours {
				panic(p)
			}
		}
	}()
	switch call {
	case "put":
		_, err = v.Put(ticket.Binding, token, 0, at)
	case "discard":
		err = v.Discard(ticket, later)
	case "sweep":
		err = v.Sweep(later, at)
	default:
		var out Token
		if out, err = v.Take(ticket, later); err == nil {
			got(out)
		}
	}
	return err
}
