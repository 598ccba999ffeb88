package workspace

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	bits "encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/warrenfs/warren/backend"
)

// Cursors turn numbers of the feed into what an asker is told. An agent's tell
// nothing of how much others do: they are encrypted, its own, and another each
// time, so that two of them do not tell whether anything was between.
type Cursors struct {
	key   []byte
	agent string // "": the administrator, who is told the numbers
}

// A cursor of an agent is one block: 8 bytes of the number, 4 of chance, 4 of
// zeros, encrypted under a key of the agent's.
const cursorChance, cursorZeros = 8, 12

func (c Cursors) cipher() (cipher.Block, error) {
	h := hmac.New(sha256.New, c.key)
	h.Write([]byte(c.agent))
	return aes.NewCipher(h.Sum(nil)[:16])
}

// NewCursors makes those of an agent, or of the administrator for "", under a
// store's secret key (Registry.FeedKey).
func NewCursors(key []byte, agent string) Cursors { return Cursors{key: key, agent: agent} }

// Cursors gives those of an agent, or of the administrator for "".
func (r *Registry) Cursors(ctx context.Context, agent string) (Cursors, error) {
	key, err := r.FeedKey(ctx)
	return NewCursors(key, agent), err
}

// Seal gives what an asker is told for a number.
func (c Cursors) Seal(seq uint64) (string, error) {
	if c.agent == "" {
		return strconv.FormatUint(seq, 10), nil
	}
	block, err := c.cipher()
	if err != nil {
		return "", err
	}
	var b [aes.BlockSize]byte
	bits.BigEndian.PutUint64(b[:], seq)
	if _, err := rand.Read(b[cursorChance:cursorZeros]); err != nil {
		return "", err
	}
	block.Encrypt(b[:], b[:])
	return hex.EncodeToString(b[:]), nil
}

// Open gives the number of a cursor. Invalid: it is none, or another agent's.
func (c Cursors) Open(s string) (uint64, error) {
	if c.agent == "" {
		seq, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return 0, fail(backend.Invalid, "after %q is no cursor", s)
		}
		return seq, nil
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != aes.BlockSize {
		return 0, fail(backend.Invalid, "after %q is no cursor", s)
	}
	block, err := c.cipher()
	if err != nil {
		return 0, err
	}
	block.Decrypt(b, b)
	if bits.BigEndian.Uint32(b[cursorZeros:]) != 0 {
		return 0, fail(backend.Invalid, "after %q is no cursor of agent %s", s, c.agent)
	}
	return bits.BigEndian.Uint64(b), nil
}
