package fusefs

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// benchDirs mounts the same directory once or twice, the second warm.
func benchDirs(b *testing.B, mounts int) string {
	b.Helper()
	s := newStack(b, memDriver)
	dir := s.mount("m0", Config{})
	for i := 1; i < mounts; i++ {
		_, _ = listing(s.mount(fmt.Sprint("m", i), Config{}))
	}
	return dir
}

func BenchmarkCreateUnlink(b *testing.B) {
	for _, mounts := range []int{1, 2} {
		b.Run(fmt.Sprint(mounts), func(b *testing.B) {
			dir := benchDirs(b, mounts)
			for i := range b.N {
				f := fmt.Sprint(dir, "/f", i)
				fd, err := unix.Open(f, unix.O_WRONLY|unix.O_CREAT, 0o644)
				must(b, err)
				must(b, unix.Close(fd))
				must(b, unix.Unlink(f))
			}
		})
	}
}

func BenchmarkOpenReadClose(b *testing.B) {
	dir := benchDirs(b, 1)
	must(b, os.WriteFile(dir+"/f", make([]byte, 1000), 0o644))
	buf := make([]byte, 1000)
	for range b.N {
		fd, err := unix.Open(dir+"/f", unix.O_RDONLY, 0)
		must(b, err)
		_, err = unix.Read(fd, buf)
		must(b, err)
		must(b, unix.Close(fd))
	}
}

func BenchmarkAppend(b *testing.B) {
	dir := benchDirs(b, 1)
	fd, err := unix.Open(dir+"/f", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND, 0o644)
	must(b, err)
	for range b.N {
		_, err := unix.Write(fd, []byte("one line of a log\n"))
		must(b, err)
	}
	must(b, unix.Close(fd))
}

func BenchmarkGetxattr(b *testing.B) {
	dir := benchDirs(b, 1)
	must(b, os.WriteFile(dir+"/f", nil, 0o644))
	buf := make([]byte, 10)
	for range b.N {
		_, _ = unix.Getxattr(dir+"/f", "user.none", buf)
	}
}
