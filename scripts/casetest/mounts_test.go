package casetest

import "testing"

func TestCase01_BranchfsParallelSiblingWrites(t *testing.T) {
	shell(t, `
mkdir "$M"/{a,b,c,d}
for r in $(seq $(n 60 15)); do
	for i in a b c d; do
		case $i in a | b) D=$M ;; *) D=$N ;; esac
		(echo "$i$r" >"$D/$i/f") &
	done
	wait
	for D in "$M" "$N"; do
		is "$(cat "$D"/?/f | tr '\n' ' ')" "a$r b$r c$r d$r "
	done
done
# New names in one directory from both sides at once.
for r in $(seq $(n 60 15)); do
	for i in 1 2 3 4; do
		(echo x >"$M/new-$r-m$i") &
		(echo x >"$N/new-$r-n$i") &
	done
	wait
	is "$(ls "$M" | grep -c "^new-$r-")" 8
	is "$(ls "$N" | grep -c "^new-$r-")" 8
done
`)
}

func TestCase02_AgentfsStaleRead(t *testing.T) {
	shell(t, `
echo 1 >"$M/f"; is "$(cat "$N/f")" 1
echo 22 >"$M/f"; is "$(cat "$N/f")" 22
for i in $(seq $(n 300 60)); do
	echo "$i" >"$M/f"; is "$(cat "$N/f")" "$i"
	echo "back $i" >"$N/f"; is "$(cat "$M/f")" "back $i"
done
# The same without a change of size, and without opening anew.
python3 - <<'EOP'
import os
M, N = os.environ["M"], os.environ["N"]
with open(M + "/f", "wb") as f: f.write(b"000")
r = os.open(N + "/f", os.O_RDONLY)
for i in range(100, 999):
    w = os.open(M + "/f", os.O_WRONLY)
    os.write(w, b"%d" % i)
    got = os.pread(r, 10, 0)
    assert got == b"%d" % i, (got, i)
    os.close(w)
    assert os.pread(r, 10, 0) == b"%d" % i
EOP
`)
}

func TestCase03_ClaudeCodeStaleSize(t *testing.T) {
	shell(t, `
printf aaaa >"$M/f"; is "$(cat "$N/f")" aaaa
printf a >"$M/f"; is "$(wc -c <"$N/f")" 1
printf aaaaaaaa >"$M/f"; is "$(wc -c <"$N/f")" 8; is "$(cat "$N/f")" aaaaaaaa
for i in $(seq $(n 200 40)); do
	size=$((i * 7919 % 20000))
	head -c $size /dev/zero | tr '\0' x >"$M/f"
	is "$(stat -c %s "$N/f")" $size
	is "$(cat "$N/f" | wc -c)" $size
	truncate -s $((size / 2)) "$M/f"
	is "$(cat "$N/f" | wc -c)" $((size / 2))
	truncate -s $((size + 5000)) "$M/f"
	is "$(tail -c 5000 "$N/f" | tr -d '\0' | wc -c)" 0 "bytes past a truncate"
done
`)
}

func TestCase04_YdbRenameUnderReader(t *testing.T) {
	shell(t, `
export ROUNDS=$(n 1000 200)
python3 - <<'EOP'
import os, sys
M, N, rounds = os.environ["M"], os.environ["N"], int(os.environ["ROUNDS"])
def text(i): return (b"%06d\n" % i) * (1 + i * 37 % 3000)
def put(i):
    with open(M + "/t", "wb") as f: f.write(text(i))
    os.rename(M + "/t", M + "/v")
put(0)
reader = os.fork()
if reader == 0:
    seen = -1
    while seen < rounds - 1:
        with open(N + "/v", "rb") as f: b = f.read()   # never ENOENT
        i = int(b[:6])
        if b != text(i): sys.exit(f"mixed: {i}, {len(b)} bytes, {len(text(i))} expected")
        if i < seen: sys.exit(f"went back from {seen} to {i}")
        seen = i
    os._exit(0)
for i in range(1, rounds): put(i)
_, status = os.waitpid(reader, 0)
sys.exit(os.waitstatus_to_exitcode(status))
EOP
`)
}

func TestCase05_AgentfsRemovedStaysListed(t *testing.T) {
	shell(t, `
for i in $(seq $(n 100 25)); do
	touch "$M/a" "$M/b"
	ls -la "$N" >/dev/null
	rm "$M/a"
	is "$(ls "$N" | grep -x a || true)" ""
	fails stat "$N/a"
	rm "$M/b"
	is "$(ls -A "$N")" "" "an empty directory"
	touch "$M/c"
	is "$(ls -A "$N")" c "what was listed as empty"
	rm "$N/c"
	is "$(ls -A "$M")" ""
done
`)
}

func TestCase06_Drive9WritersAndReadersDeadlock(t *testing.T) {
	shell(t, `
export ROUNDS=$(n 12 4)
timeout 120 python3 - <<'EOP'
import os, sys
M, N, rounds = os.environ["M"], os.environ["N"], int(os.environ["ROUNDS"])
def text(w, k, r): return (b"%d %d %d\n" % (w, k, r)) * 500
def writer(w):
    for r in range(rounds):
        for k in range(8):
            name = f"{M}/w{w}-{k}"
            with open(name + ".tmp", "wb") as f:
                f.write(text(w, k, r)); f.flush(); os.fsync(f.fileno())
            os.rename(name + ".tmp", name)
def reader():
    while not os.path.exists(N + "/stop"):
        for name in os.listdir(N):
            if name.endswith(".tmp") or name == "stop": continue
            with open(f"{N}/{name}", "rb") as f: b = f.read()
            w, k, r = map(int, b.split(b"\n")[0].split())
            if name != f"w{w}-{k}" or b != text(w, k, r): sys.exit(f"{name} has {b[:40]}, {len(b)} bytes")
def start(f, *a):
    pid = os.fork()
    if pid: return pid
    try: f(*a)
    except BaseException as e:
        print(type(e), e, file=sys.stderr); os._exit(1)
    os._exit(0)
writers = [start(writer, w) for w in range(4)]
readers = [start(reader) for _ in range(2)]
bad = 0
for p in writers: bad |= os.waitpid(p, 0)[1]
open(M + "/stop", "w").close()
for p in readers: bad |= os.waitpid(p, 0)[1]
for w in range(4):
    for k in range(8):
        with open(f"{N}/w{w}-{k}", "rb") as f: bad |= f.read() != text(w, k, rounds - 1)
sys.exit(bool(bad))
EOP
`)
}

func TestCase07_HfMountReadWhileRewritten(t *testing.T) {
	shell(t, `
text=$(seq 1 2000)
(while [[ ! -e $N/stop ]]; do cat "$N/f" >/dev/null 2>"$REF/err" || grep -q 'No such file' "$REF/err" || exit 1; done) &
reader=$!
for i in $(seq $(n 400 80)); do
	echo "$text $i" >"$M/f"
done
touch "$M/stop"
wait $reader
is "$(cat "$N/f")" "$text $i"; is "$(cat "$M/f")" "$text $i"
`)
}

func TestCase08_AppendFromBothMounts(t *testing.T) {
	shell(t, `
export LINES=$(n 1000 250)
append() { for j in $(seq $LINES); do echo "$2 $j a line that is long enough to be torn" >>"$1/log"; done; }
pids=()
for w in 1 2 3 4; do
	append "$M" m$w & pids+=($!)
	append "$N" n$w & pids+=($!)
done
for p in "${pids[@]}"; do wait $p; done
for D in "$M" "$N"; do
	is "$(wc -l <"$D/log")" $((8 * LINES))
	is "$(grep -cxE '[mn][1-4] [0-9]+ a line that is long enough to be torn' "$D/log")" $((8 * LINES)) "torn lines"
	for w in m1 m2 m3 m4 n1 n2 n3 n4; do
		is "$(awk -v w=$w '$1 == w { print $2 }' "$D/log" | cmp - <(seq $LINES) && echo same)" same "the lines of $w, in order"
	done
done
cmp "$M/log" "$N/log"
# The same through descriptors that stay open.
python3 - <<'EOP'
import os, sys
M, N, lines = os.environ["M"], os.environ["N"], int(os.environ["LINES"])
def writer(d, w):
    fd = os.open(d + "/log2", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for j in range(lines): os.write(fd, b"%d %d and some text\n" % (w, j))
pids = []
for w in range(8):
    pid = os.fork()
    if pid == 0: writer(M if w % 2 else N, w); os._exit(0)
    pids.append(pid)
bad = 0
for p in pids: bad |= os.waitpid(p, 0)[1]
for d in M, N:
    got = {}
    for line in open(d + "/log2"):
        w, j, rest = line.split(" ", 2)
        assert rest == "and some text\n", line
        got.setdefault(int(w), []).append(int(j))
    assert got == {w: list(range(lines)) for w in range(8)}, d
sys.exit(bool(bad))
EOP
`)
}
