package badger

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// witness is the file "durable": one line with the number of the last Update
// that was acknowledged and a checksum of it. Only the holder of Store.writer
// writes it.
type witness struct{ file *os.File }

func witnessFile(dir string) string { return filepath.Join(dir, "durable") }

// openWitness gives the witness and the Update it names: 0 in a new file, and in
// one that a power cut left without whole contents, since it is not synced.
func openWitness(dir string) (witness, backend.LSN, error) {
	f, err := os.OpenFile(witnessFile(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return witness{}, 0, err
	}
	line := make([]byte, 64)
	n, err := f.ReadAt(line, 0)
	if err != nil && err != io.EOF { // it may name an Update that is missing
		return witness{}, 0, errors.Join(err, f.Close())
	}
	var lsn backend.LSN
	if _, err := fmt.Sscanf(string(line[:n]), "%d", &lsn); err != nil || string(line[:n]) != string(witnessLine(lsn)) {
		lsn = 0
	}
	return witness{f}, lsn, nil
}

func witnessLine(lsn backend.LSN) []byte {
	number := fmt.Appendf(nil, "%020d", lsn)
	return fmt.Appendf(nil, "%s %08x\n", number, crc32.Checksum(number, castagnoli))
}

// synced tells whether a commit that Badger has just synced is on the disk, see
// [dirfs.Synced].
func (w witness) synced() error { return dirfs.Synced(int(w.file.Fd())) }

func (w witness) write(lsn backend.LSN) error {
	_, err := w.file.WriteAt(witnessLine(lsn), 0)
	return err
}
