//go:build linux

package main

import (
	"fmt"
	"hash/crc32"
	"os"
	"time"
)

const volume = 64 << 20

// throughput measures the time of 64 MiB from the program to the screen.
func throughput(b *bench) ([]row, error) {
	path := b.program("volume")
	sum, err := writeScreenful(path)
	if err != nil {
		return nil, err
	}
	inner := b.faked(fmt.Sprintf(`{"replay":%q}`, path))
	floor := append([]string{b.program("floor")}, inner...)
	var p pairs
	for range max(5, b.rounds/4) {
		bare, err := b.pour(floor, sum)
		if err != nil {
			return nil, err
		}
		ours, err := b.pour(b.below(inner...), sum)
		if err != nil {
			return nil, err
		}
		p.add(bare, ours)
	}
	return []row{p.ratioRow("64 MiB through the terminal, CRC equal / a minimal pty loop").atMost(1.05, &p)}, nil
}

// writeScreenful writes output like that of a busy harness: lines, colours, cursor
// movements and several scripts. No two lines are alike.
func writeScreenful(path string) (sum uint32, err error) {
	data := make([]byte, 0, volume+256)
	for n := 0; len(data) < volume; n++ {
		data = fmt.Appendf(data, "\x1b[%d;1H\x1b[38;5;%dm%8d \x1b[1mthe quick brown fox\x1b[0m jumps over the lazy dog, größer, 日本語 %x\r\n", n%40+1, n%256, n, n*2654435761)
	}
	data = data[:volume]
	return crc32.ChecksumIEEE(data), os.WriteFile(path, data, 0o600)
}

// pour runs argv and reads all of its output. It returns the time from the first
// byte to the last, without the start of the program.
func (b *bench) pour(argv []string, want uint32) (time.Duration, error) {
	s, err := open(b.command(argv...))
	if err != nil {
		return 0, err
	}
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
			return 0, fmt.Errorf("%q ended after %d of %d bytes: %w", argv, total, volume, err)
		}
	}
	d := time.Since(began)
	if sum != want {
		s.kill()
		return 0, fmt.Errorf("%q changed the bytes: CRC %08x, want %08x", argv, sum, want)
	}
	_, err = s.close()
	return d, err
}
