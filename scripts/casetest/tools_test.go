package casetest

import "testing"

func TestCase13_MatchlockMoveOver(t *testing.T) {
	shell(t, `
echo x >t; mv t r; is "$(cat r)" x; is "$(cat "$N/r")" x
fails stat t; fails stat "$N/t"
for i in $(seq $(n 100 25)); do
	echo "$i" >t; mv t r
	is "$(cat r)" "$i"; is "$(cat "$N/r")" "$i"
	fails stat "$N/t"
	mv "$N/r" "$N/s"; is "$(cat s)" "$i"; fails stat r; mv s r
done
ino=$(stat -c %i r); mv r q; is "$(stat -c %i q)" "$ino" "a rename keeps the inode"
is "$(ls)" q
`)
}

func TestCase14_ArtifactfsMoveDirectory(t *testing.T) {
	shell(t, `
mkdir d; echo x >d/f; mv d e
is "$(cat e/f)" x; is "$(cat "$N/e/f")" x; fails stat d; fails stat "$N/d"
mkdir -p e/deep/er; echo y >e/deep/er/g; cat "$N/e/deep/er/g" >/dev/null
mkdir other; mv e/deep other/
is "$(cat "$N/other/deep/er/g")" y; fails stat "$N/e/deep"; fails stat e/deep
is "$(ls e)" f
# The working directory of somebody who stands in it moves along.
(cd "$N/other/deep/er"; mv "$M/other/deep" "$M/e/"; is "$(cat g)" y; echo z >h)
is "$(cat e/deep/er/h)" z
fails mv e e/deep/er
mkdir full; touch full/x; mkdir e/full; fails mv -T full e; mkdir empty; mv -T full empty
is "$(ls empty)" x
`)
}

func TestCase15_Drive9RelativeSymlink(t *testing.T) {
	shell(t, `
mkdir -p node_modules/.bin node_modules/x
printf '#!/bin/sh\necho ran "$@"\n' >node_modules/x/cli.js; chmod +x node_modules/x/cli.js
ln -s ../x/cli.js node_modules/.bin/x
for D in "$M" "$N"; do
	is "$(readlink "$D/node_modules/.bin/x")" ../x/cli.js
	is "$(stat -c %F "$D/node_modules/.bin/x")" "symbolic link"
	is "$(stat -c %s "$D/node_modules/.bin/x")" 11
	is "$("$D/node_modules/.bin/x" 1 2)" "ran 1 2"
done
ln -sfn ../y/cli.js node_modules/.bin/x; is "$(readlink "$N/node_modules/.bin/x")" ../y/cli.js; fails cat "$N/node_modules/.bin/x"
ln -s nowhere dangling; fails cat dangling; echo made >dangling; is "$(cat "$N/nowhere")" made
ln -s loop loop; fails cat loop
long=$(printf 'x%.0s' $(seq 4000)); ln -s "$long" long; is "$(readlink "$N/long")" "$long"
`)
}

func TestCase16_AgentfsRemoveSymlinkToDirectory(t *testing.T) {
	shell(t, `
mkdir d; touch d/keep; ln -s d l; rm -rf l; test -d d; test -e "$N/d/keep"; fails stat -c x l
ln -s d l; rm -rf "$N/l"; test -e d/keep; is "$(ls)" d
ln -s d l; fails rmdir l; rm l; test -e d/keep
`)
}

// TestCase17: in the other agent's mount the bits are not shown, for a file: they
// are its maker's.
func TestCase17_AgentfsInstallSetuid(t *testing.T) {
	shell(t, `
there() { if [[ $M == "$N" ]]; then echo $1; else printf '%o\n' $((0$1 & 01777)); fi; }
echo x >x; install -m 4755 x t; is "$(stat -c %a t)" 4755; is "$(stat -c %a "$N/t")" $(there 4755)
for mode in 0 400 644 755 1777 2755 6711 7777; do
	install -m $mode x t2; is "$(stat -c %a t2)" $mode; is "$(stat -c %a "$N/t2")" $(there $mode)
	mkdir -m $mode d; is "$(stat -c %a "$N/d")" $mode; rmdir d
	chmod $mode t; is "$(stat -c %a t)" $mode; is "$(stat -c %a "$N/t")" $(there $mode)
	rm -f t2
done
(umask 027; echo x >u; mkdir v); is "$(stat -c %a "$N/u")" 640; is "$(stat -c %a "$N/v")" 750
`)
}

func TestCase18_AgentfsOverwritingCreate(t *testing.T) {
	shell(t, `
echo 1 >f; echo 2 >f; is "$(cat f)" 2; is "$(cat "$N/f")" 2
echo longer than before >f; is "$(cat "$N/f")" "longer than before"
echo 3 >"$N/f"; is "$(cat f)" 3
ino=$(stat -c %i f); echo 4 >f; is "$(stat -c %i "$N/f")" "$ino" "overwriting keeps the inode"
(set -C; fails eval 'echo 5 >f'; fails eval 'echo 5 >"$N/f"'); is "$(cat f)" 4
: >f; is "$(stat -c %s "$N/f")" 0
is "$(python3 -c '
import os
try: os.open("f", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
except FileExistsError: print("exists")
fd = os.open("f", os.O_CREAT | os.O_RDWR); os.write(fd, b"a"); print(os.pread(fd, 9, 0).decode())
')" "exists
a"
`)
}

func TestCase19_AgentfsSparseWrite(t *testing.T) {
	shell(t, `
{ head -c 524288 /dev/zero; printf x; head -c 524287 /dev/zero; } >"$REF/ref"
truncate -s1M s; printf x | dd of=s bs=1 seek=524288 conv=notrunc status=none
cmp s "$REF/ref"; cmp "$N/s" "$REF/ref"
is "$(stat -c %s "$N/s")" 1048576
[[ $(stat -c %b "$N/s") -lt 1024 ]] || { echo "not sparse: $(stat -c %b s) blocks"; exit 1; }
# At every seam of pages and extents, from both sides.
truncate -s0 s; truncate -s3M s; cp --sparse=never s "$REF/ref"
for at in 0 1 4095 4096 4097 65535 65536 131071 131072 1048575 1048576 1048577 3145727; do
	for f in s "$REF/ref"; do printf %s "<$at>" | dd of="$f" bs=1 seek=$at conv=notrunc status=none; done
	cmp "$N/s" "$REF/ref"
	for f in "$N/s" "$REF/ref"; do printf y | dd of="$f" bs=1 seek=$((at + 2)) conv=notrunc status=none; done
	cmp s "$REF/ref"
done
truncate -s 5T huge; is "$(stat -c %s "$N/huge")" 5497558138880
printf end | dd of=huge bs=1 seek=5497558138000 conv=notrunc status=none
is "$(tail -c 880 "$N/huge" | tr -d '\0')" end
`)
}
