# A stranger on the files of a chamber: the sqlite3 of Python, which knows nothing of gatewayd and takes POSIX locks.
# It says what it does in the same lines as the roles of the program, and keeps a ledger like theirs.
import json, os, random, signal, sqlite3, sys, time

told = json.loads(sys.argv[1])
store, tag, busy = told["Role"].startswith("py-store"), told["Tag"], told.get("Busy", False)
path = os.path.join(told["Home"], "state.db" if store else "kanban.db")
running = True
draw = random.Random(told["Seed"])
waits = 0


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def connect():
    db = sqlite3.connect(path, timeout=1 if busy else 60, isolation_level=None)
    # The checkpoints are gatewayd's: this library may be one of those that can lose frames when a log begins anew.
    db.execute("PRAGMA wal_autocheckpoint=0")
    # An index of state.db counts bytes with a function that SQLite has since 3.43; an older one must be given it.
    db.create_function("octet_length", 1, lambda text: len(text.encode()), deterministic=True)
    db.execute("PRAGMA synchronous=FULL")
    return db


# A lock may be waited out in rollback mode, where readers and writers exclude each other.
def through(work):
    global waits
    end = time.time() + 90
    while True:
        try:
            return work()
        except sqlite3.OperationalError as e:
            if not busy or not ("locked" in str(e)) or time.time() > end:
                raise
            waits += 1
            time.sleep(0.02)


class Ledger:
    def __init__(self):
        name = "%s-%s-%d.ledger" % ("store" if store else "board", tag, os.getpid())
        self.file = os.open(os.path.join(told["Home"], "ledgers", name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self.n = 0

    def line(self, text):
        os.write(self.file, text.encode())
        os.fsync(self.file)

    def intend(self, where):
        self.n += 1
        token = "TK%sx%dx%d" % (tag.replace("-", ""), os.getpid(), self.n)
        self.line("I %s %s %d\n" % (token, where, self.n))
        return token

    def ack(self, token):
        self.line("A %s\n" % token)
        say(event="acked", count=1)


def transaction(db, work):
    def once():
        db.execute("BEGIN IMMEDIATE")
        try:
            work()
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    through(once)


def write_message(db, ledger, role):
    now = int(time.time() * 1e6)
    token = ledger.intend(tag)

    def work():
        db.execute("INSERT OR IGNORE INTO sessions(id, source, opened_at, last_active) VALUES(?, 'chamber', ?, ?)", (tag, now, now))
        db.execute("""INSERT INTO messages(id, uid, session_id, origin_id, role, content, created_at)
            SELECT n, ?, ?, n, ?, ?, ? FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) + 1 AS n)""",
                   (token, tag, role, token + " from a stranger", now))
        db.execute("""UPDATE sessions SET message_count = message_count + 1, last_active = ?,
            preview = CASE WHEN preview = '' AND ? = 'user' THEN ? ELSE preview END WHERE id = ?""", (now, role, token + " from a stranger", tag))
    transaction(db, work)
    ledger.ack(token)


def write_card(db, ledger, _):
    now = int(time.time())
    token = ledger.intend("cards")

    def work():
        db.execute("INSERT INTO tasks(id, title, status, created_at) VALUES(?, ?, 'triage', ?)", (token, token + " from a stranger", now))
        db.execute("INSERT INTO task_events(task_id, kind, payload, created_at) VALUES(?, 'created', '{}', ?)", (token, now))
    transaction(db, work)
    ledger.ack(token)


def writer():
    ledger = Ledger()
    db = through(connect)
    say(event="ready", mode=through(lambda: db.execute("PRAGMA journal_mode").fetchone()[0]))
    work = write_message if store else write_card
    # A conversation goes on where a killed process of this tag left it.
    asked = through(lambda: db.execute("SELECT role FROM messages WHERE session_id = ? ORDER BY id DESC LIMIT 1", (tag,)).fetchone()) if store else None
    turn = 1 if asked and asked[0] == "user" else 0
    while running:
        work(db, ledger, ("user", "assistant")[turn % 2])
        turn += 1
        time.sleep(draw.uniform(0.002, 0.01) + (0.02 if busy else 0))
        if turn % 25 == 0:  # now and then it goes and comes back
            db.close()
            db = through(connect)
    db.close()


def reader():
    seen = 0
    say(event="ready")
    table = "messages" if store else "tasks"
    while running:
        db = through(connect)
        for _ in range(5):
            now = through(lambda: db.execute("SELECT count(*) FROM " + table).fetchone()[0])
            if now < seen:
                raise RuntimeError("%s had %d rows, has %d" % (table, seen, now))
            seen = now
            say(event="read", count=now)
            time.sleep(0.01)
        db.close()


try:
    reader() if told["Role"].endswith("reader") else writer()
    say(event="ended", count=waits)
except BaseException as e:
    say(event="error", **{"class": "busy" if "locked" in str(e) else type(e).__name__}, text=str(e))
    sys.exit(1)
