//go:build !linux

package instructions

import (
	"errors"
	"net/netip"
)

func checkSystem() error {
	return errors.New("the process at the other end of a connection cannot be found on this system")
}

func owner(int, netip.AddrPort, netip.AddrPort) int { return 0 }
func owns(int, netip.AddrPort, netip.AddrPort) bool { return false }
