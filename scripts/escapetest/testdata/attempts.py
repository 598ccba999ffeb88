"""Attempts to get out of a view.

    attempts.py CONFIG      CONFIG is a file of JSON, the fields are used below

Prints one JSON object, {name: [worked, what happened]}. The very same attempts are
run where they must fail and, as a control, where they must work: there CONFIG
names what is allowed.
"""
import array, ctypes, json, os, shutil, socket, stat, sys, time

C = json.load(open(sys.argv[1]))
SECRET = C["secret"]
libc = ctypes.CDLL(None, use_errno=True)
MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 32, 4096, 16384, 1 << 18
TABLE = {}


def attempt(f):
    TABLE[f.__name__] = f
    return f


def call(name, *args):
    r = getattr(libc, name)(*args)
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e), name)
    return r


def mount(src, dst, kind, flags, data=None):
    enc = lambda s: None if s is None else s.encode()
    call("mount", enc(src), enc(dst), enc(kind), ctypes.c_ulong(flags), enc(data))


def scratch():
    d = "%s/t%d.%d" % (os.environ.get("TMPDIR", "/tmp"), os.getpid(), time.monotonic_ns())
    os.mkdir(d)
    return d


def hunt(root="/"):
    """Looks below root for what must not be reached; gives where it was."""
    for p in C["hunt"]:
        p = root.rstrip("/") + p
        try:
            if stat_is_socket(p):
                return p
            with open(p, "rb") as f:
                if SECRET.encode() in f.read(1 << 20):
                    return p
        except OSError:
            pass
    raise LookupError("nothing found below " + root)


def stat_is_socket(p):
    return p.endswith("admin.sock") and stat.S_ISSOCK(os.stat(p).st_mode)


def ask(sock, method, path, token, body=None, host="warren", more=""):
    """One request; raises unless the answer is 2xx, gives its text."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(sock)
    head = "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s" % (method, path, host, more)
    if token:
        head += "Authorization: Bearer %s\r\n" % token
    body = b"" if body is None else json.dumps(body).encode()
    s.sendall((head + "Content-Length: %d\r\n\r\n" % len(body)).encode() + body)
    got = b""
    while chunk := s.recv(65536):
        got += chunk
    status = int(got.split(b" ", 2)[1])
    if status // 100 != 2:
        raise PermissionError("%d %s" % (status, got.split(b"\r\n\r\n", 1)[-1][:120].decode()))
    return got.decode(errors="replace")


def secret_in(text):
    if SECRET not in text:
        raise LookupError("the answer has no secret")
    return "the secret"


# --- the API, at agent.sock ---------------------------------------------------

VICTIM = "/v1/fs/content?agent=victim&path=secret"


@attempt
def another_agents_files():
    return secret_in(ask(C["sock"], "GET", VICTIM, C["token"]))


@attempt
def another_agent_twice_in_the_query():
    return secret_in(ask(C["sock"], "GET", "/v1/fs/content?agent=%s&path=secret&agent=victim" % C["me"], C["token"]))


@attempt
def another_agents_path():
    return secret_in(ask(C["sock"], "GET", "/v1/fs/content?path=/agents/victim/workspace/secret", C["token"]))


@attempt
def another_agent_in_the_body():
    name = "d%d" % time.monotonic_ns()
    return ask(C["sock"], "POST", "/v1/fs/mkdir", C["token"], {"agent": "victim", "path": name}).split("\r\n")[0]


@attempt
def another_agents_token():
    """The id of another's token with a secret of one's own."""
    theirs, mine = C["id_of_another"], C["token"]
    return secret_in(ask(C["sock"], "GET", "/v1/fs/content?path=secret", "warren_%s_%s" % (theirs, mine.split("_", 2)[2])))


@attempt
def no_token():
    return secret_in(ask(C["sock"], "GET", VICTIM, C["no_token"]))


@attempt
def a_revoked_token():
    return ask(C["sock"], "GET", "/v1/fs/list?path=.", C["revoked"])[:15]


@attempt
def the_administrators_verbs():
    return ask(C["verbs"], "POST", "/v1/tokens", C["token"], {"agent": "victim", "ttl": "1s"})[:15]


@attempt
def the_admin_socket():
    tried = []
    here = os.path.dirname(C["sock"])
    for p in (C["admin"], here + "/admin/admin.sock", here + "/../admin/admin.sock", "/run/warren/admin/admin.sock"):
        try:
            return ask(p, "GET", "/v1/status", None)[:15]
        except OSError as e:
            tried.append(str(e))
    raise PermissionError("; ".join(tried))


@attempt
def the_admin_socket_by_a_link():
    """A symlink in the view, as another that follows it would be led by one."""
    link = C["work"] + "/socket%d" % time.monotonic_ns()
    os.symlink(C["admin"], link)
    return ask(link, "GET", "/v1/status", None)[:15]


# --- processes -----------------------------------------------------------------

def suspects():
    """The daemon by its number on the host, and whatever bears its name."""
    out = [C["daemon"], os.getppid(), 1]
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(p) != os.getpid() and "under-test" in open("/proc/%s/comm" % p).read():
                out.append(int(p))
        except OSError:
            pass
    return out


def each(pids, f):
    errs = []
    for pid in pids:
        try:
            return "%s of %d" % (f(pid), pid)
        except (OSError, LookupError) as e:
            errs.append("%d: %s" % (pid, e))
    raise PermissionError("; ".join(errs)[:200])


@attempt
def a_signal_to_the_daemon():
    os.kill(C["daemon"], 0)
    if "under-test" not in open("/proc/%d/comm" % C["daemon"]).read():
        raise LookupError("that is another process")
    return "it could be ended"


@attempt
def ptrace_the_daemon():
    return child(lambda: each([C["daemon"]], lambda pid: call("ptrace", 0x4206, pid, 0, 0)))  # PTRACE_SEIZE


@attempt
def the_daemons_memory():
    return each([C["daemon"]], lambda pid: len(open("/proc/%d/maps" % pid).read()) and os.open("/proc/%d/mem" % pid, os.O_RDONLY) and "memory")


@attempt
def a_descriptor_of_the_daemon():
    def get(pid):
        pidfd = os.pidfd_open(pid)
        for n in range(3, 200):
            try:
                fd = call("syscall", ctypes.c_long(438), pidfd, n, 0)  # pidfd_getfd
            except OSError as e:
                if e.errno == 9:
                    continue
                raise
            return "descriptor %d, %s," % (n, os.readlink("/proc/self/fd/%d" % fd))
        raise LookupError("it has none")
    return each([C["daemon"]], get)


@attempt
def proc_root():
    pids = [int(p) for p in os.listdir("/proc") if p.isdigit()] + [C["daemon"]]
    return each(pids, lambda pid: hunt("/proc/%d/root" % pid))


@attempt
def proc_cwd_and_descriptors():
    def look(pid):
        for link in ["cwd"] + ["fd/" + n for n in os.listdir("/proc/%d/fd" % pid)]:
            d = "/proc/%d/%s" % (pid, link)
            for up in ("", "/..", "/../..", "/../../.."):
                try:
                    return hunt(d + up)
                except LookupError:
                    pass
        raise LookupError("nothing")
    return each([int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()], look)


@attempt
def an_inherited_descriptor():
    """A directory of another mount that somebody left open on descriptor 9."""
    fd = os.open("agents/victim/workspace/secret", os.O_RDONLY, dir_fd=9)
    return secret_in(os.read(fd, 100).decode())


# --- namespaces and mounts --------------------------------------------------------

def child(f):
    """Does f in a child, whose namespaces nobody else has."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                out = [True, str(f())]
            except BaseException as e:
                out = [False, "%s: %s" % (type(e).__name__, e)]
            os.write(w, json.dumps(out).encode())
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r) as pipe:
        worked, what = json.load(pipe)
    os.waitpid(pid, 0)
    if not worked:
        raise PermissionError(what)
    return what


def user_namespace():
    """Root in a user and mount namespace of one's own, if that can be had."""
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", 0x10000000 | 0x20000)
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write("0 %d 1" % uid)
    open("/proc/self/gid_map", "w").write("0 %d 1" % gid)


def both_ways(f):
    """Does f as it is, and as root of a user namespace. What it mounts and unmounts
    nobody else sees."""
    def apart():
        try:
            call("unshare", 0x20000)
            mount(None, "/", None, MS_REC | MS_PRIVATE)
        except OSError:
            pass
        return f()
    try:
        return child(apart)
    except PermissionError as plain:
        def g():
            user_namespace()
            return f()
        try:
            return child(g)
        except PermissionError as e:
            raise PermissionError("%s; in a user namespace: %s" % (plain, e))


@attempt
def setns():
    def enter(pid):
        fd = os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY)
        call("unshare", 0x200)  # CLONE_FS
        call("setns", fd, 0x20000)
        return hunt()
    return both_ways(lambda: each(suspects(), enter))


@attempt
def setns_by_pidfd():
    def enter(pid):
        fd = os.pidfd_open(pid)
        call("unshare", 0x200)
        call("setns", fd, 0x20000)
        return hunt()
    return both_ways(lambda: each(suspects(), enter))


@attempt
def bind_the_root():
    def bind():
        d = scratch()
        mount("/", d, None, MS_BIND | MS_REC)
        return hunt(d)
    return both_ways(bind)


@attempt
def bind_what_is_above():
    def bind():
        d = scratch()
        mount(C["above"] + "/..", d, None, MS_BIND | MS_REC)
        for base in (d, d + "/..", d + "/" + C["beside"]):
            for p in ("/agents/victim/workspace/secret", "/victim/agents/victim/workspace/secret"):
                try:
                    return secret_in(open(base + p).read())
                except (OSError, LookupError):
                    pass
        raise LookupError("it is bound, and there is nothing")
    return both_ways(bind)


@attempt
def unmount_what_covers():
    """Takes mounts away, one after the other, and looks what was below."""
    def away():
        covers = [line.split()[4] for line in open("/proc/self/mountinfo")]
        for d in reversed(C.get("covers") or covers):
            try:
                call("umount2", d.encode(), 2)
            except OSError:
                continue
            try:
                return hunt()
            except LookupError:
                pass
        raise LookupError("nothing comes to light")
    return both_ways(away)


@attempt
def remount_read_write():
    """The view at ro is mounted read-only."""
    def again():
        for flags in (MS_REMOUNT, MS_REMOUNT | MS_BIND, MS_REMOUNT | MS_NOSUID | MS_NODEV, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV):
            try:
                mount(None, C["ro"], None, flags)
            except OSError:
                pass
        with open("%s/agents/%s/workspace/w%d" % (C["ro"], C["me"], time.monotonic_ns()), "w") as f:
            f.write("x")
        return "written"
    return both_ways(again)


@attempt
def chroot_out():
    def out():
        os.chroot(scratch())
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        return hunt()
    return both_ways(out)


def by_handle(handle, at):
    fd = call("open_by_handle_at", os.open(at, os.O_RDONLY), bytes.fromhex(handle), os.O_RDONLY)
    return secret_in(os.read(fd, 100).decode())


@attempt
def a_file_handle():
    """A file of the host by its handle, which no path leads to."""
    return both_ways(lambda: by_handle(C["handle"], C["above"]))


@attempt
def a_node_by_its_handle():
    """Another's file in one's own view, by the handle that it has in Gaia's."""
    return both_ways(lambda: by_handle(C["node_handle"], C["work"]))


@attempt
def abort_anothers_connection():
    def abort():
        d = C["fusectl"] or scratch()
        if not C["fusectl"]:
            mount("fusectl", d, "fusectl", 0)
        with open("%s/%d/abort" % (d, C["connection"]), "w") as f:
            f.write("1")
        return "cut off"
    return both_ways(abort)


# --- /dev/fuse ---------------------------------------------------------------------

def hand_over(fd, agent):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(C["sock"])
    body = json.dumps({"agent": agent, "dir": "/m", "uid": os.geteuid(), "gid": os.getegid()})
    s.sendall(("POST /v1/mounts/handover HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: warren-mount\r\n"
               "Content-Length: %d\r\n\r\n%s" % (C["token"], len(body), body)).encode())
    head = s.recv(4096)
    if b" 101 " not in head:
        raise PermissionError(head.split(b"\r\n\r\n", 1)[-1][:120].decode())
    s.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    out = json.loads(s.makefile().read())
    if "mount" not in out:
        raise PermissionError(out["failed"]["error"])
    return out["mount"]["id"]


@attempt
def the_fuse_device():
    """Opens it, mounts, and asks for another agent's view."""
    def make():
        d = scratch()
        fd = os.open("/dev/fuse", os.O_RDWR)
        mount("x", d, "fuse", MS_NOSUID | MS_NODEV, "fd=%d,rootmode=40000,user_id=%d,group_id=%d,default_permissions,max_read=1048576" % (fd, os.geteuid(), os.getegid()))
        hand_over(fd, "victim")
        text = open(d + "/agents/victim/workspace/secret").read()
        call("umount2", d.encode(), 2)
        return secret_in(text)
    return both_ways(make)


@attempt
def the_descriptor_of_anothers_mount():
    """Descriptor 8 is /dev/fuse of a mount that another made."""
    return "served as " + hand_over(8, C["me"])


# --- files in the view ----------------------------------------------------------------

def as_user(uid, f):
    def g():
        if os.geteuid() != uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        return f()
    return child(g)


def listed(d):
    names = os.listdir(d)
    if "agents" not in names:
        raise LookupError("there is no view")
    return names


@attempt
def another_users_mount():
    """Another uid of the host in a mount that was not made for it."""
    return as_user(C["other_uid"], lambda: listed(C["view"]))


@attempt
def a_device_node():
    def node():
        p = "%s/zero%d" % (C["devices"], time.monotonic_ns())
        try:
            os.mknod(p, 0o20666, os.makedev(1, 5))
        except OSError:
            p = C["device_there"]
        return os.read(os.open(p, os.O_RDONLY), 4).hex()
    return both_ways(node)


@attempt
def a_setuid_program():
    """cat of root's, set-uid, on a file that only root may read; not as root."""
    def run():
        r, w = os.pipe()
        if os.fork() == 0:
            try:
                os.dup2(w, 1)
                os.execv(C["suid"], ["cat", C["roots_own"]])
            finally:
                os._exit(127)
        os.close(w)
        return secret_in(os.fdopen(r).read())
    return as_user(C["plain_uid"], run)


@attempt
def a_setuid_program_of_ones_own():
    """The same, of a program that one made set-uid oneself, in the view."""
    p = "%s/cat%d" % (C["devices"], time.monotonic_ns())
    shutil.copy("/usr/bin/cat", p)
    os.chmod(p, 0o4755)
    C["suid"] = p
    return a_setuid_program()


def main():
    out = {}
    for name, f in TABLE.items():
        if name in C["skip"] or C["only"] and name not in C["only"]:
            continue
        try:
            out[name] = [True, str(f())]
        except Exception as e:
            out[name] = [False, "%s: %s" % (type(e).__name__, e)]
    print(json.dumps(out))


main()
