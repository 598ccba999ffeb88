package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tellManager tells the service manager that started this process, if one did,
// how it is (sd_notify(3)). One that does not listen is no error.
func tellManager(getenv func(string) string, state string) {
	name := getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	if name[0] == '@' {
		name = "\x00" + name[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	_, _ = c.Write([]byte(state))
	_ = c.Close()
}

// processesBelow lists processes whose working directory is dir or below it, as
// far as this user may see. What is mounted there is not asked.
func processesBelow(dir string) []int {
	var out []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err != nil || cwd != dir && !strings.HasPrefix(cwd, strings.TrimSuffix(dir, "/")+"/") {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
