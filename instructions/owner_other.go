//go:build !linux

package instructions

import (
	"errors"
	"net/netip"
)

func checkSystem() error {
	return errors.New("this system does not show which process a connection belongs to")
}

func owner(int, netip.AddrPort, netip.AddrPort) int { return 0 }
func owns(int, netip.AddrPort, netip.AddrPort) bool { return false }
