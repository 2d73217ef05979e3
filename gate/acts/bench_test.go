package acts

import (
	"syscall"
	"testing"
	"time"

	"lifeloop/telemetry"
)

// BenchmarkCommand measures the intent of a shell command as a tool hook needs it.
func BenchmarkCommand(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"plain", "go test ./..."},
		{"wrapped", `cd src && timeout 5 env A=b bash -c "rm -rf build/tmp" && git status | grep -v '^ M' > out.txt`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			use := telemetry.ToolUse{Name: "Bash", Commands: []string{c.line}}
			var before, after syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := (Tool{use}).Intent(scene()); err != nil {
					b.Fatal(err)
				}
			}
			// Measure processor time, because other programs use the machine too.
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
				b.Fatal(err)
			}
			used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
