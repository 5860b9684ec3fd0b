"""Reads the bakery's oven once a second and logs it. It only looks, so a call that is not answered may be made again."""

import signal
import sys
import time

sys.path.insert(0, "lib")
from mqtt5 import Caller, Refused  # noqa: E402


def leave(*_):
    print("left")
    sys.exit(0)


signal.signal(signal.SIGTERM, leave)
caller = Caller()
print(f"polling as {caller.name}")
while True:
    try:
        oven = caller.call("bakery", "oven", "read")
        print(time.strftime("%H:%M:%S"), f"{oven['celsius']} degrees, {oven['mode']}")
    except Refused as refusal:
        print(refusal, file=sys.stderr)
    time.sleep(1)
