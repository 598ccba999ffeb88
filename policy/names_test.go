package policy

import (
	"testing"
)

func TestNameDenied(t *testing.T) {
	e := newEngine(t, Facts{})
	for name, want := range map[string]string{
		".env": ".env", ".ENV": ".env", ".Env": ".env", ".env.local": ".env.local", ".ENV.Local": ".env.local",
		"id_rsa": "id_rsa", "ID_RSA": "id_rsa", "id_ed25519": "id_ed25519", ".netrc": ".netrc",
		".env.example": "", "server.pem": "", ".env.locale": "", "x.env": "", ".env ": "", " .env": "", "id_rsa.pub": "",
		"": "", ".": "", "..": "", ".env/": "", "env": "", ".environment": "",
	} {
		got, denied := e.NameDenied(name)
		if got != want || denied != (want != "") {
			t.Errorf("%q: %q %v, want %q", name, got, denied, want)
		}
	}
}

func TestDenyGlobs(t *testing.T) {
	e := newEngine(t, Facts{Settings: Settings{DenyNames: []string{"*.PEM", "secret?", "[ab]x", "Exact"}}})
	for name, want := range map[string]string{
		"a.pem": "*.PEM", "A.PEM": "*.PEM", ".pem": "*.PEM", "a.pem.txt": "", "Secret1": "secret?", "secret": "", "secret12": "",
		"AX": "[ab]x", "cx": "", "exact": "Exact", "exactly": "", ".env": "",
	} {
		if got, _ := e.NameDenied(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if err := e.Swap(Facts{Settings: Settings{DenyNames: []string{}}}); err != nil {
		t.Fatal(err)
	}
	if _, denied := e.NameDenied(".env"); denied {
		t.Error("an empty deny-list denies")
	}
}

// TestNameExceptedSlashes: a rule on /a/ and on /a mean the same, and neither
// is about /ab (failures 33 and 37).
func TestNameExceptedSlashes(t *testing.T) {
	for _, under := range []string{"/p/a", "/p/a/", "//p//a//"} {
		e := newEngine(t, Facts{Settings: Settings{Exceptions: []NameException{{".env", under}}}})
		for file, want := range map[string]bool{
			"/p/a/.env": true, "/p/a/b/c/.env": true, "/p/a/b/.ENV": true,
			"/p/ab/.env": false, "/p/a.env": false, "/p/.env": false, "/.env": false, "/p/a": false,
			"/p/a/.env.local": false, "/q/p/a/.env": false,
		} {
			if got := e.NameExcepted(file); got != want {
				t.Errorf("under %q: %q excepted: %v", under, file, got)
			}
		}
	}
	e := newEngine(t, Facts{Settings: Settings{Exceptions: []NameException{{".env*", "/"}}}})
	if !e.NameExcepted("/x/.env.local") || e.NameExcepted("/x/id_rsa") {
		t.Error("an exception under / or by glob is off")
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{".env", "*.pem", "[a", "\\", "é", "\xff", "a]b", "[!a]*"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if validGlob(pattern) != nil {
			return
		}
		e, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Swap(Facts{Settings: Settings{DenyNames: []string{pattern}, Exceptions: []NameException{{pattern, "/a"}}}}); err != nil {
			t.Fatalf("a valid pattern %q is refused: %v", pattern, err)
		}
		if _, denied := e.NameDenied(name); e.NameExcepted("/a/x") && !denied && name == "x" {
			t.Fatalf("%q is excepted and not denied", name)
		}
	})
}
