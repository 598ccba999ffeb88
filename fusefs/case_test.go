package fusefs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/waits"
)

// Failures that users of other projects reported of two mounts of one store
// (project#number in the name), each as it was reported.

// shell runs a script with M and N, two mounts of one directory, and gives its
// output.
func (s *stack) shell(m, n, script string) string {
	s.t.Helper()
	ctx, cancel := waits.Context(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euc", script)
	cmd.Env = append(os.Environ(), "M="+m, "N="+n)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func twoMounts(t *testing.T) (s *stack, m, n string) {
	t.Helper()
	s = newStack(t, memDriver)
	s.watch(4 * time.Minute)
	return s, s.mount("M", Config{}), s.mount("N", Config{})
}

func (s *stack) want(got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("got %q, want %q", got, want)
	}
}

func TestCase01BranchfsIssue28ParallelWritesThroughSiblings(t *testing.T) {
	s, m, n := twoMounts(t)
	for i := range 20 {
		out := s.shell(m, n, fmt.Sprintf(`mkdir $M/r%[1]d; cd $M/r%[1]d; mkdir a b c
			for i in a b c; do (echo $i > $M/r%[1]d/$i/f) & (echo $i$i > $N/r%[1]d/$i/g) & done; wait
			cat $M/r%[1]d/?/f $N/r%[1]d/?/f $M/r%[1]d/?/g | tr '\n' ' '`, i))
		s.want(out, "a b c a b c aa bb cc")
	}
}

func TestCase02AgentfsIssue267ReadAfterWrite(t *testing.T) {
	s, m, n := twoMounts(t)
	s.want(s.shell(m, n, `echo 1 > $M/f; cat $N/f; echo 22 > $M/f; cat $N/f`), "1\n22")
	for i := range 200 {
		s.want(s.shell(m, n, fmt.Sprintf(`echo %d > $M/f; cat $N/f`, i)), fmt.Sprint(i))
	}
}

func TestCase03ClaudeCodeIssue42520StaleSize(t *testing.T) {
	s, m, n := twoMounts(t)
	s.want(s.shell(m, n, `printf aaaa > $M/f; cat $N/f; echo; printf a > $M/f; wc -c < $N/f
		printf bbbbbbbb > $M/f; wc -c < $N/f; cat $N/f`), "aaaa\n1\n8\nbbbbbbbb")
}

func TestCase04YdbIssue7151ReplaceUnderReader(t *testing.T) {
	_, m, n := twoMounts(t)
	must(t, os.WriteFile(m+"/v", []byte(strings.Repeat("start\n", 2000)), 0o644))
	done := make(chan struct{})
	turns := 0
	go func() {
		defer close(done)
		until(t, hammerTime(t), func(i int) error {
			turns++
			if err := os.WriteFile(m+"/t", []byte(strings.Repeat(fmt.Sprintf("%05d\n", i%100000), 2000)), 0o644); err != nil {
				return err
			}
			return os.Rename(m+"/t", m+"/v")
		})
	}()
	reads := 0
	for {
		select {
		case <-done:
			t.Logf("%d replacements, %d reads", turns, reads)
			return
		default:
		}
		b, err := os.ReadFile(n + "/v")
		must(t, err)
		reads++
		if len(b) != 12000 || strings.Repeat(string(b[:6]), 2000) != string(b) {
			t.Fatalf("mixed: %d bytes, %q … %q", len(b), b[:6], b[len(b)-6:])
		}
	}
}

func TestCase05AgentfsPR317ListingAfterRemove(t *testing.T) {
	s, m, n := twoMounts(t)
	s.want(s.shell(m, n, `for i in $(seq 50); do
		touch $M/a $M/b; ls -la $N > /dev/null; rm $M/a; ls $N | grep -x a && exit 9; ls $N; rm $M/b; ls -A $N; done | sort | uniq -c | tr -s ' '`),
		"50 b")
}

func TestCase06Drive9Issue936WritersAndReaders(t *testing.T) {
	s, m, n := twoMounts(t)
	s.shell(m, n, `cat > $M/w.py <<'P'
import os, sys
d, w = sys.argv[1], sys.argv[2]
for r in range(10):
    for i in range(8):
        p = f"{d}/f{w}-{i}"
        with open(p + ".tmp", "wb") as f:
            f.write((f"{w}-{i}-{r}\n" * 500).encode()); f.flush(); os.fsync(f.fileno())
        os.rename(p + ".tmp", p)
P
cat > $M/r.py <<'P'
import os, sys, time
d, stop = sys.argv[1], sys.argv[2]
while not os.path.exists(stop):
    for n in os.listdir(d):
        if n.endswith(".tmp") or not n.startswith("f"): continue
        with open(d + "/" + n, "rb") as f: b = f.read()
        lines = b.splitlines()
        assert len(lines) == 500 and len(set(lines)) == 1, (n, len(lines), len(set(lines)))
P
mkdir $M/d
stop=$(mktemp -u)
for r in 1 2; do timeout 120 python3 $M/r.py $N/d $stop & readers="${readers:-} $!"; done
for w in 1 2 3 4; do timeout 120 python3 $M/w.py $M/d $w & writers="${writers:-} $!"; done
for p in $writers; do wait $p; done
touch $stop
for p in $readers; do wait $p; done
rm -f $stop; ls $N/d | wc -l | grep -qx 32`)
}

func TestCase07HfMountIssue156ReadWhileRewritten(t *testing.T) {
	s, m, n := twoMounts(t)
	s.shell(m, n, `echo 0 > $M/f
( for i in $(seq 300); do echo $i > $M/f; done ) & w=$!
while kill -0 $w 2>/dev/null; do timeout 20 cat $N/f > /dev/null; done
wait $w; cat $N/f | grep -qx 300`)
}

func TestCase08TwoMountsAppendToOneFile(t *testing.T) {
	s, m, n := twoMounts(t)
	lines := 1000
	if testing.Short() {
		lines = 200
	}
	out := s.shell(m, n, fmt.Sprintf(`: > $M/log
for d in $M $N; do for w in 1 2 3 4; do
	( for i in $(seq %d); do echo "$d $w $i" >> $d/log; done ) &
done; done; wait
wc -l < $M/log; wc -l < $N/log; sort $M/log | uniq | wc -l; grep -vcE '^/.* [1-4] [0-9]+$' $N/log || true`, lines))
	all := fmt.Sprint(8 * lines)
	s.want(strings.Join(strings.Fields(out), " "), all+" "+all+" "+all+" 0")
}

// TestCase09SqliteFromTwoMounts: rollback-journal mode from both at once.
func TestCase09SqliteFromTwoMounts(t *testing.T) {
	s, m, n := twoMounts(t)
	if err := exec.Command("python3", "-c", "import sqlite3").Run(); err != nil {
		t.Skip("no sqlite3 in python3")
	}
	out := s.shell(m, n, `cat > $M/../w.py <<'P'
import sqlite3, sys
db, w, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
c = sqlite3.connect(db, timeout=100, isolation_level=None)
for i in range(n):
    c.execute("begin immediate")
    c.execute("insert into t values (?, ?)", (w, i))
    c.execute("update k set v = v + 1")
    c.execute("commit")
P
py=$M/../w.py
python3 - $M/db <<'P'
import sqlite3, sys
c = sqlite3.connect(sys.argv[1]); c.execute("create table t (w, i)"); c.execute("create table k (v)"); c.execute("insert into k values (0)"); c.commit()
P
for d in $M $N; do for w in 1 2; do timeout 100 python3 $py $d/db $d$w 40 & p="${p:-} $!"; done; done
for x in $p; do wait $x; done
rm -f $py
for d in $M $N; do python3 - $d/db <<'P'
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
print(c.execute("pragma integrity_check").fetchone()[0], c.execute("select count(*) from t").fetchone()[0], c.execute("select v from k").fetchone()[0])
P
done`)
	s.want(out, "ok 160 160\nok 160 160")
}
