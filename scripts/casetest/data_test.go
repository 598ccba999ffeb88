package casetest

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
)

func TestCase21_Drive9TruncateThenOtherHandleWrites(t *testing.T) {
	shell(t, `
for two in 'M M' 'M N' 'N M'; do
	set -- $two
	A=${!1} B=${!2} python3 - <<'EOP'
import os
a = os.open(os.environ["A"] + "/f", os.O_RDWR | os.O_CREAT, 0o644)
os.write(a, b"what was there before")
b = os.open(os.environ["B"] + "/f", os.O_RDWR)
os.ftruncate(a, 0)
os.write(b, b"the bytes of B")
os.close(b); os.close(a)
EOP
	for D in "$M" "$N"; do is "$(cat "$D/f")" "the bytes of B" "$two"; done
	rm f
done
`)
}

func TestCase22_Drive9KilledAfterFsync(t *testing.T) {
	s := shared.Running(t)
	m, n := filepath.Join(s.Gaia, workspace, "case22"), filepath.Join(s.Soul, workspace, "case22")
	if err := os.Mkdir(m, 0o755); err != nil {
		t.Fatal(err)
	}
	rounds := 6
	if stack.Short() {
		rounds = 2
	}
	for i := range rounds {
		env := []string{"M=" + m, "N=" + n, "OUT=" + s.Dir, "ROUND=" + strconv.Itoa(i)}
		s.Script(t, stack.Script{Dir: m, Env: env, Text: `
head -c 300000 /dev/urandom >"$OUT/synced"; head -c 100000 /dev/urandom >"$OUT/acked"
cp "$OUT/synced" synced; sync synced
echo gone >victim; sync victim; rm "$N/victim"
mkdir -p dir; cp "$OUT/acked" dir/acked; mv dir/acked acked       # acknowledged, not synced
rm -f new-name; echo round $ROUND >old-name; mv old-name new-name
echo "$ROUND" >>log
`})
		if err := s.Kill(m, n); err != nil {
			t.Fatal(err)
		}
		s.Script(t, stack.Script{Dir: m, Env: env, Text: `
for D in "$M" "$N"; do
	cmp "$D/synced" "$OUT/synced"
	fails stat "$D/victim"; is "$(ls "$D" | grep -x victim || true)" "" resurrected
	cmp "$D/acked" "$OUT/acked"
	is "$(ls "$D/dir")" ""
	is "$(cat "$D/new-name")" "round $ROUND"; fails stat "$D/old-name"
	is "$(wc -l <"$D/log")" $((ROUND + 1)); is "$(tail -n1 "$D/log")" "$ROUND"
done
`})
		s.Fsck(t)
	}
	s.Script(t, stack.Script{Text: `rm -rf "$M"; fails stat "$N"`, Dir: s.Dir, Env: []string{"M=" + m, "N=" + n}})
	s.Fsck(t)
}

func TestCase23_FactoryUnlinkedStaysReadable(t *testing.T) {
	shell(t, `
exec 3<>f; echo a >&3; rm f
is "$(cat /proc/self/fd/3)" a
echo b >&3; is "$(cat /proc/self/fd/3)" "a
b"
is "$(stat -L -c %h /proc/self/fd/3)" 0
fails stat f; fails stat "$N/f"; is "$(ls -A "$N")" ""
echo other >f; is "$(cat /proc/self/fd/3)" "a
b" "a new file of the name"
is "$(cat "$N/f")" other
exec 3>&-
# Unlinked through the other mount while open in this one; and moved over.
exec 3<>g; echo keep >&3; rm "$N/g"; is "$(cat /proc/self/fd/3)" keep; exec 3>&-
exec 3<>h; echo keep >&3; echo new >"$N/i"; mv "$N/i" "$N/h"; is "$(cat /proc/self/fd/3)" keep; is "$(cat h)" new; exec 3>&-
python3 - <<'EOP'
import os, tempfile
with tempfile.TemporaryFile(dir=".") as f:          # O_TMPFILE where there is one
    f.write(b"x" * 100000); f.flush(); f.seek(99999)
    assert f.read() == b"x"
    assert os.fstat(f.fileno()).st_nlink == 0
EOP
`)
}

func TestCase24_FactoryTimesSetWhileOpen(t *testing.T) {
	shell(t, `
exec 3>f; echo x >&3; touch -d 2001-01-01T00:00:00Z f; exec 3>&-
is "$(stat -c %Y f)" 978307200; is "$(stat -c %Y "$N/f")" 978307200
exec 3>f; echo x >&3; touch -d 2001-01-01T00:00:00Z "$N/f"; exec 3>&-
is "$(stat -c %Y f)" 978307200; is "$(stat -c %Y "$N/f")" 978307200
touch -d '2033-05-18T03:33:20.123456789Z' f; is "$(stat -c %.9Y "$N/f")" 2000000000.123456789
touch -d 1969-07-20T20:17:40Z f; is "$(stat -c %Y "$N/f")" -14182940
before=$(date +%s); touch f; [[ $(stat -c %Y "$N/f") -ge $before ]]
cp -p f g; is "$(stat -c %.9Y g)" "$(stat -c %.9Y "$N/f")"
`)
}

func TestCase25_LibfuseAppendAfterWrite(t *testing.T) {
	shell(t, `
echo a >t; echo b >>t; is "$(cat t)" "a
b"; is "$(cat "$N/t")" "a
b"
: >t
for i in $(seq $(n 100 25)); do echo "m$i" >>"$M/t"; echo "n$i" >>"$N/t"; done
want=$(for i in $(seq $(n 100 25)); do echo m$i; echo n$i; done)
is "$(cat t)" "$want"; is "$(cat "$N/t")" "$want"
# O_APPEND pays no heed to where the descriptor stands.
python3 - <<'EOP'
import os
with open("u", "w") as f: f.write("one ")
fd = os.open("u", os.O_RDWR | os.O_APPEND)
os.pwrite(fd, b"two ", 0); os.lseek(fd, 0, 0); os.write(fd, b"three")
assert os.pread(fd, 100, 0) == b"one two three", os.pread(fd, 100, 0)
EOP
is "$(cat "$N/u")" "one two three"
`)
}

func TestCase26_CurvineMmapBeforeClose(t *testing.T) {
	shell(t, `
for size in 1 100 4096 5000 200000; do
	SIZE=$size python3 - <<'EOP'
import mmap, os
size = int(os.environ["SIZE"])
fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
data = os.urandom(size)
assert os.write(fd, data) == size
os.fchmod(fd, 0o644)
m = mmap.mmap(fd, size)
assert m[:] == data
m[size - 1] = 33
m.flush()
assert os.pread(fd, 1, size - 1) == b"!"
m.close(); os.close(fd)
with open(os.environ["N"] + "/f", "rb") as g: assert g.read() == data[:-1] + b"!"
with open(os.environ["N"] + "/f", "rb") as g, mmap.mmap(g.fileno(), 0, prot=mmap.PROT_READ) as m: assert m[:] == data[:-1] + b"!"
assert os.stat(os.environ["N"] + "/f").st_mode & 0o777 == 0o644
EOP
done
`)
}

func TestCase27_CryfsRenameFlags(t *testing.T) {
	shell(t, `
cat >"$REF/renameat2.py" <<'EOP'
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
flags = {"noreplace": 1, "exchange": 2}[sys.argv[1]]
if libc.renameat2(-100, os.fsencode(sys.argv[2]), -100, os.fsencode(sys.argv[3]), flags):
    sys.exit(errno.errorcode[ctypes.get_errno()])
EOP
r() { python3 "$REF/renameat2.py" "$@" 2>&1 || true; }
for i in $(seq 10); do
	echo a >a; echo b >b; ia=$(stat -c %i a); ib=$(stat -c %i b); cat "$N/a" "$N/b" >/dev/null
	is "$(r exchange a b)" ""
	for D in "$M" "$N"; do is "$(cat "$D/a" "$D/b")" "b
a"; is "$(stat -c %i "$D/a" "$D/b")" "$ib
$ia"; done
	is "$(r noreplace a b)" EEXIST; is "$(cat "$N/a" "$N/b")" "b
a"
done
is "$(r noreplace a new)" ""; is "$(cat "$N/new")" b; fails stat "$N/a"
is "$(r exchange new nothing)" ENOENT; is "$(cat new)" b
mkdir -p d/sub; touch d/sub/x
is "$(r exchange d new)" ""; is "$(cat "$N/d")" b; is "$(ls "$N/new/sub")" x
is "$(r exchange new new/sub)" EINVAL
mkdir e; touch e/y; is "$(r exchange new/sub e)" ""; is "$(ls "$N/new/sub")" y; is "$(ls "$N/e")" x
`)
}
