package control

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A tree is a tree of processes. Each process is a shell that writes its pid to a file,
// starts its children and waits for them. The file has the name of the process. A process
// whose name begins with "hook" has the path of the key in its arguments.
type tree struct {
	t   *testing.T
	dir string
}

const keyPath = "/nonexistent/hook-key-1"

// node writes the script of a process and returns the command that runs it. children are
// the commands of the process's children.
func (tr tree) node(name string, children ...string) (command string) {
	text := "echo $$ > " + name + ".new; mv " + name + ".new " + name + "\n"
	for _, c := range children {
		text += c + " &\n"
	}
	if len(children) == 0 {
		text += "read x < never\n"
	}
	require.NoError(tr.t, os.WriteFile(filepath.Join(tr.dir, name+".sh"), []byte(text+"wait\n"), 0o600))
	command = "sh " + name + ".sh"
	if strings.HasPrefix(name, "hook") {
		command += " --key=" + keyPath
	}
	return command
}

func (tr tree) start(command string) {
	cmd := exec.Command("sh", "-c", "exec "+command)
	cmd.Dir = tr.dir
	require.NoError(tr.t, cmd.Start())
	go func() { _ = cmd.Wait() }()
}

func (tr tree) pid(name string) (pid int) {
	tr.t.Helper()
	require.Eventually(tr.t, func() bool {
		data, err := os.ReadFile(filepath.Join(tr.dir, name))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil && pid > 1
	}, 10*time.Second, 5*time.Millisecond, name)
	return pid
}

// kill ends one process and waits until it is gone.
func (tr tree) kill(name string) {
	tr.t.Helper()
	pid := tr.pid(name)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	require.Eventually(tr.t, func() bool { return len(ancestry(pid)) == 0 }, 10*time.Second, 5*time.Millisecond, name)
}

func newTree(t *testing.T) tree {
	tr := tree{t, t.TempDir()}
	require.NoError(t, syscall.Mkfifo(filepath.Join(tr.dir, "never"), 0o600))
	t.Cleanup(func() {
		files, _ := filepath.Glob(filepath.Join(tr.dir, "*.sh"))
		for _, f := range files {
			data, err := os.ReadFile(strings.TrimSuffix(f, ".sh"))
			if pid, _ := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return tr
}

// TestCallers checks that the calls of the harness belong to the launch. The calls of the
// same program, started as a tool of the harness, do not. Some hooks are run by a shell.
func TestCallers(t *testing.T) {
	for name, launcher := range map[string]bool{"the launched process is the harness": false, "a launcher and its child": true} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			nested := tr.node("nested", tr.node("hook_n1"), tr.node("hook_shell_n", tr.node("hook_n2")))
			orphan := tr.node("gone", tr.node("background", tr.node("hook_n3")))
			top := tr.node("harness", tr.node("hook_1"), tr.node("hook_shell", tr.node("hook_2")), tr.node("tool", nested), orphan)
			launched := "harness"
			if launcher {
				top, launched = tr.node("launcher", top), "launcher"
			}
			tr.start(top)
			c := NewCallers(keyPath)
			require.True(t, c.Own(tr.pid("hook_n1")), "before the pid of the launch is known")
			c.Launched(tr.pid(launched))
			own := func(want bool, names ...string) {
				t.Helper()
				for _, name := range names {
					require.Equal(t, want, c.Own(tr.pid(name)), name)
				}
			}
			own(true, "hook_1", "hook_2", "harness")
			own(false, "hook_n1", "hook_n2", "hook_n3", "nested")
			tr.kill("gone") // init or a subreaper becomes the parent of background
			own(false, "hook_n3", "background")
			own(true, "hook_1", "hook_2", "harness")
			require.True(t, c.Own(1<<22+1), "a process that has ended")
			require.True(t, c.Own(0), "a process of another pid namespace")
			own(false, "nested")
			pid := tr.pid("nested")
			tr.kill("nested")
			require.False(t, c.Own(pid), "a foreign process that called itself and has ended")
			own(false, "hook_n1")
			own(true, "hook_1")
		})
	}
}

// TestCallersAfterARelaunch checks which process takes the place of a harness that has
// ended: the next child of the launcher, and no process that the first child left behind.
func TestCallersAfterARelaunch(t *testing.T) {
	tr := newTree(t)
	first := tr.node("first", tr.node("hook_1"), tr.node("tool", tr.node("nested", tr.node("hook_n"))))
	second := tr.node("second", tr.node("hook_2"))
	tr.start(tr.node("launcher", first, second))
	c := NewCallers(keyPath)
	c.Launched(tr.pid("launcher"))
	require.True(t, c.Own(tr.pid("hook_1")))
	require.False(t, c.Own(tr.pid("hook_n")))
	require.False(t, c.Own(tr.pid("hook_2")), "the first still runs")
	tr.kill("first")
	require.False(t, c.Own(tr.pid("hook_n")))
	require.True(t, c.Own(tr.pid("hook_1")), "a hook that outlived its harness")
	require.True(t, c.Own(tr.pid("hook_2")))
	require.False(t, c.Own(tr.pid("hook_n")))
	require.True(t, c.Own(tr.pid("hook_2")))
}

// TestCallersBegunByATool checks the case that a tool calls a hook before its harness does.
// After the first call of the harness, the tool's calls do not belong to the launch.
func TestCallersBegunByATool(t *testing.T) {
	tr := newTree(t)
	tr.start(tr.node("harness", tr.node("hook_1"), tr.node("tool", tr.node("nested", tr.node("hook_n")))))
	c := NewCallers(keyPath)
	c.Launched(tr.pid("harness"))
	for i, want := range []struct {
		name string
		own  bool
	}{{"hook_n", true}, {"hook_1", true}, {"hook_n", false}, {"hook_1", true}} {
		require.Equal(t, want.own, c.Own(tr.pid(want.name)), fmt.Sprint(i, want.name))
	}
}
