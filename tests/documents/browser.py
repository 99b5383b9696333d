"""A browser without a window, to look at pages: Chromium or Chrome, such as Debian's ``chromium``.

It is driven by its DevTools protocol over a pipe, which needs no port and no package of Python.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from typing import Any, Final, Self

PROGRAM: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
"""Path of the browser; None if there is none."""
# Without a sandbox, because root in a container has none. The pages are ours.
_OPTIONS: Final = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")
_PROBLEMS: Final = r"""
(() => {
  const found = [], width = document.documentElement.clientWidth;
  const probe = document.createElement("p");
  probe.style.background = "Canvas";
  document.body.append(probe);
  const canvas = getComputedStyle(probe).backgroundColor;
  probe.remove();
  const parts = color => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = (top, below, opacity = 1) =>
    top.slice(0, 3).map((c, i) => c * top[3] * opacity + below[i] * (1 - top[3] * opacity));
  const light = rgb => {
    const [r, g, b] = rgb.map(c => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + .05) / (low + .05);
  };
  const below = parts(canvas);
  for (const element of document.body.querySelectorAll("*"))
    if (element.tagName != "STYLE" && element.getBoundingClientRect().right > width + 1)
      found.push(`${element.tagName} is wider than the page`);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; node = texts.nextNode();) {
    const element = node.parentElement, range = document.createRange();
    if (element.tagName == "STYLE" || !node.data.trim()) continue;
    range.selectNodeContents(node);
    if ([...range.getClientRects()].some(r => r.right > width + 1 || r.left < 0))
      found.push(`outside of the page: ${node.data.slice(0, 40)}`);
    if (element.tagName == "TH" && !/\s/.test(node.data) && range.getClientRects().length > 1)
      found.push(`a line breaks inside of a heading: ${node.data}`);
    let opacity = 1;
    for (let e = element; e; e = e.parentElement) opacity *= getComputedStyle(e).opacity;
    const ratio = contrast(over(parts(getComputedStyle(element).color), below, opacity), below);
    if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(1)}: ${node.data.slice(0, 40)}`);
  }
  const background = css => {
    const element = document.querySelector(css);
    return element && over(parts(getComputedStyle(element).backgroundColor), below);
  };
  const read = background("i.read"), other = background("i:not(.read)");
  if (read && other && contrast(read, other) < 3) found.push("parts of a bar look the same");
  return {found, dark: light(below.slice(0, 3)) < .2, texts: document.body.innerText.length};
})()
"""


class Browser:
    """One browser with one page."""

    def __enter__(self) -> Self:
        assert PROGRAM, "there is no browser: apt-get install chromium"
        with ExitStack() as ending:
            profile = ending.enter_context(tempfile.TemporaryDirectory("browser"))
            commands, self._commands = os.pipe()
            ending.callback(os.close, self._commands)
            answers, writes = os.pipe()
            # The browser reads from descriptor 3, and writes to 4.
            shell = f'exec "$0" "$@" 3<&{commands} 4>&{writes} 2>/dev/null'
            started = ["bash", "-c", shell, PROGRAM, *_OPTIONS, f"--user-data-dir={profile}"]
            process = subprocess.Popen(started, pass_fds=(commands, writes))
            self._process = ending.enter_context(process)
            ending.callback(process.kill)
            os.close(commands)
            os.close(writes)
            self._answers = ending.enter_context(os.fdopen(answers, "rb"))
            self._number, self._session, self._pending = 0, "", b""
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._session = ""
        self._call("Browser.close")
        self._process.wait()
        self._ending.close()

    def show(self, html: str, *, width: int, dark: bool) -> None:
        """Show a page in a window of ``width`` pixels."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": False},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        frame = self._call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        self._call("Page.setDocumentContent", frameId=frame, html=html)

    def problems(self) -> dict[str, Any]:
        """Return what overflows or has little contrast, and whether the page is dark."""
        result = self._call("Runtime.evaluate", expression=_PROBLEMS, returnByValue=True)["result"]
        found: dict[str, Any] = result["value"]
        return found

    def picture(self) -> bytes:
        """Return the whole page as PNG."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        evaluated = "Math.ceil(document.body.getBoundingClientRect().bottom + 16)"
        height = self._call("Runtime.evaluate", expression=evaluated)["result"]["value"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1}
        taken = self._call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(taken["data"])

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while True:
            answer = self._answer()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _answer(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            received = self._answers.read1(1 << 16)
            assert received, "the browser has ended"
            self._pending += received
        text, _, self._pending = self._pending.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer
