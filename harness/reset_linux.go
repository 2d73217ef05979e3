package harness

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Reset resets a terminal that a program has left in disorder: every mode and colour
// that the wrapper follows, and the attributes that stty sane sets. The text on the
// main screen and the key assignments (such as Ctrl-C for interrupt) stay, except
// for keys that were disabled.
func Reset(tty *os.File) error {
	attrs, err := getTermios(tty)
	if err != nil {
		return fmt.Errorf("read the terminal's attributes: %w", err)
	}
	m := everything()
	m.latin, m.palette = inUTF8(attrs, os.Environ()), onConsole(os.Environ())
	// Leaving the alternate screen moves the cursor to the position that was saved last, so
	// the present position is saved first.
	if _, err := tty.WriteString("\x1b7" + m.undo(true) + resetLook); err != nil {
		return fmt.Errorf("write to the terminal: %w", err)
	}
	makeSane(attrs)
	for key, usual := range map[int]byte{unix.VINTR: 'C' & 0x1f, unix.VQUIT: '\\' & 0x1f, unix.VERASE: 0x7f, unix.VKILL: 'U' & 0x1f, unix.VEOF: 'D' & 0x1f, unix.VSUSP: 'Z' & 0x1f} {
		if attrs.Cc[key] == 0 {
			attrs.Cc[key] = usual
		}
	}
	if err := setTermios(tty, attrs); err != nil {
		return fmt.Errorf("set the terminal's attributes: %w", err)
	}
	return nil
}
