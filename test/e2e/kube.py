"""A small client of the Kubernetes API for tests: one kept-open HTTPS connection per thread, JSON in and out."""

import http.client
import json
import ssl
import threading

TEST_AGENT = "berth-test"  # our User-Agent, by which the server's log tells us from Berth


class ApiError(Exception):
    """The server's refusal; status is the HTTP status."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class Kube:
    def __init__(self, port, ca_file, token, agent=TEST_AGENT):
        self._port, self._ca_file, self._token, self._agent = port, ca_file, token, agent
        self._context = ssl.create_default_context(cafile=ca_file)
        self._local = threading.local()

    def with_token(self, token):
        """The same server for somebody else."""
        return Kube(self._port, self._ca_file, token, self._agent)

    def _connection(self):
        if getattr(self._local, "connection", None) is None:
            self._local.connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30, context=self._context)
        return self._local.connection

    def request(self, method, path, body=None, content_type="application/json"):
        headers = {"Authorization": "Bearer " + self._token, "Content-Type": content_type, "User-Agent": self._agent}
        data = None if body is None else json.dumps(body)
        for last in (False, True):
            try:
                connection = self._connection()
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                text = response.read()
                break
            except (OSError, http.client.HTTPException):
                # The server may have closed an idle connection, or been restarted. Only a read is safe to repeat.
                self._local.connection = None
                if last or method != "GET":
                    raise
        value = json.loads(text) if text.startswith(b"{") else text.decode()
        if response.status >= 300:
            raise ApiError(response.status, value["message"] if isinstance(value, dict) else value)
        return value

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def patch(self, path, body, content_type="application/merge-patch+json"):
        return self.request("PATCH", path, body, content_type)

    def delete(self, path, body=None):
        return self.request("DELETE", path, body)

    def find(self, path):
        """The object, or None when there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
