package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/warrenfs/warren/scripts/waits"
)

// keyFile makes a private key in a file, and gives it and its public half.
func keyFile(t *testing.T) (file string, pub ssh.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if pub, err = ssh.NewPublicKey(public); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, pub
}

// TestDeployKey: who borrows a key gets signatures of it and nothing else, an agent
// gets its own key, and nothing is left when the run has ended.
func TestDeployKey(t *testing.T) {
	mine, pub := keyFile(t)
	theirs, _ := keyFile(t)
	keys, err := readDeployKeys([]string{"coder=" + mine, "writer=" + theirs})
	if err != nil {
		t.Fatal(err)
	}
	uid := func() (int, error) { return os.Geteuid(), nil }
	l, err := keys.lend(t.Context(), "coder", uid)
	if err != nil {
		t.Fatal(err)
	}
	dir, _, _ := strings.Cut(l.args[1], ":")
	c, err := net.Dial("unix", filepath.Join(dir, "agent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	borrower := agent.NewClient(c)
	list, err := borrower.List()
	if err != nil || len(list) != 1 || string(list[0].Blob) != string(pub.Marshal()) {
		t.Errorf("keys: %v %v", list, err)
	}
	sig, err := borrower.Sign(pub, []byte("text"))
	if err != nil || pub.Verify([]byte("text"), sig) != nil {
		t.Errorf("sign: %v", err)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"add": borrower.Add(agent.AddedKey{PrivateKey: other}), "remove": borrower.Remove(pub),
		"remove all": borrower.RemoveAll(), "lock": borrower.Lock([]byte("x"))} {
		if err == nil {
			t.Errorf("%s works", name)
		}
	}
	l.close()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	if l, err := keys.lend(t.Context(), "nobody", uid); err != nil || len(l.args) > 0 {
		t.Errorf("an agent without a key: %v %v", l.args, err)
	}
	for _, bad := range [][]string{{"/nonexistent"}, {"coder=" + mine, "coder=" + theirs}, {os.DevNull}} {
		if _, err := readDeployKeys(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// TestLentRSAKey: an RSA key signs as today's servers want it, not with SHA-1.
func TestLentRSAKey(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	lent, err := deployKeys{"": key}.lend(ctx, "web", func() (int, error) { return os.Getuid(), nil })
	if err != nil {
		t.Fatal(err)
	}
	defer lent.close()
	dir, _, _ := strings.Cut(lent.args[1], ":")
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "agent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := agent.NewClient(conn)
	keys, err := client.List()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	sig, err := client.SignWithFlags(keys[0], []byte("challenge"), agent.SignatureFlagRsaSha256)
	if err != nil || sig.Format != ssh.KeyAlgoRSASHA256 {
		t.Errorf("signed %v, %v; want %s", sig, err, ssh.KeyAlgoRSASHA256)
	}
	if err := client.RemoveAll(); err == nil {
		t.Error("the borrower may remove keys")
	}
}
