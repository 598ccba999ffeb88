package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far long work has come, on stderr if that is a terminal. A
// nil *progress shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress starts a bar for total bytes (or steps, if not bytes); -1: nobody
// knows how many. done is to be called.
func (a *app) newProgress(what string, total int64, bytes bool) *progress {
	f, ok := a.stderr.(*os.File)
	if !ok || a.quiet || a.json || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progress{progressbar.NewOptions64(total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(bytes), progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSpinnerType(14), progressbar.OptionUseANSICodes(true))}
}

// Write counts p's bytes as done.
func (p *progress) Write(b []byte) (int, error) {
	p.add(int64(len(b)))
	return len(b), nil
}

func (p *progress) add(n int64) {
	if p != nil {
		_ = p.bar.Add64(n) // a terminal that cannot be written to loses the bar
	}
}

// of says how much is done in all, and of how much; 0: nobody knows.
func (p *progress) of(done, total int64) {
	if p == nil {
		return
	}
	if total > 0 && total != p.bar.GetMax64() {
		p.bar.ChangeMax64(total)
	}
	_ = p.bar.Set64(done)
}

// done takes the bar away.
func (p *progress) done() {
	if p != nil {
		_ = p.bar.Finish()
	}
}
