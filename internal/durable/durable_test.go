package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets this binary also act as the second process of the lock tests.
func TestMain(m *testing.M) {
	if path := os.Getenv("DURABLE_TEST_HOLD"); path != "" {
		l, err := Lock(path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		io.Copy(io.Discard, os.Stdin)
		if err := l.Unlock(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hold starts a process that takes the lock and releases it when its stdin is
// closed.
func hold(t *testing.T, path string) (cmd *exec.Cmd, release io.Closer) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "DURABLE_TEST_HOLD="+path)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)
	return cmd, in
}

func TestLockNamesTheOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	other, release := hold(t, path)

	_, err := Lock(path)
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	if locked.PID != other.Process.Pid || locked.Path != path {
		t.Errorf("got %+v, want pid %d at %s", locked, other.Process.Pid, path)
	}
	if want := fmt.Sprintf("%s is locked by pid %d", path, other.Process.Pid); err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !Locked(path) {
		t.Error("Locked does not report the lock of the other process")
	}

	require.NoError(t, release.Close())
	require.NoError(t, other.Wait())
	if Locked(path) {
		t.Error("still locked after the owner released it")
	}
	l, err := Lock(path)
	require.NoError(t, err)
	require.NoError(t, l.Unlock())
}

func TestLockEndsWithTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	other, _ := hold(t, path)
	require.NoError(t, other.Process.Kill())
	other.Wait()

	if Locked(path) {
		t.Error("a killed process still holds its lock")
	}
	l, err := Lock(path)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	if want := fmt.Sprintln(os.Getpid()); string(text) != want {
		t.Errorf("lock file contains %q, want %q", text, want)
	}
	require.NoError(t, l.Unlock())
	if err := l.Unlock(); err == nil {
		t.Error("a second Unlock returned no error")
	}
}

func TestSecondLockInOneProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Lock(path)
	require.NoError(t, err)
	defer l.Unlock()
	_, err = Lock(path)
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	if locked.PID != os.Getpid() {
		t.Errorf("owner %d, want %d", locked.PID, os.Getpid())
	}
}

func TestProbesCreateAndDisturbNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	if Locked(path) {
		t.Error("Locked reports a lock that does not exist")
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	if len(entries) != 0 {
		t.Errorf("Locked created %v", entries)
	}

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	stop := make(chan struct{})
	var probes sync.WaitGroup
	for range 4 {
		probes.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					Locked(path)
				}
			}
		})
	}
	for i := range 200 {
		l, err := Lock(path)
		if err != nil {
			t.Errorf("lock %d: %v", i, err)
			break
		}
		if err := l.Unlock(); err != nil {
			t.Errorf("unlock %d: %v", i, err)
			break
		}
	}
	close(stop)
	probes.Wait()
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for _, c := range []struct {
		data string
		perm fs.FileMode
	}{{"first", 0o600}, {"second, longer", 0o644}, {"", 0o600}} {
		require.NoError(t, WriteFile(path, []byte(c.data), c.perm))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		if string(got) != c.data || info.Mode() != c.perm {
			t.Errorf("got %q %v, want %q %v", got, info.Mode(), c.data, c.perm)
		}
	}
	onlyEntry(t, dir, "state")
}

func TestWriteFileThatFailsLeavesNoTrace(t *testing.T) {
	dir := t.TempDir()
	// A file cannot replace a folder that is not empty.
	path := filepath.Join(dir, "taken")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "inside"), 0o700))
	err := WriteFile(path, []byte("x"), 0o600)
	if err == nil || !strings.HasPrefix(err.Error(), "write "+path+": ") {
		t.Errorf("got %v", err)
	}
	onlyEntry(t, dir, "taken")

	err = WriteFile(filepath.Join(dir, "missing", "file"), nil, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func onlyEntry(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("left in the folder: %v, want only %s", entries, name)
	}
}

func TestMkdir(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b", "c")
	require.NoError(t, Mkdir(deep))
	require.NoError(t, Mkdir(deep), "a second time")
	for d := deep; d != root; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		require.NoError(t, err)
		if info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s is %v", d, info.Mode())
		}
	}

	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if err := Mkdir(path); err == nil {
			t.Errorf("a folder at %s", path)
		}
	}
}
