package escapetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// object is one of JSON.
type object = map[string]any

// runcLooks is why a descriptor that its user may not use does not get as far.
const runcLooks = "runc looks at what it is to pass on, is not let in, and does not start"

// runc is a container of runc with a host mount bound in, as bound is one of bubblewrap.
func runc(t *testing.T, w *world, c confinement) map[string]outcome {
	if _, err := exec.LookPath("runc"); err != nil {
		t.Skip("no runc")
	}
	name := fmt.Sprint("runc", c.uid)
	above, bundle, state := w.view(t, name, c.uid), w.dir(name+"-bundle"), w.dir(name+"-state")
	told := w.told(c, "/run/warren/agent/agent.sock", "/srv/warren")
	told["roots_own"] = "/show/roots"
	w.config(t, "runc", told)
	root := filepath.Join(bundle, "rootfs")
	for _, d := range []string{bundle, state, root} {
		must(t, os.Mkdir(d, 0o755))
		must(t, os.Chown(d, c.uid, c.uid))
	}
	for link, to := range map[string]string{"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"} {
		must(t, os.Symlink(to, filepath.Join(root, link)))
	}
	must(t, os.WriteFile(filepath.Join(bundle, "config.json"), w.runcConfig(t, c, above), 0o644))
	preserve := "7" // 3 to 9
	if c.skip["an_inherited_descriptor"] == runcLooks {
		preserve = "6"
	}
	args := []string{"runc", "--root", state, "run", "--preserve-fds", preserve, "-b", bundle, fmt.Sprint("escape-", os.Getpid(), "-", c.uid)}
	if c.uid != 0 {
		args = append(become(c.uid), args...)
	}
	return outcomes(t, w.run(t, w.stolen, w.gaia, []string{"XDG_RUNTIME_DIR=" + state}, args...))
}

// runcConfig is what `runc spec` writes, with our process and mounts.
func (w *world) runcConfig(t *testing.T, c confinement, above string) []byte {
	t.Helper()
	dir := t.TempDir()
	args := []string{"spec", "--bundle", dir}
	if c.uid != 0 {
		args = append(args, "--rootless")
	}
	if out, err := exec.Command("runc", args...).CombinedOutput(); err != nil {
		t.Fatalf("runc spec: %v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	must(t, err)
	var conf struct {
		Version  string   `json:"ociVersion"`
		Process  object   `json:"process"`
		Root     object   `json:"root"`
		Hostname string   `json:"hostname"`
		Mounts   []object `json:"mounts"`
		Linux    object   `json:"linux"`
	}
	must(t, json.Unmarshal(b, &conf))
	conf.Process["terminal"] = false
	conf.Process["args"] = []string{python, "/show/attempts.py", "/show/runc.json"}
	delete(conf.Process, "rlimits")
	if c.uid == 0 {
		caps := object{}
		for _, set := range []string{"bounding", "effective", "permitted"} {
			caps[set] = c.caps
		}
		conf.Process["capabilities"] = caps
	} else {
		one := []object{{"containerID": 0, "hostID": c.uid, "size": 1}}
		conf.Linux["uidMappings"], conf.Linux["gidMappings"] = one, one
	}
	delete(conf.Linux, "resources")
	for _, m := range [][2]string{{"/usr", "ro"}, {"/etc", "ro"}, {w.dir("show"), "ro"}, {w.dir("run/agent"), "rw"}, {above, "rw"}} {
		to := map[string]string{w.dir("show"): "/show", w.dir("run/agent"): "/run/warren/agent", above: "/srv/warren"}[m[0]]
		if to == "" {
			to = m[0]
		}
		conf.Mounts = append(conf.Mounts, object{"destination": to, "type": "none", "source": m[0], "options": []string{"rbind", "rslave", m[1]}})
	}
	conf.Mounts = append(conf.Mounts, object{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": []string{"mode=1777"}})
	b, err = json.Marshal(conf)
	must(t, err)
	return b
}
