package mem_test

import (
	"math/rand/v2"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/backendtest"
	"github.com/warrenfs/warren/backend/mem"
)

func fixture(testing.TB) backendtest.Fixture {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	s := mem.New(mem.Options{})
	return backendtest.Fixture{
		Store: s,
		Reopen: func(testing.TB) backend.Store {
			s = s.Reopen()
			return s
		},
		Crash:    func(testing.TB) backend.Store { return s.CrashRand(r) },
		Reserved: true,
	}
}

func TestStore(t *testing.T) { backendtest.TestStore(t, fixture) }

func TestContent(t *testing.T) {
	backendtest.TestContent(t, func(t testing.TB) backendtest.ContentFixture {
		return backendtest.ContentFixture{Fixture: fixture(t), Content: mem.Content{}}
	})
}
