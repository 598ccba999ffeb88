package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// abi lists the system calls of one architecture that can leave a network namespace.
type abi struct {
	arch    uint32   // AUDIT_ARCH_…
	socket  []uint32 // socket(2)
	refused []uint32 // what makes sockets without saying of which family
}

// abis are the ABIs of this architecture: its own, and the one of 32-bit programs.
var abis = map[string][]abi{
	"amd64": {
		{unix.AUDIT_ARCH_X86_64, []uint32{41}, []uint32{425}},
		{unix.AUDIT_ARCH_I386, []uint32{359}, []uint32{425, 102}},
	},
	"arm64": {
		{unix.AUDIT_ARCH_AARCH64, []uint32{198}, []uint32{425}},
		{unix.AUDIT_ARCH_ARM, []uint32{281}, []uint32{425}},
	},
}[runtime.GOARCH]

// refuseVsock keeps this thread, and what it becomes, from making sockets of AF_VSOCK:
// network namespaces do not hold them, and they reach the hypervisor. io_uring and
// socketcall, which no filter can look into, go too. no_new_privs is set.
func refuseVsock() error {
	const x32 = 0x40000000
	const offNumber, offArch, offArgument = 0, 4, 16
	deny := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	jump := func(k uint32, ifEqual, ifNot int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: uint8(ifEqual), Jf: uint8(ifNot)}
	}
	if len(abis) == 0 {
		return fmt.Errorf("AF_VSOCK cannot be closed on %s", runtime.GOARCH)
	}
	prog := []unix.SockFilter{load(offArch)}
	for _, a := range abis {
		block := []unix.SockFilter{load(offNumber), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: ^uint32(x32)}}
		for _, n := range a.refused {
			block = append(block, jump(n, 0, 1), deny)
		}
		for _, n := range a.socket {
			block = append(block, jump(n, 0, 3), load(offArgument), jump(unix.AF_VSOCK, 0, 1), deny)
		}
		block = append(block, allow)
		prog = append(prog, jump(a.arch, 0, len(block)))
		prog = append(prog, block...)
	}
	prog = append(prog, deny) // of no such architecture
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return fmt.Errorf("close AF_VSOCK (needs seccomp filters): %w", errno)
	}
	return nil
}
