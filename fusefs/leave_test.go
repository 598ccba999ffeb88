package fusefs

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/policy/view"
)

// mapped reads the first byte of furnish's file "mapped".
func (s *stack) mapped() byte {
	s.t.Helper()
	v, err := s.space.Open(view.Options{Agent: "gaia"})
	must(s.t, err)
	defer v.Close()
	b, _, err := v.ReadFile(workDir+"/d/mapped", 1<<20)
	must(s.t, err)
	return b[0]
}

// TestLeave: what is left stays mounted and answers nobody; what was written
// through a map is kept, though its user has not let go of it.
func TestLeave(t *testing.T) {
	everyWay(t, func(t *testing.T, s *stack) {
		m := s.mounted("m", Config{Agent: "web"})
		s.furnish(m, m.Dir()).Close()
		users := []*user{s.user("map", m.Dir()), s.user("working directory", m.Dir()), s.user("open file", m.Dir())}
		if b := s.mapped(); b != 0 {
			t.Log("the kernel has written it back by itself")
		}
		start := time.Now()
		s.hub.Leave(context.Background())
		s.quick("leaving", start)
		defer func() { must(t, detach(m.Dir(), s.hub.helper())) }()
		if len(s.hub.Mounts()) > 0 || m.fs.handles.size() > 0 {
			t.Error("the hub still has it")
		}
		select {
		case <-m.Done():
		default:
			t.Error("it is not done")
		}
		if m.Taken() || !stillMounted(m.Dir(), m.minor) {
			t.Error("it was taken out of the tree")
		}
		if _, err := os.ReadDir(m.Dir()); !errors.Is(err, unix.ENOTCONN) {
			t.Errorf("it answers: %v", err)
		}
		if b := s.mapped(); b != 65 {
			t.Errorf("what was written through the map is lost: %d", b)
		}
		for _, u := range users {
			errnos := u.leave(t)
			if n := len(errnos); n == 0 || errnos[n-1] != "107" {
				t.Errorf("errors %v", errnos)
			}
		}
		if _, err := s.hub.Mount(context.Background(), Config{Agent: "web", Dir: s.dir}); err == nil {
			t.Error("it mounts after it has left")
		}
	})
}

// TestCloseKeepsWhatWasMapped: an unmount by force writes back what it can.
func TestCloseKeepsWhatWasMapped(t *testing.T) {
	everyWay(t, func(t *testing.T, s *stack) {
		m := s.mounted("m", Config{Agent: "web"})
		s.furnish(m, m.Dir()).Close()
		u := s.user("map", m.Dir())
		must(t, s.hub.Close(context.Background()))
		if b := s.mapped(); b != 65 {
			t.Errorf("what was written through the map is lost: %d", b)
		}
		u.leave(t)
	})
}
