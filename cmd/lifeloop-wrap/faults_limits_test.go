//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// limitFaults take away resources of the machine that a session needs.
func limitFaults() (rows []fault) {
	limit := func(what string, under ...string) fault {
		return fault{what: what, under: under, refusal: true, exits: func(f *faulted) bool { return f.code == 125 || f.there() && asTheHarness(f) }}
	}
	for n := 5; n <= 64; n++ {
		if n > 24 && n%8 != 0 {
			continue
		}
		rows = append(rows, limit(fmt.Sprint(n, " descriptors"), "nofile="+strconv.Itoa(n)))
	}
	for i, n := range []int{4, 8, 12, 16, 20, 24, 32, 48, 64} {
		row := limit(fmt.Sprint(n, " processes and threads of the user"), "nproc="+strconv.Itoa(n), "uid="+strconv.Itoa(firstUser+i))
		row.needs, row.noThread = root, true
		row.exits = func(f *faulted) bool { return f.code == 2 || f.code == 125 || f.there() && asTheHarness(f) }
		rows = append(rows, row)
	}
	for _, n := range []int{512, 850, 1024} { // from 740 to 810 MiB, the result depends on the program's place in memory
		row := limit(fmt.Sprint(n, " MiB of address space"), "as="+strconv.Itoa(n<<20))
		if row.noThread = n < 740; row.noThread { // Go's runtime does not start with less address space
			row.exits = exitsWith(2)
		}
		rows = append(rows, row)
	}
	for _, n := range []int{0, 512, 4096, 16384, 65536} {
		row := limit(fmt.Sprint("files of at most ", n, " bytes"), "fsize="+strconv.Itoa(n))
		rows = append(rows, row)
	}
	for _, size := range []string{"4k", "16k", "32k", "64k"} {
		rows = append(rows, fault{what: "a disk of " + size, refusal: true, needs: root, exits: exitsWith(0, 125),
			before: func(f *faulted) { f.mount("size=" + size) }, after: func(f *faulted) { f.remount("size=8m") }})
	}
	rows = append(rows,
		fault{what: "a full disk", refusal: true, needs: root, exits: exitsWith(125),
			before: func(f *faulted) { f.mount("size=64k"); f.sh(`cat /dev/zero >state/filler 2>/dev/null || true`) }},
		fault{what: "the disk is full during a turn", needs: root, exits: exitsWith(125),
			before: func(f *faulted) { f.mount("size=1m") }, inject: func(f *faulted) { f.sh(`cat /dev/zero >state/filler 2>/dev/null || true`) },
			after: func(f *faulted) { f.sh(`rm state/filler`) }},
		fault{what: "the disk is full during a turn, on_ledger_error: continue", needs: root, resumes: true, config: "on_ledger_error: continue\n" + faultConfig,
			before: func(f *faulted) { f.mount("size=1m") }, inject: func(f *faulted) { f.sh(`cat /dev/zero >state/filler 2>/dev/null || true`) },
			after: func(f *faulted) { f.sh(`rm state/filler`) }},
		fault{what: "a read-only state folder", needs: root, exits: exitsWith(125), noRecord: "the run: it is refused",
			before: func(f *faulted) { f.mount("ro,size=1m") }},
		fault{what: "the session's folder becomes read-only", needs: root, under: []string{"uid=" + strconv.Itoa(firstUser+90)},
			inject: func(f *faulted) { f.sh(`chmod 500 $S $(dirname $S) state`) }, after: func(f *faulted) { f.sh(`chmod 700 state $(dirname $S) $S`) }},
		fault{what: "no inotify instance is left", needs: root, under: []string{"uid=" + strconv.Itoa(firstUser+91)}, before: (*faulted).exhaustInotify},
		fault{what: "a folder for sockets that is read-only", needs: root, under: []string{"uid=" + strconv.Itoa(firstUser+92)}, refusal: true, exits: exitsWith(0, 125),
			before: func(f *faulted) { require.NoError(f.t, os.Chmod(f.runtime, 0o500)) }, after: func(f *faulted) { require.NoError(f.t, os.Chmod(f.runtime, 0o700)) }})
	return rows
}

// firstUser is the first user id that the rows use. Each row that does not run as root
// has a user id of its own, because a limit on processes counts all processes of one
// user.
const firstUser = 61_000

func root() string {
	if os.Getuid() != 0 {
		return "it needs root"
	}
	return ""
}

// giveAway gives the session's folders to the user of the row.
func (f *faulted) giveAway() {
	for _, word := range f.under {
		uid, ok := strings.CutPrefix(word, "uid=")
		if !ok {
			continue
		}
		id, err := strconv.Atoi(uid)
		require.NoError(f.t, err)
		for _, dir := range []string{f.dir, f.runtime} {
			require.NoError(f.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				return os.Lchown(path, id, id)
			}))
		}
		require.NoError(f.t, os.Chmod(filepath.Dir(f.dir), 0o755))
		f.user = id
	}
}

// mount makes the state folder a file system of its own.
func (f *faulted) mount(options string) {
	require.NoError(f.t, os.Mkdir(f.state, 0o700))
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,"+options, "lifeloop-faults", f.state).CombinedOutput()
	require.NoError(f.t, err, "%s", out)
	f.t.Cleanup(func() { _ = exec.Command("umount", "-l", f.state).Run() })
}

func (f *faulted) remount(options string) {
	out, err := exec.Command("mount", "-o", "remount,"+options, f.state).CombinedOutput()
	require.NoError(f.t, err, "%s", out)
}

// exhaustInotify takes all inotify instances of the user.
func (f *faulted) exhaustInotify() {
	hog := exec.Command(f.program("limited"), append(append([]string{}, f.under...), "inotify")...)
	hog.Args[0] = "limited"
	stdin, err := hog.StdinPipe()
	require.NoError(f.t, err)
	stdout, err := hog.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, hog.Start())
	f.t.Cleanup(func() {
		stdin.Close()
		_ = hog.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(f.t, err)
	f.t.Logf("%s inotify instances are taken", strings.TrimSpace(line))
}

// limitedMain runs a program under limits: limited nofile=6 nproc=20 fsize=0 uid=1000 -- CMD.
// With the word inotify it takes all instances of the user until its stdin ends.
func limitedMain() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "limited:", err)
			os.Exit(99)
		}
	}
	words := os.Args[1:]
	var nproc *syscall.Rlimit // set after uid: if the new user exceeds the limit during Setuid, Exec fails
	for ; len(words) > 0 && words[0] != "--" && words[0] != "inotify"; words = words[1:] {
		name, value, _ := strings.Cut(words[0], "=")
		n, err := strconv.Atoi(value)
		fail(err)
		limit := &syscall.Rlimit{Cur: uint64(n), Max: uint64(n)}
		switch name {
		case "nofile":
			fail(syscall.Setrlimit(syscall.RLIMIT_NOFILE, limit))
		case "nproc":
			nproc = limit
		case "as":
			fail(syscall.Setrlimit(syscall.RLIMIT_AS, limit))
		case "fsize":
			fail(syscall.Setrlimit(syscall.RLIMIT_FSIZE, limit))
		case "uid":
			fail(syscall.Setgroups(nil))
			fail(syscall.Setgid(n))
			fail(syscall.Setuid(n))
		}
	}
	if nproc != nil {
		fail(syscall.Setrlimit(unix.RLIMIT_NPROC, nproc))
	}
	if words[0] == "inotify" {
		n := 0
		for ; ; n++ {
			if _, err := unix.InotifyInit1(0); err != nil {
				break
			}
		}
		fmt.Println(n)
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	path, err := exec.LookPath(words[1])
	fail(err)
	fail(syscall.Exec(path, words[1:], os.Environ()))
}
