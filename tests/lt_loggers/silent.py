"""A server that accepts connections and need not answer: of MLflow's interface, and enough for a client to wait for."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """A tracking server in memory.

    Args:
        silent_at: a call (``"runs/create"``) at which it falls silent, until :attr:`talks` is set again.

    Attributes:
        points: metrics that came: name, step.
        params, statuses, calls: the same of others.
    """

    def __init__(self, silent_at=""):
        self.talks = threading.Event()
        self.talks.set()
        self.silent_at = silent_at
        self.points, self.params, self.statuses, self.calls = [], {}, [], []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"mine": self}))
        self.http.daemon_threads = True
        self.http.block_on_close = False
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def close(self):
        self.talks.set()
        self.http.shutdown()
        self.http.server_close()

    def answer(self, call, body):
        self.calls.append(call)
        if call == self.silent_at:
            self.talks.clear()
        self.talks.wait()
        if call == "runs/log-batch":
            self.points += [(metric["key"], metric["step"]) for metric in body.get("metrics", [])]
            self.params |= {param["key"]: param["value"] for param in body.get("params", [])}
        if call == "runs/update":
            self.statuses.append(body["status"])
        info = {"run_id": "r1", "experiment_id": "7", "lifecycle_stage": "active", "start_time": 1}
        run = {"run": {"info": info, "data": {}}}
        experiment = {"experiment_id": "7", "name": "all", "lifecycle_stage": "active"}
        found = {"experiments/get-by-name": {"experiment": experiment}, "runs/create": run, "runs/get": run}
        return found.get(call, {"run_info": info})


class Handler(BaseHTTPRequestHandler):
    """Hands a call of MLflow's interface to its server."""

    protocol_version = "HTTP/1.1"
    mine = None

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        content = json.dumps(self.mine.answer(self.path.partition("?")[0].partition("mlflow/")[2], body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PATCH = do_POST

    def log_message(self, *args):
        """Say nothing."""
