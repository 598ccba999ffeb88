package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

const block = 1 << 20 // how much the big file is written and read at a time

// small is a step that does op n times, with 100 files to a directory.
func small(n int, op func(dir string, i int) error) func(context.Context, string) error {
	return func(ctx context.Context, dir string) error {
		for i := range n {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := op(dir, i); err != nil {
				return err
			}
		}
		return nil
	}
}

func smallDir(dir string, i int) string { return filepath.Join(dir, fmt.Sprint("d", i/100)) }

func smallName(dir string, i int) string {
	return filepath.Join(smallDir(dir, i), fmt.Sprint("file", i))
}

func createFile(dir string, i int) error {
	if i%100 == 0 {
		if err := os.Mkdir(smallDir(dir, i), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(smallName(dir, i), bytes.Repeat([]byte{byte('a' + i%26)}, 1000), 0o644)
}

func statFile(dir string, i int) error {
	fi, err := os.Lstat(smallName(dir, i))
	if err == nil && fi.Size() != 1000 {
		err = fmt.Errorf("%s has %d bytes", fi.Name(), fi.Size())
	}
	return err
}

func readFile(dir string, i int) error {
	b, err := os.ReadFile(smallName(dir, i))
	if err == nil && (len(b) != 1000 || b[999] != byte('a'+i%26)) {
		err = fmt.Errorf("file %d has other bytes than were written", i)
	}
	return err
}

func renameFile(dir string, i int) error {
	return os.Rename(smallName(dir, i), smallName(dir, i)+".new")
}

func unlinkFile(dir string, i int) error { return os.Remove(smallName(dir, i) + ".new") }

func appendLine(dir string, i int) error {
	f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "line %d of a log that is opened for each\n", i); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func bigName(dir string) string { return filepath.Join(dir, "big") }

// writeBig writes size bytes that do not compress, in order, and syncs them.
func writeBig(size int64) func(context.Context, string) error {
	return func(ctx context.Context, dir string) error {
		f, err := os.Create(bigName(dir))
		if err != nil {
			return err
		}
		defer f.Close()
		buf := make([]byte, block)
		fill(buf, 1)
		for off := int64(0); off < size && ctx.Err() == nil; off += block {
			fill(buf[:64], uint64(off))
			if _, err := f.Write(buf[:min(block, size-off)]); err != nil {
				return err
			}
		}
		return f.Sync()
	}
}

func fill(b []byte, seed uint64) {
	var key [32]byte
	key[0], key[1], key[2], key[3] = byte(seed>>20), byte(seed>>28), byte(seed>>36), byte(seed)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
}

func readBig(_ context.Context, dir string) error {
	f, err := os.Open(bigName(dir))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, block))
	return err
}

// randomIO writes and reads n blocks of 4 KiB each, anywhere in the big file.
func randomIO(n int) func(context.Context, string) error {
	return func(_ context.Context, dir string) error {
		f, err := os.OpenFile(bigName(dir), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		fi, err := f.Stat()
		if err != nil {
			return err
		}
		r, buf := rand.New(rand.NewPCG(1, 2)), make([]byte, 4096)
		for range n {
			if _, err := f.ReadAt(buf, r.Int64N(fi.Size()/4096)*4096); err != nil {
				return err
			}
			if _, err := f.WriteAt(buf, r.Int64N(fi.Size()/4096)*4096); err != nil {
				return err
			}
		}
		return f.Sync()
	}
}
