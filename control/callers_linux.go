package control

import (
	"bytes"
	"os"
	"strconv"
)

// ancestry returns a process, its parent, and so on. The result is empty if the process
// cannot be read, for example because it has ended.
func ancestry(pid int) (line []process) {
	for pid > 0 {
		p, parent, running := readProcess(pid)
		if !running {
			break
		}
		line = append(line, p)
		pid = parent
	}
	return line
}

// runs reports whether a process has not ended.
func runs(p process) bool {
	now, _, running := readProcess(p.pid)
	return running && now == p
}

// readProcess reads /proc/PID/stat: "pid (name) state ppid … starttime …". The name may
// contain blanks and brackets.
func readProcess(pid int) (p process, parent int, running bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, 0, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "X" || string(fields[0]) == "Z" && string(fields[17]) == "1" { // a zombie whose other threads run has not ended
		return process{}, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return process{}, 0, false
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return process{pid, start}, parent, err == nil
}

// mentions reports whether the arguments of a process contain a text.
func mentions(pid int, text string) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && text != "" && bytes.Contains(data, []byte(text))
}
