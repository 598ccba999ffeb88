package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type quotaOptions struct {
	Agent string

	Bytes, SoftBytes   string
	Inodes, SoftInodes string
}

// AddFlags adds the flags of quota set.
func (o *quotaOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Bytes, "bytes", "", "what files may hold at most, such as `2G`; 0 is no limit")
	f.StringVar(&o.Inodes, "inodes", "", "how many files and directories there may be at most, such as `200k`; 0 is no limit")
	f.StringVar(&o.SoftBytes, "soft-bytes", "", "from where on quota show marks it, such as `1500M`; refuses nothing")
	f.StringVar(&o.SoftInodes, "soft-inodes", "", "the same for inodes, such as `150k`")
}

func newQuotaCommand(a *app) *cobra.Command {
	o := &quotaOptions{}
	set := command("set PATH [--bytes N] [--inodes N] [--soft-bytes N] [--soft-inodes N]", "Limit what a workspace may hold", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runQuotaSet(ctx, a, o, args[0]) })
	o.AddFlags(set.Flags())
	show := command("show [PATH]", "Show what workspaces hold and may hold", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error { return runQuotaShow(ctx, a, o, args) })
	clear := command("clear PATH", "Take all limits of a workspace away", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runQuotaClear(ctx, a, o, args[0]) })
	for _, c := range []*cobra.Command{set, show, clear} {
		c.Flags().StringVar(&o.Agent, "agent", "", "as the agent `KEY`, with its rights (default: the administrator)")
	}
	return noun("quota", "Limit what workspaces may hold", set, show, clear)
}

func runQuotaSet(ctx context.Context, a *app, o *quotaOptions, path string) error {
	spec := control.QuotaSpec{Agent: o.Agent, Path: path}
	some := false
	for _, f := range []struct {
		flag, text string
		to         **uint64
		unit       uint64
	}{
		{"--bytes", o.Bytes, &spec.Bytes, 1024}, {"--soft-bytes", o.SoftBytes, &spec.SoftBytes, 1024},
		{"--inodes", o.Inodes, &spec.Inodes, 1000}, {"--soft-inodes", o.SoftInodes, &spec.SoftInodes, 1000},
	} {
		if f.text == "" {
			continue
		}
		n, err := parseAmount(f.text, f.unit)
		if err != nil {
			return usagef("%s: %v", f.flag, err)
		}
		*f.to, some = &n, true
	}
	if !some {
		return usagef("set which limit? say --bytes, --inodes, --soft-bytes or --soft-inodes; `warren quota clear` takes all away")
	}
	q, err := a.client().SetQuota(ctx, spec)
	if err != nil {
		return err
	}
	return a.done(q, "quota of %s: %s", q.Path, limitsText(q))
}

func runQuotaClear(ctx context.Context, a *app, o *quotaOptions, path string) error {
	zero := new(uint64)
	q, err := a.client().SetQuota(ctx, control.QuotaSpec{Agent: o.Agent, Path: path, Bytes: zero, SoftBytes: zero, Inodes: zero, SoftInodes: zero})
	if err != nil {
		return err
	}
	return a.done(q, "%s has no quota", q.Path)
}

func runQuotaShow(ctx context.Context, a *app, o *quotaOptions, args []string) error {
	path := ""
	if len(args) > 0 {
		path = args[0]
	}
	all, err := a.client().Quotas(ctx, o.Agent, path)
	if err != nil {
		return err
	}
	return a.answer(all, func(w io.Writer) {
		var rows [][]string
		for _, q := range all {
			rows = append(rows, append(append([]string{q.Path}, amountCells(q.Bytes, size)...), amountCells(q.Inodes, count)...))
		}
		table(w, []string{"PATH", "BYTES", "SOFT", "HARD", "INODES", "SOFT", "HARD"}, rows)
	})
}

// amountCells are used, soft and hard; what is over its soft limit is marked.
func amountCells(x control.Amount, show func(uint64) string) []string {
	used := show(x.Used)
	if x.Over {
		used += " (over)"
	}
	return []string{used, limitCell(x.Soft, show), limitCell(x.Hard, show)}
}

func limitCell(n uint64, show func(uint64) string) string {
	if n == 0 {
		return "-"
	}
	return show(n)
}

// limitsText lists the limits there are.
func limitsText(q control.Quota) string {
	var parts []string
	for _, l := range []struct {
		n    uint64
		text string
	}{{q.Bytes.Hard, size(q.Bytes.Hard)}, {q.Inodes.Hard, count(q.Inodes.Hard) + " inodes"},
		{q.Bytes.Soft, "soft " + size(q.Bytes.Soft)}, {q.Inodes.Soft, "soft " + count(q.Inodes.Soft) + " inodes"}} {
		if l.n > 0 {
			parts = append(parts, l.text)
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

// parseAmount reads "200k" or "2G"; k, M, G and T are powers of unit, in any
// case and with an i or a B behind them.
func parseAmount(text string, unit uint64) (uint64, error) {
	digits := strings.TrimRight(text, "kKmMgGtTiIbB")
	suffix := strings.ToLower(text[len(digits):])
	n, err := strconv.ParseUint(digits, 10, 64)
	suffix = strings.TrimSuffix(strings.TrimSuffix(suffix, "b"), "i")
	power := strings.Index("kmgt", suffix)
	if err != nil || len(suffix) > 1 || power < 0 {
		return 0, fmt.Errorf("%q is no number such as 200k or 2G", text)
	}
	for i := 0; suffix != "" && i <= power; i++ {
		if n > math.MaxInt64/unit {
			return 0, fmt.Errorf("%q is too much", text)
		}
		n *= unit
	}
	return n, nil
}
