"""Page: one page in a real Chromium, headless, driven by DevTools over a pair of pipes.

    with Page(url) as page:
        page.js("document.title")      what an expression is in the page
        page.key("j")                  a key, as from a keyboard
        page.resize(360, 740)          another screen
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from lab import Skip

PATIENCE = 60  # seconds for one answer
CODES = {"Tab": 9, "Escape": 27}  # for what the browser itself does with them


class Page:
    def __init__(self, url, width=1180, height=1010):
        if not shutil.which("chromium"):
            raise Skip("chromium is not installed: test/install-packages")
        self.directory = tempfile.mkdtemp(prefix="berth-browser-")
        # With --remote-debugging-pipe it reads commands from 3 and writes answers to 4, each ended by a NUL.
        its_in, self.out = os.pipe()
        self.back, its_out = os.pipe()
        words = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
                 "--remote-debugging-pipe", f"--user-data-dir={self.directory}/profile", f"--window-size={width},{height}", "about:blank"]
        with open(f"{self.directory}/said", "wb") as said:
            self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{its_in} 4>&{its_out}', "bash", *words], pass_fds=(its_in, its_out),
                                            stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, "HOME": self.directory},
                                            start_new_session=True)
        os.close(its_in)
        os.close(its_out)
        self.heard, self.number, self.session = b"", 0, None
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.resize(width, height)
            self.call("Page.navigate", url=url)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self.out)  # it leaves when nobody is there to command it
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.back)
        shutil.rmtree(self.directory, ignore_errors=True)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            text, end, rest = self.heard.partition(b"\0")
            if end:
                self.heard = rest
                answer = json.loads(text)
                if answer.get("id") == self.number:
                    assert "error" not in answer, (method, answer["error"])
                    return answer["result"]
                continue
            ready, _, _ = select.select([self.back], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.back, 1 << 20) if ready else b""
            if not more:
                with open(f"{self.directory}/said", encoding="utf-8", errors="replace") as said:
                    raise AssertionError(f"Chromium does not answer to {method}: {said.read()[-2000:]}")
            self.heard += more

    def js(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, (expression, done["exceptionDetails"])
        return done["result"].get("value")

    def text(self, selector):
        """What stands in the elements that match, one string each."""
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map(each => each.textContent)")

    def key(self, key):
        words = {"key": key, **({"windowsVirtualKeyCode": CODES[key]} if key in CODES else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown" if len(key) == 1 else "rawKeyDown", **words, **({"text": key} if len(key) == 1 else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
