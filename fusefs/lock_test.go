package fusefs

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/fusefs/filelock"
)

func openRW(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// ofd takes an open file description lock.
func ofd(f *os.File, typ int16, cmd int) error {
	return unix.FcntlFlock(f.Fd(), cmd, &unix.Flock_t{Type: typ, Whence: io.SeekStart})
}

// TestFlockAcrossMounts: held in one mount, refused and waited for in another,
// and gone with the descriptor or the mount.
func TestFlockAcrossMounts(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	s.hub.flock = filelock.NewTable(5 * time.Second) // this machine may be busy
	ma, mb := s.mounted("a", Config{}), s.mounted("b", Config{})
	a, b := openRW(t, ma.Dir()+"/f"), openRW(t, mb.Dir()+"/f")
	must(t, unix.Flock(int(a.Fd()), unix.LOCK_EX))
	if err := unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("second lock: %v", err)
	}
	got := make(chan error, 1)
	go func() { got <- unix.Flock(int(b.Fd()), unix.LOCK_EX) }()
	select {
	case err := <-got:
		t.Fatalf("a lock that is held was given: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	a.Close()
	must(t, <-got)
	// Closing tells of it asynchronously; who asks right after is held back.
	for range 200 {
		b.Close()
		a = openRW(t, ma.Dir()+"/f")
		if err := unix.Flock(int(a.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Fatalf("right after the other mount's close: %v", err)
		}
		b = a
		ma, mb = mb, ma
	}
	must(t, mb.Unmount(t.Context(), true))
	b = openRW(t, ma.Dir()+"/f")
	must(t, unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}

// TestRecordLocksAcrossMounts by open file description, since this process is
// one owner to POSIX locks.
func TestRecordLocksAcrossMounts(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	a, b := openRW(t, s.mount("a", Config{})+"/f"), openRW(t, s.mount("b", Config{})+"/f")
	must(t, ofd(a, unix.F_WRLCK, unix.F_OFD_SETLK))
	if err := ofd(b, unix.F_RDLCK, unix.F_OFD_SETLK); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("second lock: %v", err)
	}
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	must(t, unix.FcntlFlock(b.Fd(), unix.F_OFD_GETLK, &lk))
	if lk.Type != unix.F_WRLCK {
		t.Errorf("F_OFD_GETLK: %+v", lk)
	}
	must(t, ofd(a, unix.F_UNLCK, unix.F_OFD_SETLK))
	must(t, ofd(b, unix.F_WRLCK, unix.F_OFD_SETLK))
	b.Close() // no FLUSH and no RELEASE repeats the owner
	must(t, ofd(a, unix.F_WRLCK, unix.F_OFD_SETLKW))
}

// TestPosixLocksOfProcesses: of two processes in two mounts; one that ends, and
// one that closes another descriptor of the file, lose them; a signal ends a
// wait and nothing else.
func TestPosixLocksOfProcesses(t *testing.T) {
	s, m, n := twoMounts(t)
	s.want(s.shell(m, n, `cat > $M/hold.py <<'P'
import fcntl, os, sys, time
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(f, fcntl.LOCK_EX)
if len(sys.argv) > 3: os.close(os.open(sys.argv[1], os.O_RDWR))
open(sys.argv[2], "w").close()
sys.stdin.readline()
P
cat > $M/try.py <<'P'
import fcntl, os, signal, sys
f = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print("free")
except BlockingIOError:
    print("held")
    if len(sys.argv) > 2:
        class Alarm(Exception): pass
        def ring(*_): raise Alarm
        signal.signal(signal.SIGALRM, ring); signal.setitimer(signal.ITIMER_REAL, 0.1)
        try: fcntl.lockf(f, fcntl.LOCK_EX)
        except Alarm: print("interrupted")
P
mkfifo $M/../go; exec 9<>$M/../go
python3 $M/hold.py $M/f $M/up <&9 & p=$!
while [ ! -e $N/up ]; do sleep 0.01; done
python3 $M/try.py $N/f wait
python3 $M/try.py $M/f
echo >&9; wait $p
python3 $M/try.py $N/f
rm $M/up; python3 $M/hold.py $M/f $M/up other <&9 & p=$!
while [ ! -e $N/up ]; do sleep 0.01; done
python3 $M/try.py $N/f
echo >&9; wait $p; exec 9<&-; rm $M/../go`), "held\ninterrupted\nheld\nfree\nfree")
}
