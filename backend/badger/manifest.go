package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/warrenfs/warren/backend"
)

// manifest is what Badger's manifest says of the table files.
type manifest struct {
	tables  []tableFile     // in use, newest first
	dropped map[uint64]bool // ids of tables that were in use once
}

// tableFile is one table that the manifest names.
type tableFile struct {
	name        string
	id          uint64
	compression options.CompressionType
}

// readManifest reads the directory's manifest; it is empty when the directory has
// none and no data either.
func readManifest(dir string, opt badger.Options) (manifest, error) {
	name := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		data, err := names(dir, ".sst", ".mem")
		if err == nil && len(data) > 0 {
			err = fmt.Errorf("%s is missing", name)
		}
		return manifest{}, err
	}
	if err != nil {
		return manifest{}, err
	}
	defer f.Close()
	if err := checkMagic(f); err != nil {
		return manifest{}, err
	}
	replayed, end, err := replay(f, opt)
	if err != nil {
		return manifest{}, fmt.Errorf("%s: %w", name, err)
	}
	log := make([]byte, end)
	if _, err := f.ReadAt(log, 0); err != nil {
		return manifest{}, err
	}
	m := manifest{dropped: droppedTables(log)}
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(replayed.Tables))) {
		m.tables = append(m.tables, tableFile{
			name: table.NewFilename(id, dir), id: id, compression: replayed.Tables[id].Compression,
		})
	}
	return m, nil
}

// droppedTables gives the tables whose end a manifest records: after its first 8
// bytes each record has a length, a checksum and a protobuf ManifestChangeSet.
func droppedTables(log []byte) map[uint64]bool {
	dropped := map[uint64]bool{}
	for rest := log[manifestHead:]; len(rest) >= 8; {
		n := uint64(binary.BigEndian.Uint32(rest))
		rest = rest[8:]
		if n > uint64(len(rest)) {
			break
		}
		_, ids := changesOf(rest[:n])
		for _, id := range ids {
			dropped[id] = true
		}
		rest = rest[n:]
	}
	return dropped
}

// changesOf gives the tables that a record of a manifest adds and takes away.
func changesOf(record []byte) (made, dropped []uint64) {
	eachField(record, func(field, _ uint64, change []byte) {
		if field != 1 { // ManifestChangeSet.changes
			return
		}
		var id, op uint64
		eachField(change, func(field, number uint64, _ []byte) {
			switch field {
			case 1: // ManifestChange.Id
				id = number
			case 2: // ManifestChange.Op
				op = number
			}
		})
		if op == 1 { // DELETE
			dropped = append(dropped, id)
		} else {
			made = append(made, id)
		}
	})
	return made, dropped
}

// eachField calls fn for each field of a protobuf message that is a number or
// bytes, and ends at anything else.
func eachField(message []byte, fn func(field, number uint64, data []byte)) {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return
		}
		message = message[n:]
		number, n := binary.Uvarint(message)
		if n <= 0 {
			return
		}
		message = message[n:]
		switch tag & 7 {
		case 0:
			fn(tag>>3, number, nil)
		case 2:
			if number > uint64(len(message)) {
				return
			}
			fn(tag>>3, 0, message[:number])
			message = message[number:]
		default:
			return
		}
	}
}

// checkMagic refuses the manifest of a Badger store that is not of this driver.
func checkMagic(f *os.File) error {
	head := make([]byte, 8)
	n, _ := f.ReadAt(head, 0)
	ours := binary.BigEndian.AppendUint16([]byte("Bdgr"), magic)
	if n == len(head) && bytes.HasPrefix(head, ours[:4]) && !bytes.HasPrefix(head, ours) {
		return &backend.Error{Kind: backend.Invalid, Err: errors.New("the directory holds another kind of Badger store")}
	}
	return nil
}

func replay(f *os.File, opt badger.Options) (m badger.Manifest, end int64, err error) {
	defer recoverInto(&err)
	return badger.ReplayManifestFile(f, magic, opt)
}
