//go:build linux

package harness

import (
	"os"
	"os/exec"
	"testing"
)

// BenchmarkTrue measures the time that the guard costs. It runs the program true by
// itself, under a new guard, and under a guard that was started in advance. The runs
// under a guard are measured without and with a pty.
func BenchmarkTrue(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, mode := range []Mode{Never, Always} {
		for _, ahead := range []bool{false, true} {
			name := string(mode)
			if ahead {
				name += " ahead"
			}
			b.Run(name, func(b *testing.B) {
				term, err := OpenTerminal(null, null, null, mode)
				if err != nil {
					b.Fatal(err)
				}
				defer term.Close()
				for b.Loop() {
					if ahead {
						b.StopTimer()
						if err := term.Prepare(nil); err != nil {
							b.Fatal(err)
						}
						exec.Command("sleep", "0.01").Run()
						b.StartTimer()
					}
					c, err := Start(Spec{Argv: []string{"true"}}, term, &recorder{})
					if err != nil {
						b.Fatal(err)
					}
					if exit := c.Wait(); exit != (Exit{}) {
						b.Fatal(exit)
					}
				}
			})
		}
	}
}
