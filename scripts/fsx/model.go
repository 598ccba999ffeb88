package main

import "bytes"

// maxSize is how large the file gets at most, in bytes.
const maxSize = 512 << 10

// model is what the file must hold.
type model struct{ data []byte }

func (m *model) size() int { return len(m.data) }

// resize makes the file n bytes long; what is new is zero.
func (m *model) resize(n int) {
	if n <= len(m.data) {
		m.data = m.data[:n]
		return
	}
	m.data = append(m.data, make([]byte, n-len(m.data))...)
}

// put writes p at off.
func (m *model) put(p []byte, off int) {
	if off+len(p) > len(m.data) && len(p) > 0 {
		m.resize(off + len(p))
	}
	copy(m.data[min(off, len(m.data)):], p)
}

// zero makes what there is of [off, off+n) zeros.
func (m *model) zero(off, n int) {
	if off < len(m.data) {
		clear(m.data[off:min(off+n, len(m.data))])
	}
}

// part is what a read of n bytes at off gives.
func (m *model) part(off, n int) []byte {
	if off >= len(m.data) {
		return nil
	}
	return m.data[off:min(off+n, len(m.data))]
}

// differs tells where got is not what a read at off must give; -1 if it is.
func (m *model) differs(off, n int, got []byte) int {
	want := m.part(off, n)
	if bytes.Equal(got, want) {
		return -1
	}
	for i := range got {
		if i >= len(want) || got[i] != want[i] {
			return off + i
		}
	}
	return off + len(got)
}
