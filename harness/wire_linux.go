package harness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Wrapper and guard exchange packets over a socketpair. A packet is one letter,
// followed by 8-byte numbers in the machine's byte order: both ends are the same
// program on the same machine.
//
//	wrapper to guard                        guard to wrapper
//	L            launch; carries 4 files    B pid errno       begun, or the errno
//	O pid pgrp session start   own          S signal          stopped
//	D pid        disown                     C                 continued
//	R            relieve: do not end the
//	             wrapper's own processes
//	K            kill the tree now          X pid name        got SIGKILL
//	T signal ms  signal the harness's       E status leftover killed
//	             group and, ms later, kill                    ended
//	             what outlives the harness  Z killed          the tree is empty
//
// leftover is the number of processes that outlived the harness. killed is the
// number of processes that got SIGKILL so far; an X message names each of the
// first maxKilled.
//
// The description of a launch is too long for a packet and is sent as a file:
// strings terminated by NUL, which no argument contains.
const (
	msgLaunch  = 'L'
	msgOwn     = 'O'
	msgDisown  = 'D'
	msgRelieve = 'R'
	msgKill    = 'K'
	msgStop    = 'T'
	msgBegun   = 'B'
	msgStopped = 'S'
	msgCont    = 'C'
	msgKilled  = 'X'
	msgEnded   = 'E'
	msgEmpty   = 'Z'
)

type message struct {
	kind byte
	args [4]uint64
}

const messageSize = 1 + 4*8

// packet encodes a message. Numbers that are not given are 0.
func packet(kind byte, args ...uint64) []byte {
	b := make([]byte, messageSize)
	b[0] = kind
	for i, a := range args {
		binary.NativeEndian.PutUint64(b[1+8*i:], a)
	}
	return b
}

func decode(b []byte) (message, error) {
	if len(b) != messageSize {
		return message{}, fmt.Errorf("a packet between wrapper and guard has %d bytes, not %d", len(b), messageSize)
	}
	m := message{kind: b[0]}
	for i := range m.args {
		m.args[i] = binary.NativeEndian.Uint64(b[1+8*i:])
	}
	return m, nil
}

// nameWords encodes the name of a process as numbers of a packet. The system
// limits a name to 15 bytes.
func nameWords(name string) (first, second uint64) {
	var b [16]byte
	copy(b[:], name)
	return binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])
}

func nameOf(first, second uint64) string {
	b := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, first), second)
	return string(bytes.TrimRight(b, "\x00"))
}

// A launch describes what the guard starts.
type launch struct {
	path       string
	dir        string
	argv       []string
	env        []string
	terminalFD int    // which of 0, 1, 2 is the pty, or -1
	ignored    sigset // the wrapper was started with these signals ignored, as under nohup
}

// file writes l to an anonymous file.
func (l launch) file() (*os.File, error) {
	head := []string{l.path, l.dir, strconv.Itoa(l.terminalFD), strconv.FormatUint(uint64(l.ignored), 16), strconv.Itoa(len(l.argv))}
	text := strings.Join(slices.Concat(head, l.argv, l.env), "\x00") + "\x00"
	fd, err := unix.MemfdCreate("lifeloop-launch", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create launch description: %w", err)
	}
	f := os.NewFile(uintptr(fd), "launch description")
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return nil, fmt.Errorf("write launch description: %w", err)
	}
	return f, nil
}

var errLaunch = errors.New("malformed launch description")

func readLaunch(f *os.File) (launch, error) {
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return launch{}, err
	}
	return parseLaunch(raw)
}

func parseLaunch(raw []byte) (launch, error) {
	text, ok := strings.CutSuffix(string(raw), "\x00")
	parts := strings.Split(text, "\x00")
	if !ok || len(parts) < 5 {
		return launch{}, errLaunch
	}
	l := launch{path: parts[0], dir: parts[1]}
	var argc int
	var ignored uint64
	var err1, err2, err3 error
	l.terminalFD, err1 = strconv.Atoi(parts[2])
	ignored, err2 = strconv.ParseUint(parts[3], 16, 64)
	argc, err3 = strconv.Atoi(parts[4])
	l.ignored = sigset(ignored)
	rest := parts[5:]
	if errors.Join(err1, err2, err3) != nil || argc < 1 || argc > len(rest) {
		return launch{}, errLaunch
	}
	l.argv, l.env = rest[:argc], rest[argc:]
	return l, nil
}
