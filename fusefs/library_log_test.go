package fusefs

import (
	"bytes"
	"encoding/binary"
	"log"
	"log/slog"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestLibraryLog: what go-fuse prints of a request that makes no sense goes to the
// logger, and has nothing of what was in it; nor has what it tells its own logger.
func TestLibraryLog(t *testing.T) {
	var told bytes.Buffer
	l := slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug}))
	writer, flags := log.Writer(), log.Flags()
	defer func() {
		log.SetOutput(writer)
		log.SetFlags(flags)
	}()
	log.SetFlags(0)
	log.SetOutput(LibraryLog(l))
	s := fuse.NewProtocolServer(fuse.NewDefaultRawFileSystem(), mountOptions(l))
	for opcode := range uint32(60) {
		for _, text := range []string{"", "TOPSECRET", "TOPSECRET\nTOPSECRET: TOPSECRET"} {
			in := binary.NativeEndian.AppendUint32(nil, uint32(40+len(text)))
			in = append(binary.NativeEndian.AppendUint32(in, opcode), make([]byte, 32)...)
			s.HandleRequest([][]byte{append(in, text...)}, [][]byte{make([]byte, 4096)})
		}
	}
	s.HandleRequest([][]byte{[]byte("TOPSECRET")}, [][]byte{make([]byte, 4096)})
	if n := strings.Count(told.String(), "cut short"); n < 20 || !strings.Contains(told.String(), "kind=WRITE") {
		t.Errorf("%d requests were cut short:\n%s", n, told.String())
	}
	if strings.Contains(told.String(), "TOPSECRET") {
		t.Errorf("it tells what was in them:\n%s", told.String())
	}
	LibraryLog(nil).Write([]byte("x"))
}
