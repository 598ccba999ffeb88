package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/warrenfs/warren/control/mcp"
)

// Limits of a connection to `warren mcp --listen`.
const (
	headerTime  = 10 * time.Second
	headerBytes = 16 << 10
	idleTime    = 2 * time.Minute
	closeTime   = 5 * time.Second
)

// serveMCP serves hosts over HTTP until ctx or a signal ends it.
func serveMCP(ctx context.Context, a *app, address string, opts mcp.Options) error {
	h, err := mcp.NewHTTP(a.agentSocket(), opts)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := listenLoopback(ctx, address)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTime, MaxHeaderBytes: headerBytes, IdleTimeout: idleTime}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	url := "http://" + l.Addr().String() + mcp.HTTPPath
	if err := a.answer(map[string]string{"url": url}, func(w io.Writer) { _, _ = fmt.Fprintln(w, url) }); err != nil {
		return errors.Join(err, s.Close())
	}
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	h.Close() // streams that hosts listen on would keep the server
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		return s.Close()
	}
	return nil
}

// listenLoopback listens on an address of this machine that others do not reach:
// what comes there is not encrypted.
func listenLoopback(ctx context.Context, address string) (net.Listener, error) {
	if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().IsLoopback() {
		return nil, usagef("--listen %s: want a port of an address that this machine alone reaches, such as 127.0.0.1:7717; for others put a proxy with TLS before it", address)
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, localError(err)
	}
	return l, nil
}
