//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"
)

// fileFaults put hostile files in the place of those that the session reads and
// writes.
func fileFaults() (rows []fault) {
	// T is the harness's transcript, S the session's folder.
	transcript := func(what, command string) {
		rows = append(rows, fault{what: "transcript: " + what, inject: func(f *faulted) { f.sh(command) }})
	}
	transcript("NUL bytes", `head -c 1048576 /dev/zero >>$T; echo >>$T`)
	transcript("a line of 100 MiB", `head -c 104857600 /dev/zero | tr '\0' x >>$T; echo >>$T`)
	transcript("a JSON string of 100 MiB", `printf '{"type":"user","message":"' >>$T; head -c 104857600 /dev/zero | tr '\0' x >>$T; echo '"}' >>$T`)
	transcript("invalid UTF-8", `for i in 1 2 3; do printf '{"type":"user","uuid":"\377\376","sessionId":"\300\200"}\n' >>$T; done`)
	transcript("a million brackets", `head -c 1000000 /dev/zero | tr '\0' '[' >>$T; echo >>$T`)
	transcript("100,000 lines that are no JSON", `yes 'not JSON' | head -n 100000 >>$T`)
	transcript("100,000 records of an unknown type", `yes '{"type":"?"}' | head -n 100000 >>$T`)
	transcript("types of other members", `printf '{"type":7}\n{"type":"user","message":[],"timestamp":{}}\n{"type":"assistant","message":{"usage":"x"}}\n[]\nnull\n' >>$T`)
	transcript("numbers out of range", `printf '{"type":"assistant","message":{"id":"m","usage":{"input_tokens":1e400,"output_tokens":-9223372036854775809}}}\n' >>$T`)
	transcript("truncated", `: >$T`)
	transcript("removed", `rm $T`)
	transcript("replaced by a copy", `cp $T $T.new; mv $T.new $T`)
	transcript("replaced by a folder, put back", `mv $T $T.old; mkdir $T; rmdir $T; mv $T.old $T`)
	transcript("a symbolic link to /dev/zero", `rm $T; ln -s /dev/zero $T`)
	transcript("a symbolic link to itself, put back", `mv $T $T.old; ln -s $T $T; sleep 0.2; mv $T.old $T`)
	transcript("its folder was moved away and back", `d=$(dirname $T); mv $d $d.old; mv $d.old $d`)
	rows = append(rows, fault{what: "transcript: a FIFO, then TERM", exits: anyCode, inject: func(f *faulted) {
		f.sh(`rm $T; mkfifo $T`)
		require.NoError(f.t, f.cmd.Process.Signal(syscall.SIGTERM))
	}})
	return append(append(rows, configFaults()...), recordFaults()...)
}

// configFaults are files in the place of the one that --config names.
func configFaults() (rows []fault) {
	config := func(what, command string) {
		rows = append(rows, fault{what: "configuration: " + what, exits: exitsWith(2, 125), noRecord: "the run: the configuration is refused",
			before: func(f *faulted) { f.sh("rm c.yaml; " + command) }})
	}
	config("a FIFO", `mkfifo c.yaml`)
	config("a symbolic link to /dev/zero", `ln -s /dev/zero c.yaml`)
	config("a folder", `mkdir c.yaml`)
	config("100 MiB", `head -c 104857600 /dev/zero | tr '\0' x >c.yaml`)
	config("a million brackets", `head -c 1000000 /dev/zero | tr '\0' '[' >c.yaml`)
	config("NUL bytes", `head -c 4096 /dev/zero >c.yaml`)
	config("invalid UTF-8", `printf 'clients: [{id: "\377\376"}]\n' >c.yaml`)
	config("aliases that multiply", `printf 'a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nclients: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n' >c.yaml`)
	return rows
}

// recordFaults change the session's own files.
func recordFaults() (rows []fault) {
	// The ledger is lost or damaged. But the run must end, nothing else may be lost,
	// every command that reads the session must end, and `ledger verify` must fail.
	ledger := func(what, command string) {
		rows = append(rows, fault{what: "ledger: " + what, exits: exitsWith(0, 125), noRecord: "the record; `ledger verify` reports it",
			inject: func(f *faulted) { f.sh("L=$S/ledger-000001.jsonl; " + command) }, after: (*faulted).damageIsFound})
	}
	ledger("removed", `rm $L`)
	ledger("truncated", `: >$L`)
	ledger("cut in the middle", `truncate -s 3000 $L`)
	ledger("a byte changed", `printf X | dd of=$L bs=1 seek=700 conv=notrunc 2>/dev/null`)
	ledger("replaced by another file", `echo '{"seq":1}' >$L.new; mv $L.new $L`)
	ledger("replaced by a FIFO", `rm $L; mkfifo $L`)
	ledger("replaced by a link to /dev/zero", `rm $L; ln -s /dev/zero $L`)
	ledger("a line of another writer", `echo '{"v":1,"seq":9}' >>$L`)

	killed := func(what, command string) {
		rows = append(rows, fault{what: what + ", then KILL to the wrapper", exits: exitsWith(137), inject: func(f *faulted) {
			f.sh(command)
			require.NoError(f.t, f.cmd.Process.Kill())
		}})
	}
	killed("guards.json: a FIFO", `rm $S/guards.json; mkfifo $S/guards.json`)
	killed("guards.json: no JSON", `echo '[[[' >$S/guards.json`)
	killed("the lock is removed", `rm $S/lock`)
	killed("half a line at the end of the ledger", `printf '{"at":"2026-' >>$S/ledger-000001.jsonl`)
	for what, command := range map[string]string{"removed": `rm $S/command.json`, "a FIFO": `rm $S/command.json; mkfifo $S/command.json`,
		"a link to /dev/zero": `rm $S/command.json; ln -s /dev/zero $S/command.json`} {
		rows = append(rows, fault{what: "command.json: " + what + ", then KILL to the wrapper", exits: exitsWith(137), resumes: true, inject: func(f *faulted) {
			f.sh(command)
			require.NoError(f.t, f.cmd.Process.Kill())
		}})
	}
	before := func(what, command string) {
		rows = append(rows, fault{what: what, exits: exitsWith(125, 1), noRecord: "the run: it is refused", before: func(f *faulted) { f.sh(command) }})
	}
	before("lock: a FIFO", `mkdir -p -m 700 $S; mkfifo $S/lock`)
	before("the session's folder: a file", `mkdir -p -m 700 $(dirname $S); : >$S`)
	before("the state folder: a file", `: >state`)
	before("the state folder: a link to itself", `ln -s state state`)
	rows = append(rows,
		fault{what: "the session's folder is removed", exits: exitsWith(0, 125), noRecord: "the record; no command lists it", inject: func(f *faulted) { f.sh(`rm -r $S`) }},
		fault{what: "the state folder is removed", exits: exitsWith(0, 125), noRecord: "all records", inject: func(f *faulted) { f.sh(`rm -r state`) }})
	return rows
}

// sh runs a shell command in f.dir, the working directory of the wrapper, with T and S set.
func (f *faulted) sh(command string) {
	found, _ := filepath.Glob(filepath.Join(f.dir, "home/.claude/projects/*/*.jsonl"))
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "S="+f.sessionDir(), "T="+strings.Join(found, ""))
	out, err := cmd.CombinedOutput()
	require.NoError(f.t, err, "%s: %s", command, out)
}

// damageIsFound checks that every command which reads the session ends, and that
// `ledger verify` says no.
func (f *faulted) damageIsFound() {
	for _, command := range []string{"ps --all", "status " + matrixSession, "events " + matrixSession, "doctor", "prune --keep 9", "ledger verify " + matrixSession} {
		out, err := f.command(strings.Fields(command)...)
		require.False(f.t, bytes.Contains([]byte(out), []byte("goroutine ")), "%s: %s", command, out)
		if strings.HasPrefix(command, "ledger") {
			require.Error(f.t, err, "%s: %s", command, out)
		}
	}
}
