//go:build linux

package main

import (
	"fmt"
	"hash/crc32"
	"os"
	"time"
)

const volume = 64 << 20

// throughput measures how long 64 MiB take from the program to the screen.
func throughput(b *bench) []row {
	path := b.program("volume")
	sum := writeScreenful(path)
	inner := b.faked(fmt.Sprintf(`{"replay":%q}`, path))
	pour := func(argv []string) func(int) time.Duration {
		return func(int) time.Duration { return b.pour(argv, sum) }
	}
	t := inTurn(max(5, b.rounds/4), pour(append([]string{b.program("floor")}, inner...)), pour(b.below(inner...)))
	return []row{t.pairs(0, 1).ratioRow("time of 64 MiB of output, with a check of its CRC, through lifeloop-wrap, compared with a minimal pty loop").atMost(1.05)}
}

// writeScreenful writes output like that of a busy harness: lines, colours, cursor
// movements and text in several languages. No two lines are alike.
func writeScreenful(path string) (sum uint32) {
	data := make([]byte, 0, volume+256)
	for n := 0; len(data) < volume; n++ {
		data = fmt.Appendf(data, "\x1b[%d;1H\x1b[38;5;%dm%8d \x1b[1mthe quick brown fox\x1b[0m jumps over the lazy dog, größer, 日本語 %x\r\n", n%40+1, n%256, n, n*2654435761)
	}
	data = data[:volume]
	must(os.WriteFile(path, data, 0o600))
	return crc32.ChecksumIEEE(data)
}

// pour runs argv and reads all of its output. It returns the time from the first byte
// of the output to the last. The start of the program is not included.
func (b *bench) pour(argv []string, want uint32) time.Duration {
	s := open(b.command(argv...))
	var began time.Time
	var sum uint32
	buf := make([]byte, 64<<10)
	for total := 0; total < volume; {
		n, err := s.tty.Read(buf)
		if began.IsZero() {
			began = time.Now()
		}
		sum = crc32.Update(sum, crc32.IEEETable, buf[:n])
		total += n
		if err != nil {
			s.kill()
			must(fmt.Errorf("%q ended after %d of %d bytes: %w", argv, total, volume, err))
		}
	}
	d := time.Since(began)
	if sum != want {
		s.kill()
		must(fmt.Errorf("%q changed the bytes: CRC %08x, want %08x", argv, sum, want))
	}
	s.close()
	return d
}
