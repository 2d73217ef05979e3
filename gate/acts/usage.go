package acts

import (
	"slices"
	"strings"
)

// This file describes the flags of commands that run other commands, write files or
// delete files.

// A role says what a command does with its operands.
type role int

const (
	noRole     role = iota
	wraps           // the operands are a command, which is run
	wrapsText       // the operands are the text of a command line, which is run
	opaque          // the command runs other commands, which its arguments do not show
	shells          // the first operand is the file of a script, or with -c the text of one
	programs        // the first operand is the file of a program, which is run
	deletes         // each operand is deleted
	writes          // each operand is written
	changes         // each operand after the first one is written
	compresses      // each operand is replaced
	first           // the first operand is written
	copies          // the last operand is written
	moves           // the last operand is written, the others are deleted
)

// A usage describes how commands use their arguments. Each flag is followed by a mark
// if it is more than a switch:
//
//	:  it has a value
//	?  it has a value only if the value is attached, in the same word: -i.bak, --color=never
//	>  its value is a file or folder that is written
//	<  its value is a file that is read
//	/  its value is the working directory
//	!  its value is a command line
//	~  a command with this flag is undecidable
//	#  with it, the command runs nothing that its operands name, as in command -v ls
//	|  its value is the program, and all later words are the program's arguments
type usage struct {
	names string
	role  role
	short string // the flags of one letter: vf< for -v and -f FILE
	long  string // the other flags; most commands accept the beginning of a name, as --verb for --verbose
	skip  int    // the number of operands before a wrapped command: 1 for timeout 5 ls
	dash  bool   // long flags begin with a single dash
}

const marks = ":?></!~#|"

var usages = [...]usage{
	{names: "command", role: wraps, short: "pv#V#"},
	{names: "builtin nohup busybox toybox fakeroot", role: wraps, long: "help# version# list#"},
	{names: "noglob nocorrect -", role: wraps},
	{names: "repeat", role: wraps, skip: 1},
	{names: "ssh-agent", role: wraps, short: "csDdk#a:E:O:P:t:"},
	{names: "perf", role: wraps, short: "aABdgSvIe:r:p:t:o>x:F:c:C:i<", long: "version# help# output> input< call-graph: event: repeat:", skip: 1},
	{names: "ld.so", role: wraps, long: "library-path: preload: argv0: audit: inhibit-cache inhibit-rpath: list# verify# help# version#"},
	{names: "sshpass", role: wraps, short: "evp:f<d:P:V#h#"},
	{names: "chronic ifne torsocks proxychains proxychains4 eatmydata", role: wraps, short: "qv"},
	{names: "ccache", role: wraps, short: "s#C#c#z#p#V#h#", long: "show-stats# clear# cleanup# zero-stats# show-config# version# help#"},
	{names: "pnpm yarn bundle", skip: 1},
	{names: "npm npx", short: "yc!p:w:", long: "call! package: yes no workspace: prefix:"},
	{names: "exec", role: wraps, short: "cla:"},
	{names: "setsid", role: wraps, short: "cfw", long: "ctty fork wait"},
	{names: "time gtime", role: wraps, short: "pavqlf:o>", long: "portability append verbose quiet format: output>"},
	{names: "sudo", role: wraps, short: "ABbEHKkNnPSV#v#l#i~s~e~h~R~u:g:p:C:T:D/r:t:U:",
		long: "askpass background preserve-env? set-home remove-timestamp reset-timestamp no-update non-interactive preserve-groups stdin version# validate# list# help# login~ shell~ edit~ host~ chroot~ user: group: prompt: close-from: command-timeout: chdir/ role: type: other-user:"},
	{names: "doas", role: wraps, short: "nL#s~a:C~u:"},
	{names: "env", role: wraps, short: "i0vu:a:C/S~P~", long: "ignore-environment null debug unset: argv0: chdir/ split-string~ block-signal? default-signal? ignore-signal? list-signal-handling"},
	{names: "strace ltrace", role: wraps, short: "fFcCdDikqrtTvwxyYzZhV#a:b:e:E:I:o>O:p:P:s:S:u:X:l:n:A:"},
	{names: "unshare", role: wraps, short: "imnpuUCTfrcS:G:w/R~", long: "mount? uts? ipc? net? pid? user? cgroup? time? fork kill-child? map-root-user map-current-user mount-proc? keep-caps map-user: map-group: propagation: setgroups: setuid: setgid: wd/ root~"},
	{names: "caffeinate", role: wraps, short: "dimsut:w:"},
	{names: "flock", role: wraps, short: "sxenuoFvw:E:c!", long: "shared exclusive nonblock nb unlock close no-fork verbose wait: timeout: conflict-exit-code: command!", skip: 1},
	{names: "nice", role: wraps, short: "0123456789n:", long: "adjustment:"},
	{names: "ionice", role: wraps, short: "tc:n:p:P:u:", long: "ignore class: classdata: pid: pgid: uid:"},
	{names: "chrt", role: wraps, short: "abdfiomrRpvT:P:D:", long: "all-tasks batch deadline fifo idle other rr reset-on-fork pid verbose max# sched-runtime: sched-period: sched-deadline:", skip: 1},
	{names: "stdbuf", role: wraps, short: "i:o:e:", long: "input: output: error:"},
	{names: "timeout gtimeout", role: wraps, short: "fpvk:s:", long: "foreground preserve-status verbose kill-after: signal:", skip: 1},
	{names: "taskset", role: wraps, short: "acp", long: "all-tasks cpu-list pid", skip: 1},
	{names: "setpriv", role: wraps, short: "d#", long: "nnp no-new-privs clear-groups keep-groups init-groups reset-env dump# list-caps# reuid: regid: ruid: rgid: euid: egid: groups: inh-caps: ambient-caps: bounding-set: securebits: pdeathsig: selinux-label: apparmor-profile:"},
	{names: "numactl", role: wraps, short: "labH#s#i:N:m:C:p:P:", long: "localalloc all hardware# show# interleave: cpunodebind: membind: physcpubind: preferred:"},
	{names: "xargs", role: wraps, short: "0rtpxoa<d:E:e?I:i?L:l?n:P:s:J:R:S:",
		long: "null no-run-if-empty verbose interactive exit open-tty show-limits arg-file< delimiter: eof? replace? max-lines? max-args: max-procs: max-chars: process-slot-var:"},
	{names: "watch", role: wrapsText, short: "bcdegptxn:q:s:", long: "beep color differences? errexit chgexit no-title precise exec interval: equexit:"},
	{names: "su runuser pkexec sg newgrp setarch linux32 linux64 i386 x86_64 runcon prlimit choom cpulimit unbuffer rlwrap entr socat crontab start-stop-daemon systemd-inhibit machinectl dbus-run-session xvfb-run firejail script chroot nsenter systemd-run bwrap proot parallel at batch tmux screen ed ex vi vim nvim emacs gdb lldb", role: opaque},
	{names: "zargs zmv zcp zln sched zcompile zpty zed vared zle ztcp zsocket sysopen syswrite zf_rm zf_mv zf_ln zf_mkdir zf_rmdir zf_chmod zf_chown zf_chgrp zf_sync add-zsh-hook", role: opaque}, // builtin commands and functions of zsh

	{names: "sh bash rbash dash zsh ksh mksh ash yash", role: shells, short: "abefhiklmnprtuvxBCEHPTDcso:O:",
		long: "login noprofile norc posix restricted verbose version# help# rcfile: init-file:"},
	{names: "python pypy", role: programs, short: "bBdEIOPqsSuvxh#V#W:X:c~i~m|", long: "version# help# check-hash-based-pycs:"},
	{names: "perl", role: programs, short: "0123456789aclnpsStTuUwWXfgv#V#h#e~E~d~i?F?C?D?x?I:M:m:"},
	{names: "ruby jruby", role: programs, short: "0123456789acdlnpsSUwyv#h#e~i?F?K?T?W?x?C/E:I:r:", long: "version# help# verbose yjit jit disable: enable: encoding: external-encoding: internal-encoding:"},
	{names: "node nodejs", role: programs, short: "cv#h#e~p~i~r:C:",
		long: "version# help# eval~ print~ interactive~ check test# watch inspect? inspect-brk? no-warnings enable-source-maps trace-warnings trace-deprecation expose-gc preserve-symlinks require: import: loader: experimental-loader: conditions: env-file: env-file-if-exists: max-old-space-size: unhandled-rejections: test-reporter: test-name-pattern: test-concurrency: watch-path: no-deprecation prof cpu-prof heap-prof throw-deprecation trace-uncaught stack-size: stack-trace-limit: experimental-strip-types experimental-vm-modules experimental-test-coverage run|"},
	{names: "bun", role: programs, short: "bhve~p~r:t:F:", long: "version# help# eval~ print~ watch hot bun smol silent preload: cwd/ env-file: filter: if-present coverage bail? timeout: only todo test-name-pattern: import:"},
	{names: "deno", role: programs, short: "hqV#AR?W?N?E?S?I?r?c:L:", long: "version# help# quiet allow-all allow-read? allow-write? allow-net? allow-env? allow-run? allow-sys? allow-ffi? allow-import? no-prompt no-check? check? no-remote no-npm no-lock no-config cached-only watch? reload? config: import-map: env-file? preload: import: require: unstable-kv unstable-sloppy-imports"},
	{names: "php", role: programs, short: "nqCHwsv#h#i#m#lr~a~B~R~E~F:f|c:d:S:t:z:", long: "version# help# run~ interactive~ file|"},
	{names: "lua luajit", role: programs, short: "Ev#e~i~l:W"},
	{names: "osascript", role: programs, short: "ie~l:s:"},
	{names: "fish csh tcsh nu pwsh powershell elvish xonsh expect irb pry ipython bpython Rscript julia guile tclsh groovy elixir", role: programs, short: "v#c~e~E~", long: "version# help#"},

	{names: "rm rmdir unlink trash", role: deletes, short: "dfiIprRvxW", long: "dir force interactive? no-preserve-root one-file-system parents preserve-root? recursive verbose"},
	{names: "shred", role: deletes, short: "n:s:", long: "iterations: size: random-source<"},
	{names: "tee mkfifo sponge", role: writes},
	{names: "fallocate", role: writes, short: "l:o:", long: "length: offset:"},
	{names: "touch", role: writes, short: "d:r<t:A:", long: "date: reference< time:"},
	{names: "mkdir", role: writes, short: "m:", long: "mode:"},
	{names: "truncate", role: writes, short: "s:r<", long: "size: reference<"},
	{names: "chmod chown chgrp setfacl", role: changes, short: "RcfvhHLP", long: "recursive changes quiet silent verbose no-dereference dereference preserve-root no-preserve-root reference< from:"},
	{names: "cp", role: copies, short: "rRt>S:", long: "recursive target-directory> suffix: backup? sparse: reflink? preserve? no-preserve: context?"},
	{names: "mv", role: moves, short: "t>S:", long: "target-directory> suffix: backup?"},
	{names: "ln", role: writes, short: "t>S:", long: "target-directory> suffix: backup?"},
	{names: "install ginstall", role: copies, short: "dt>g:m:o:S:", long: "directory target-directory> group: mode: owner: suffix: strip-program!"},
	{names: "ssh", skip: 1, short: "46AaCfGgKkMNnqsTtVvXxYyo:i<F<p:l:L:R:D:J:b:B:c:e:E>I:m:O:Q:S:w:W:P:"},
	{names: "sftp", short: "o:i<F<p:P:l:L:R:D:J:b:B:c:e:E>I:m:O:Q:S:w:W:"},
	{names: "make gmake", short: "f<C:I:o:W:j?l?E~", long: "eval~ file< makefile< directory: include-dir: old-file: assume-old: what-if: new-file: assume-new: jobs? load-average?"},
	{names: "split", short: "a:b:C:l:n:t:", long: "filter! suffix-length: bytes: line-bytes: lines: number: additional-suffix: numeric-suffixes? hex-suffixes? separator:"},
	{names: "scp", role: copies, short: "P:i<F<o:c:l:S~J:"},
	{names: "rsync", role: copies, short: "e!f:T>B:M:", long: "delete remove-source-files rsh! rsync-path~ log-file> backup-dir> write-batch> partial-dir> temp-dir> exclude: include: filter: exclude-from< include-from< files-from< compare-dest: copy-dest: link-dest:"},
	{names: "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd compress uncompress", role: compresses, short: "cltS:o>T:M:", long: "stdout to-stdout list test suffix:"},
	{names: "zip", role: first, short: "mb:n:t:i:x:P:O>", long: "move output-file> out> unzip-command~"},
	{names: "unzip", short: "d>P:x:"},
	{names: "7z 7za 7zz", short: "o>"},
	{names: "patch", role: first, short: "d>o>i<r>p:D:F:V:Y>z:B>", long: "directory> output> input< reject-file> strip: fuzz: prefix> basename-prefix> suffix:"},
	{names: "tar gtar bsdtar", short: "cruAxtdPf:C:T<X<I~F~g>b:H:L:N:K:V:",
		long: "create append update catenate concatenate delete extract get list listed-incremental> index-file> volno-file> one-top-level? diff compare remove-files absolute-names file: directory: files-from< exclude-from< exclude: use-compress-program~ to-command~ checkpoint-action~ info-script~ new-volume-script~ rmt-command~ rsh-command~ transform~ xform~"},
	{names: "curl", short: "OA:b:c>C:d:D>e:E:F:h?H:K~m:o>P:Q:r:t:T:u:U:w:x:X:y:Y:z:",
		long: "remote-name remote-name-all output> output-dir> cookie-jar> dump-header> trace> trace-ascii> stderr> etag-save> hsts> alt-svc> libcurl> config~ data: data-raw: data-binary: data-urlencode: url-query: variable: form: form-string: upload-file: cert: proxy-cert: header: request:"},
	{names: "wget", short: "O>P>o>a>e~i<U:t:T:l:A:R:D:I:X:B:Q:w:", long: "output-document> directory-prefix> output-file> append-output> save-cookies> warc-file> warc-tempdir> rejected-log> hsts-file> post-file< body-file< execute~ use-askpass~ config~ input-file<"},
	{names: "grep egrep fgrep", short: "A:B:C:m:d:D:e:f<", long: "after-context: before-context: context: max-count: regexp: file< include: exclude: exclude-dir: exclude-from< color? colour? label:"},
	{names: "rg", short: "A:B:C:m:e:f<g:t:T:j:M:d:r:E:", long: "after-context: before-context: context: max-count: regexp: file< files glob: iglob: type: type-not: threads: max-columns: max-depth: replace: encoding: ignore-file< sort: sortr: pre~ pre-glob: color: colors:"},
	{names: "awk gawk mawk nawk", short: "F:v:f|i~l~E|e~D~o>p>d>", long: "field-separator: assign: file| include~ load~ exec| source~ debug~ lint? csv posix traditional re-interval sandbox version# help#"},
	{names: "sort", short: "o>k:t:S:T>", long: "output> temporary-directory> key: field-separator: compress-program~"},
	{names: "gcc cc g++ c++ clang clang++ gfortran", short: "o> x: D: U: I: L: l: B: A:", long: "MF> MJ> MT: MQ: aux-info> dumpdir> dumpbase: include: isystem: idirafter: iquote: iprefix: imacros: Xlinker: Xassembler: Xpreprocessor: arch: target: framework: wrapper~ fplugin~ specs~", dash: true},
	{names: "go", long: "o> coverprofile> cpuprofile> memprofile> blockprofile> mutexprofile> trace> outputdir> exec! toolexec! C/", dash: true},
	{names: "as ld strip", short: "o> I: L: l:", long: "Map> MD>", dash: true},
	{names: "rustc pandoc", short: "o>L:l:C:t:f:", long: "out-dir> output> to: from: crate-type: crate-name: edition:"},
	{names: "dot neato", short: "o>T:K:G:N:E:"},
	{names: "javac", long: "d> s> h> cp: classpath: sourcepath: source: target: release:", dash: true},
	{names: "tsc", short: "p:", long: "outDir> outFile> declarationDir> project: build"},
	{names: "uniq", short: "f:s:w:", long: "skip-fields: skip-chars: check-chars:"},
	{names: "xxd", long: "a b c: cols: C d e E g: groupsize: i l: len: n: name: o: p ps r R: s: seek: u", dash: true},
	{names: "openssl", long: "out> keyout> outdir> writerand> sigopt: passin: pass: passout: in< key<", dash: true},
	{names: "iconv", short: "f:t:o>", long: "output> from-code: to-code:"},
	{names: "shuf", short: "o>n:i:", long: "output> head-count: input-range: random-source<"},
	{names: "csplit", short: "f>b:n:", long: "prefix> suffix-format: digits:"},
	{names: "gpg gpg2", short: "o>r:u:N:z:", long: "output> recipient: local-user: passphrase: passphrase-file< passphrase-fd: log-file> status-file> attribute-file> logger-file> batch yes decrypt encrypt sign verify armor symmetric clear-sign detach-sign export import list-keys"},
	{names: "sqlite3", long: "cmd: init< separator: newline: nullvalue: readonly safe", dash: true},
	{names: "history", short: "cpsw>a>r<n<d:"},
	{names: "sed gsed", short: "nErsuze:f<i?l:E", long: "expression: file< in-place? line-length: quiet silent"},
	{names: "yq", short: "io:p:I:", long: "inplace in-place output-format: input-format: indent:"},
	{names: "mapfile readarray", short: "C~d:n:O:s:u:c:"},
	{names: "git", role: opaque, short: "pPh#v#C/c:", long: "version# help# html-path# man-path# info-path# exec-path~ paginate no-pager bare no-replace-objects literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs no-optional-locks no-advice work-tree/ git-dir: namespace: config-env~ super-prefix: attr-source:"},
}

// usageOf finds the usage of a command; a version at the end of its name is left out.
func usageOf(name string) usage {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		name = "ld.so"
	}
	for _, name := range []string{name, strings.TrimRight(name, "0123456789.-")} {
		for i := range usages {
			if hasWord(usages[i].names, name) {
				return usages[i]
			}
		}
	}
	return usage{}
}

// hasWord reports whether a word is in a list of words.
func hasWord(list, word string) bool {
	for word != "" {
		i := strings.Index(list, word)
		if i < 0 {
			return false
		}
		end := i + len(word)
		if (i == 0 || list[i-1] == ' ') && (end == len(list) || list[end] == ' ') && !strings.Contains(word, " ") {
			return true
		}
		_, list, _ = strings.Cut(list[i:], " ") // continue with the next word
	}
	return false
}

// A flag is one flag of a command. Its name has no dashes.
type flag struct {
	name  string
	mark  byte // 0: a switch
	value arg
	doubt bool // this flag may instead be the value of the flag before it
}

// valued reports whether the flag takes the next word as its value if none is attached.
func (f flag) valued() bool { return strings.IndexByte(":></!|", f.mark) >= 0 }

// An invocation is the parsed arguments of a command.
type invocation struct {
	flags    []flag
	operands []arg
	unknown  bool // there are flags that the usage does not list
	hidden   bool // a word that is not known may be a flag, as $x, or hold flags, as -$x
	partly   bool // the end of a flag is not known, as in -$x, "-n$x" and "--re$x", but not in -j$x if -j has a value
	dashes   bool // there is a --, which ends the flags
}

func (in invocation) has(names string) bool {
	return slices.ContainsFunc(in.flags, func(f flag) bool { return hasWord(names, f.name) })
}

func (in invocation) marked(mark byte) bool {
	return slices.ContainsFunc(in.flags, func(f flag) bool { return f.mark == mark })
}

// writes reports whether u describes a command that deletes or changes its operands, as rm
// and chmod do, or that supports a flag that writes a file, even if the flag is not used.
func (u usage) writes() bool {
	return u.role == deletes || u.role == changes || (strings.Contains(u.short, ">") || strings.Contains(u.long, ">")) && !hasWord(u.names, "awk") // the flags of awk end at the program, so a later word is no flag
}

// runs reports whether a flag of the command runs another command, or decides what the
// operands mean. runs ignores the flags of an interpreter and of awk, which end at the
// program: the methods script and awk of shell examine these flags.
func (u usage) runs(name string) bool {
	return strings.ContainsAny(u.short+u.long, "~!") && u.role != programs && !hasWord(u.names, "awk") || hasWord("sed gsed sqlite3 ar yq", name)
}

// parse separates flags and operands. If ends is set, a command or program with its own
// arguments begins at the operand after the first u.skip ones. All later words then count
// as operands.
func (u usage) parse(args []arg, ends bool) (in invocation) {
	skip := u.skip
	valued := false // the word may be the value of the word before it
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		flags, rest := len(in.flags), len(args)
		switch {
		case strings.HasPrefix(a.begin, "-"):
			in.hidden = in.hidden || a.loose
			if strings.HasPrefix(a.begin, "--") || u.dash {
				args = u.longFlag(&in, a, args, ends)
			} else {
				args = u.shortFlags(&in, a, args)
			}
		case !a.known && ends:
			in.unknown = in.unknown || skip > 0 // the word may be a flag
			fallthrough
		case !a.known, !a.flag() && !(u.role == shells && len(a.text) > 1 && a.text[0] == '+'):
			in.hidden = in.hidden || a.anything()
			if in.operands = append(in.operands, a); ends {
				if skip--; skip < 0 {
					in.operands = append(in.operands, args...)
					return in
				}
			}
		case a.text == "--":
			in.dashes = true
			if ends && skip > 0 && len(args) > 0 {
				continue
			}
			in.operands = append(in.operands, args...)
			return in
		case strings.HasPrefix(a.text, "--"), u.dash:
			args = u.longFlag(&in, a, args, ends)
		default:
			args = u.shortFlags(&in, a, args)
		}
		for i := range in.flags[flags:] {
			in.flags[flags+i].doubt = valued
		}
		valued = len(args) == rest && u.mayTake(a)
		if ends && in.marked('|') {
			in.operands = append(in.operands, args...)
			return in
		}
	}
	return in
}

// mayTake reports whether a word may be a flag that takes the next word as its value,
// although the usage does not say so.
func (u usage) mayTake(a arg) bool {
	const switches = "archive verbose compress progress stats dry-run human-readable update checksum partial links perms times quiet ignore-case line-number invert-match word-regexp files-with-matches recursive extended-regexp perl-regexp fixed-strings gzip bzip2 xz zstd exclude-vcs exclude-vcs-ignores exclude-caches exclude-backups summarize apparent-size"
	name, long := strings.CutPrefix(a.text, "--")
	switch {
	case !a.known:
		return a.loose
	case long:
		_, found := u.named(name, false)
		return !found && !strings.Contains(name, "=") && !hasWord(switches, name)
	}
	return len(a.text) > 2 && (a.text[:2] == "-l" || a.text[:2] == "-s") && hasWord(u.names, "zip") // zip has flags of several letters, as in -lf FILE
}

func (u usage) longFlag(in *invocation, a arg, args []arg, exact bool) []arg {
	text := strings.TrimLeft(a.start(), "-")
	name, value, attached := strings.Cut(text, "=")
	f, found := u.named(name, exact)
	f.value = a.attached(value)
	if spec, is := u.joined(text); is && (!found || !a.known && !attached) {
		f, _ = u.named(spec, true)
		f.value, found, attached = a.attached(text[len(spec):]), true, true
	}
	if !attached && !a.known {
		in.partly = in.partly || !u.dash || u.begins(text)
		in.hidden = in.hidden || in.partly
		attached = true
	}
	if !attached && f.valued() {
		f.value, args = next(args)
	}
	in.flags, in.unknown = append(in.flags, f), in.unknown || !found
	return args
}

// named finds a flag by its name or, unless exact is set, by the beginning of its name.
func (u usage) named(name string, exact bool) (f flag, found bool) {
	f.name = name
	for _, beginning := range []bool{false, true} {
		for spec := range strings.FieldsSeq(u.long + " " + u.shortWords()) {
			full := strings.TrimRight(spec, marks)
			if !found && (full == name || beginning && !exact && !u.dash && strings.HasPrefix(full, name)) {
				if f.name, found = full, true; full != spec {
					f.mark = spec[len(full)]
				}
			}
		}
	}
	return f, found
}

// joined finds the flag whose value follows it in the same word without =, as in -oFILE of
// a compiler.
func (u usage) joined(text string) (name string, is bool) {
	if u.dash && u.short != "" {
		for spec := range strings.FieldsSeq(u.long + " " + u.short) {
			if full := strings.TrimRight(spec, marks); full != spec && strings.HasPrefix(text, full) && len(full) > len(name) {
				name, is = full, true
			}
		}
	}
	return name, is
}

// begins reports whether the name of a flag begins with text.
func (u usage) begins(text string) bool {
	return text == "" || strings.Contains(" "+u.long+" "+u.short, " "+text) || hasWord(u.names, "gcc") && passesPart(text)
}

// shortWords lists the short flags of a command whose long flags have a single dash.
func (u usage) shortWords() string {
	if u.dash {
		return u.short
	}
	return ""
}

func (u usage) shortFlags(in *invocation, a arg, args []arg) []arg {
	letters := a.start()[1:]
	for i := range len(letters) {
		f := flag{name: letters[i : i+1]}
		at := strings.IndexByte(u.short, letters[i])
		in.unknown = in.unknown || at < 0 || strings.IndexByte(marks, letters[i]) >= 0
		if at >= 0 && at+1 < len(u.short) && strings.IndexByte(marks, u.short[at+1]) >= 0 {
			f.mark = u.short[at+1]
		}
		rest := letters[i+1:]
		switch {
		case f.valued() && (rest == "" && a.known || u.role == shells): // a shell has no attached values
			f.value, args = next(args)
		case f.valued() || f.mark == '?':
			f.value = a.attached(strings.TrimPrefix(rest, "="))
			in.flags = append(in.flags, f)
			return args
		}
		in.flags = append(in.flags, f)
	}
	in.partly = in.partly || !a.known
	in.hidden = in.hidden || in.partly
	return args
}

// start returns the text of the word a, up to the first part that is not known.
func (a arg) start() string {
	if a.known {
		return a.text
	}
	return a.begin
}

// attached returns the value of a flag in the same word, as file in -ofile. text is what
// follows the flag's name: in a.text if a is known, otherwise in a.begin.
func (a arg) attached(text string) arg {
	if a.known {
		return arg{text: text, known: true}
	}
	return a.after(strings.TrimSuffix(a.begin, text))
}

// after returns what follows a prefix of the word a. The parameter before is the
// prefix: if a is NAME=VALUE and before is NAME=, the result is VALUE.
func (a arg) after(before string) arg {
	if a.known {
		return arg{text: strings.TrimPrefix(a.text, before), known: true}
	}
	value := arg{text: a.text, form: strings.TrimPrefix(a.form, before), begin: strings.TrimPrefix(a.begin, before), shape: strings.TrimPrefix(a.shape, before), loose: a.loose}
	for _, choice := range a.texts() {
		if rest, is := strings.CutPrefix(choice, before); is {
			value.choices += rest + "\x00"
		}
	}
	return value
}

func next(args []arg) (arg, []arg) {
	if len(args) == 0 {
		return arg{}, nil
	}
	return args[0], args[1:]
}
