package main

import (
	"strings"
)

// names are those that calls are about, most of them more often than the odd ones.
var names = []string{"f", "g", "h", "s", "d", "e", "d/f", "d/g", "d/s", "e/f", "d/d", "d/d/f", "p"}

var odd = []string{
	"", ".", "..", "d/", "f/", "d/.", "d/..", "d/../f", "d//f", "s/", "s/f", "f/x", "absent/x", "n/", "./f", "d/d/..", "\xff\xfe", "new\nline", "loop", "loop/x",
	strings.Repeat("n", 255), strings.Repeat("n", 256), "d/" + strings.Repeat("n", 255), strings.Repeat("d/", 3000) + "f", strings.Repeat("./", 1000) + "f",
}

// name draws a name.
func (x *run) name() string {
	if x.r.IntN(12) == 0 {
		return odd[x.r.IntN(len(odd))]
	}
	return names[x.r.IntN(len(names))]
}

// one draws one of list.
func one[T any](x *run, list ...T) T { return list[x.r.IntN(len(list))] }

// some draws flags of list, each with a chance of one in n.
func some[T int | uint32](x *run, n int, list ...T) (flags T) {
	for _, f := range list {
		if x.r.IntN(n) == 0 {
			flags |= f
		}
	}
	return flags
}

// mode draws permission bits.
func (x *run) mode() uint32 {
	return one(x, uint32(0o644), 0o755, 0o600, 0o777, 0o666, 0o000, 0o400, 0o4755, 0o2755, 0o1777, 0o2777, 0o6777, uint32(x.r.IntN(0o2000)))
}

// id draws a user or group; -1 is none.
func (x *run) id() int { return one(x, -1, 0, 0, other, other, 1, 54321) }

// off draws an offset or a length, now and then an impossible one.
func (x *run) off() int64 {
	switch x.r.IntN(20) {
	case 0:
		return one(x, int64(-1), 0, -1<<63, 1<<40, 1<<31, 1<<42) // ext4 ends at 16 TiB
	case 1:
		return 0
	case 2, 3, 4, 5:
		return int64(x.r.IntN(5)) * 4096
	}
	return x.r.Int64N(20_000)
}

// bytes draws what is written.
func (x *run) bytes() []byte {
	p := make([]byte, one(x, 0, 1, 10, 100, 4096, 5000, x.r.IntN(20_000)))
	c := byte(1 + x.r.IntN(255))
	for i := range p {
		p[i] = c + byte(i>>8)
	}
	return p
}

// xattr draws the name of an extended attribute.
func (x *run) xattr() string {
	if x.r.IntN(8) == 0 {
		return one(x, "", "user.", "user", "none", "none.x", "trusted.t", "security.s", "system.s", "user."+strings.Repeat("x", 250), "user."+strings.Repeat("x", 251), "USER.x", "trusted.", "system.")
	}
	return one(x, "user.a", "user.b", "user.c")
}
