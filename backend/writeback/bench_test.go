package writeback_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
)

// benchDrivers gives a store over each driver, with the usual options and real files.
func benchDrivers(b *testing.B, run func(b *testing.B, s *writeback.Store)) {
	for _, name := range []string{"mem", "badger"} {
		b.Run(name, func(b *testing.B) {
			o := writeback.Options{Dir: b.TempDir()}
			if name == "mem" {
				o.Driver = mem.New(mem.Options{History: 4})
			} else {
				o.Driver = openBadger(b, b.TempDir())
			}
			s := open(b, o)
			b.ReportAllocs()
			run(b, s)
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// create is what making a file costs the store: four small keys.
func create(tx backend.Tx, key []byte, i int64) error {
	value := make([]byte, 100)
	for k := range 4 {
		key = fmt.Appendf(key[:0], "%c%07d", 'a'+k, i%100_000)
		if err := tx.Set(key, value[:20+20*k]); err != nil {
			return err
		}
	}
	return nil
}

func BenchmarkUpdateOf4Keys(b *testing.B) {
	benchDrivers(b, func(b *testing.B, s *writeback.Store) {
		var key []byte
		var i int64
		for b.Loop() {
			i++
			if _, err := s.Update(b.Context(), func(tx backend.Tx) error { return create(tx, key, i) }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkUpdateOf64KiB(b *testing.B) {
	benchDrivers(b, func(b *testing.B, s *writeback.Store) {
		value := make([]byte, 64<<10)
		b.SetBytes(int64(len(value)))
		var i int
		for b.Loop() {
			i++
			if _, err := s.Update(b.Context(), func(tx backend.Tx) error {
				return tx.Set(fmt.Appendf(nil, "k%d", i%200), value)
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkUpdateAndWait(b *testing.B) {
	benchDrivers(b, func(b *testing.B, s *writeback.Store) {
		var i atomic.Int64
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			var key []byte
			for pb.Next() {
				lsn, err := s.Update(b.Context(), func(tx backend.Tx) error { return create(tx, key, i.Add(1)) })
				if err = errors.Join(err, s.WaitDurable(b.Context(), lsn)); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkView reads one key that is pending, and one that is committed.
func BenchmarkView(b *testing.B) {
	for _, pending := range []bool{true, false} {
		b.Run(fmt.Sprintf("pending=%v", pending), func(b *testing.B) {
			benchDrivers(b, func(b *testing.B, s *writeback.Store) {
				set(b, s, "key", "value")
				if !pending {
					if err := s.Flush(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					if err := s.View(b.Context(), func(tx backend.Tx) error { _, err := tx.Get([]byte("key")); return err }); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkDriverView is what the same read costs the driver alone.
func BenchmarkDriverView(b *testing.B) {
	driver := openBadger(b, b.TempDir())
	defer driver.Close()
	if _, err := driver.Update(b.Context(), func(tx backend.Tx) error { return tx.Set([]byte("key"), []byte("value")) }); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := driver.View(b.Context(), func(tx backend.Tx) error { _, err := tx.Get([]byte("key")); return err }); err != nil {
			b.Fatal(err)
		}
	}
}
