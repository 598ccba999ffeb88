package backup

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/warrenfs/warren/backend"
)

const (
	fileMagic  = "warrenBK"
	indexMagic = "warrenBI"
	version    = 1
	maxHeader  = 64 << 10
	maxContent = 8 << 20
)

// The kinds of record.
const (
	kindSet     = 1
	kindDeleted = 2
	kindContent = 3
	kindAgain   = 4
	kindSummary = 9
)

// ID names a backup.
type ID [16]byte

// MarshalText gives hexadecimal digits.
func (i ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, i[:]), nil }

// UnmarshalText reads them.
func (i *ID) UnmarshalText(b []byte) error {
	if len(b) != 2*len(i) {
		return errors.New("an id has 32 hexadecimal digits")
	}
	_, err := hex.Decode(i[:], b)
	return err
}

// Header tells what a backup is of.
type Header struct {
	ID      ID        `json:"id"`
	Since   *ID       `json:"since,omitempty"` // the backup that this one goes on from; nil: a full one
	LSN     uint64    `json:"lsn"`             // the last update that is in it
	Created time.Time `json:"created"`
	Format  int       `json:"format"`  // of the store
	Content string    `json:"content"` // the store's content driver
}

// Summary ends a backup.
type Summary struct {
	ID       ID     `json:"id"`
	LSN      uint64 `json:"lsn"`
	Records  uint64 `json:"records"`
	Contents uint64 `json:"contents"`
	Bytes    uint64 `json:"bytes"` // of contents
	SHA256   string `json:"sha256"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crc(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// bad is a backup that cannot be used.
func bad(format string, args ...any) error {
	return &backend.Error{Op: "read backup", Kind: backend.Invalid, Err: fmt.Errorf(format, args...)}
}
