package casetest

import "testing"

func TestCase28_Drive9ChownNothing(t *testing.T) {
	shell(t, `
echo x >f; chmod 640 f; before=$(stat -c '%u %g %a %s %Y' f); there=$(stat -c '%u %g %a %s %Y' "$N/f")
python3 -c 'import os; os.chown("f", -1, -1); os.chown(os.environ["N"] + "/f", -1, -1)'
is "$(stat -c '%u %g %a %s %Y' f)" "$before"; is "$(stat -c '%u %g %a %s %Y' "$N/f")" "$there"
touch -d 2001-01-01 f; now=$(date +%s); : >f; [[ $(stat -c %Y "$N/f") -ge $((now - 1)) ]]; is "$(stat -c %s "$N/f")" 0
touch -d 2001-01-01 f; : >f; [[ $(stat -c %Y "$N/f") -ge $((now - 1)) ]] || { echo "an empty file emptied keeps its mtime"; exit 1; }
`)
}

func TestCase29_Drive9TruncateWhileOpen(t *testing.T) {
	shell(t, `
for D in "$M" "$N"; do
	D=$D python3 - <<'EOP'
import os
D = os.environ["D"]
fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(fd, b"a" * 1000)
os.truncate(D + "/f", 256)
assert os.fstat(fd).st_size == 256
assert os.stat(D + "/f").st_size == 256
assert os.pread(fd, 2000, 0) == b"a" * 256
os.write(fd, b"b" * 10)                       # where the descriptor stands: at 1000
assert os.pread(fd, 2000, 0) == b"a" * 256 + bytes(744) + b"b" * 10
os.truncate(D + "/f", 5000)
assert os.pread(fd, 9000, 1000) == b"b" * 10 + bytes(3990)
os.close(fd)
EOP
	is "$(stat -c %s "$N/f")" 5000
done
`)
}

func TestCase30_Drive9RemoveMany(t *testing.T) {
	shell(t, `
mkdir d; (cd d; seq -f 'f%g' 1000 | xargs touch)
ls -la "$N/d" >/dev/null
(cd d; seq -f 'f%g' 1000 | xargs rm); rmdir d; fails stat "$N/d"
mkdir d; (cd d; seq -f 'f%g' 1000 | xargs touch); ls "$N/d" >/dev/null
python3 - <<'EOP'
import os
for name in os.listdir("d"): os.unlink("d/" + name)      # as they are listed
os.rmdir("d")
EOP
fails stat "$N/d"
mkdir d; touch d/x; fails rmdir d; fails rmdir "$N/d"; rm -r d
`)
}

func TestCase30_Drive9RemoveTree(t *testing.T) {
	shellMany(t, `
python3 - <<'EOP'
import os
dirs, files = (40, 1000) if not os.environ["SHORT"] else (10, 300)
for d in range(dirs):
    os.mkdir(f"t{d}") if d % 10 == 0 else os.mkdir(f"t{d - d % 10}/s{d}")
    base = f"t{d}" if d % 10 == 0 else f"t{d - d % 10}/s{d}"
    for f in range(files): os.close(os.open(f"{base}/{f}", os.O_WRONLY | os.O_CREAT, 0o644))
os.mkdir("flat")
for f in range(100_000 if not os.environ["SHORT"] else 5_000): os.close(os.open(f"flat/{f}", os.O_WRONLY | os.O_CREAT, 0o644))
EOP
is "$(ls "$N/flat" | wc -l)" $(n 100000 5000)
is "$(find "$N" -type f | wc -l)" $(n 140000 8000)
rm -rf flat t*
is "$(ls -A)" ""; is "$(ls -A "$N")" ""
`)
}

func TestCase31_Drive9FsyncDirectory(t *testing.T) {
	shell(t, `
mkdir d; touch d/f
python3 - <<'EOP'
import os
for d in os.environ["M"], os.environ["N"]:
    fd = os.open(d + "/d", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd); os.fdatasync(fd); os.close(fd)
EOP
sync d; sync "$N/d"; sync .; sync -d d/f; sync d/f
`)
}
