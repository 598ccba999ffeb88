package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// deployKeys are the private keys that git may sign with, by agent. "" is of
// every agent. They stay in this process: git's ssh asks an agent (ssh-agent(1)) for
// signatures, at a socket that is there as long as git runs and that only the
// command's user can reach.
type deployKeys map[string]any

// readDeployKeys reads keys that are named as FILE or AGENT=FILE. A key with a
// passphrase is refused.
func readDeployKeys(named []string) (deployKeys, error) {
	keys := deployKeys{}
	for _, n := range named {
		who, file, ok := strings.Cut(n, "=")
		if !ok {
			who, file = "", n
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, localError(err)
		}
		key, err := ssh.ParseRawPrivateKey(text)
		if err != nil {
			return nil, usagef("--deploy-key %s: no private key without a passphrase: %v", file, err)
		}
		if _, twice := keys[who]; twice {
			return nil, usagef("--deploy-key %s: one key for an agent", n)
		}
		keys[who] = key
	}
	return keys, nil
}

// lent is a key at the disposal of one run.
type lent struct {
	args  []string // of warren run
	close func()
}

// keyDir is where a run finds the socket.
const keyDir = "/run/warren-key"

// lend makes an agent's key usable in a run of its, for the user that uid tells.
func (k deployKeys) lend(ctx context.Context, who string, uidOf func() (int, error)) (lent, error) {
	key, ok := k[who]
	if !ok {
		if key, ok = k[""]; !ok {
			return lent{close: func() {}}, nil
		}
	}
	ring, ok := agent.NewKeyring().(agent.ExtendedAgent)
	if !ok {
		return lent{}, errors.New("deploy key: the keyring cannot choose how an RSA key signs")
	}
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		return lent{}, fmt.Errorf("deploy key: %w", err)
	}
	uid, err := uidOf()
	if err != nil {
		return lent{}, err
	}
	dir, err := os.MkdirTemp("", "warren-key")
	if err != nil {
		return lent{}, err
	}
	fail := func(err error) (lent, error) { return lent{}, errors.Join(err, os.RemoveAll(dir)) }
	socket := filepath.Join(dir, "agent.sock")
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fail(err)
	}
	if os.Geteuid() == 0 {
		err = errors.Join(os.Chown(socket, uid, -1), os.Chown(dir, uid, -1))
	}
	if err != nil {
		return fail(errors.Join(err, l.Close()))
	}
	go serveKey(l, ring)
	return lent{args: []string{"--show", dir + ":" + keyDir, "--env", "SSH_AUTH_SOCK=" + keyDir + "/agent.sock"},
		close: func() { _ = l.Close(); _ = os.RemoveAll(dir) }}, nil
}

// readOnlyRing signs, RSA keys with SHA-2 as well, and lets nobody add, remove or lock.
type readOnlyRing struct{ agent.ExtendedAgent }

var errReadOnly = errors.New("this agent only signs")

// The operations that a borrower of a key has no business with.
func (readOnlyRing) Add(agent.AddedKey) error       { return errReadOnly }
func (readOnlyRing) Remove(ssh.PublicKey) error     { return errReadOnly }
func (readOnlyRing) RemoveAll() error               { return errReadOnly }
func (readOnlyRing) Lock([]byte) error              { return errReadOnly }
func (readOnlyRing) Unlock([]byte) error            { return errReadOnly }
func (readOnlyRing) Signers() ([]ssh.Signer, error) { return nil, errReadOnly }
func (readOnlyRing) Extension(string, []byte) ([]byte, error) {
	return nil, agent.ErrExtensionUnsupported
}

func serveKey(l net.Listener, ring agent.ExtendedAgent) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // the run has ended
		}
		go func() {
			_ = agent.ServeAgent(readOnlyRing{ring}, c) // it ends with the connection
			_ = c.Close()
		}()
	}
}
