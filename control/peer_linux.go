package control

import (
	"net"

	"golang.org/x/sys/unix"
)

// checkSystem returns nil, because on Linux the user of a peer can be read.
func checkSystem() error { return nil }

// peerOf returns the pid and the user of the peer, as they were when the peer connected
// or, if the peer is the server, when it began to listen.
func peerOf(conn *net.UnixConn) (pid, uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil {
		return 0, 0, err
	}
	if credErr != nil {
		return 0, 0, credErr
	}
	return int(cred.Pid), int(cred.Uid), nil
}
