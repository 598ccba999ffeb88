package fusefs

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// overTransports runs fn over each transport, with the same directory mounted
// once or more, the others warm.
func overTransports(b *testing.B, mounts int, fn func(b *testing.B, dir string)) {
	for _, tr := range Transports() {
		b.Run(fmt.Sprintf("%s/%d", tr, mounts), func(b *testing.B) {
			s := newStack(b, memDriver)
			dir := s.mount("m0", Config{Transport: tr})
			for i := 1; i < mounts; i++ {
				_, _ = listing(s.mount(fmt.Sprint("m", i), Config{Transport: tr}))
			}
			b.ResetTimer()
			fn(b, dir)
		})
	}
}

func BenchmarkCreateUnlink(b *testing.B) {
	for _, mounts := range []int{1, 2} {
		overTransports(b, mounts, func(b *testing.B, dir string) {
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
	overTransports(b, 1, func(b *testing.B, dir string) {
		must(b, os.WriteFile(dir+"/f", make([]byte, 1000), 0o644))
		buf := make([]byte, 1000)
		for range b.N {
			fd, err := unix.Open(dir+"/f", unix.O_RDONLY, 0)
			must(b, err)
			_, err = unix.Read(fd, buf)
			must(b, err)
			must(b, unix.Close(fd))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	overTransports(b, 1, func(b *testing.B, dir string) {
		fd, err := unix.Open(dir+"/f", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND, 0o644)
		must(b, err)
		for range b.N {
			_, err := unix.Write(fd, []byte("one line of a log\n"))
			must(b, err)
		}
		must(b, unix.Close(fd))
	})
}

func BenchmarkGetxattr(b *testing.B) {
	overTransports(b, 1, func(b *testing.B, dir string) {
		must(b, os.WriteFile(dir+"/f", nil, 0o644))
		buf := make([]byte, 10)
		for range b.N {
			_, _ = unix.Getxattr(dir+"/f", "user.none", buf)
		}
	})
}

// BenchmarkUnlinkBeside unlinks what another mount has looked up: each name is
// told.
func BenchmarkUnlinkBeside(b *testing.B) {
	for _, tr := range Transports() {
		b.Run(tr, func(b *testing.B) {
			s := newStack(b, memDriver)
			dir, other := s.mount("m0", Config{Transport: tr}), s.mount("m1", Config{Transport: tr})
			var st unix.Stat_t
			for i := range b.N {
				must(b, os.WriteFile(fmt.Sprint(dir, "/f", i), nil, 0o644))
				must(b, unix.Stat(fmt.Sprint(other, "/f", i), &st))
			}
			b.ResetTimer()
			for i := range b.N {
				must(b, unix.Unlink(fmt.Sprint(dir, "/f", i)))
			}
		})
	}
}
