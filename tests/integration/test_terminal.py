"""The output on a real terminal: a bar that moves, lines above it, and colours only if they are wanted."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

from command import DEADLINE, MAIN, TINY, environment

ERASE = "\r\x1b[K"
YELLOW = "\x1b[0;33m"


def on_a_terminal(*flags, columns: int = 100, **variables) -> str:
    """Returns everything that the program writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([str(MAIN), *flags], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                               env=environment({"TERM": "xterm", **variables}))
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the last writer is gone
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert process.wait(DEADLINE) == 0, text.decode()
    return text.decode().replace("\r\n", "\n")


def test_a_bar_that_fits_with_lines_above_it(few_images, tmp_path):
    flags = (*TINY, "--eval_every_epochs=1", f"--data_dir={few_images}", "--epochs=2", "--log_interval=2", "--lr=0.001")
    text = on_a_terminal(*flags, f"--run_dir={tmp_path / 'run'}")
    drawn = [piece.split("\n")[0] for piece in text.split(ERASE)[1:]]
    bars = [piece for piece in drawn if re.match(r"epoch \d\.\d\d .*% \d+/5", piece)]
    assert bars and all(len(bar) < 100 for bar in bars)
    assert re.search(r"epoch \d\.\d\d (\[[#.]+\] )? *\d+% \d/5 [\d.]+ img/s loss \d\.\d{4} top1 \d+\.\d\d (lr \S+ )?data \d+% eta", text)
    assert any(piece.startswith("evaluating [") for piece in drawn)
    # The permanent lines have the training loss, and the last two stand alone.
    assert re.search(r"\x1b\[Kepoch 2 took [\d.]+ s, at step 5: loss \d\.\d{4} top1 \d+\.\d\d\n", text)
    assert re.search(r"\nbest top1 [^\n]*\nval_top1=[^\n]*\n$", text)


def test_warnings_come_above_the_bar_in_colour_unless_it_is_unwanted(few_images, tmp_path):
    flags = (*TINY, f"--data_dir={few_images}", "--max_steps=2", "--precision=bf16")
    text = on_a_terminal(*flags, f"--run_dir={tmp_path / 'run'}")
    assert YELLOW in text and "--precision=bf16 is for GPUs" in text
    text = on_a_terminal(*flags, f"--run_dir={tmp_path / 'run2'}", NO_COLOR="1")
    assert "--precision=bf16 is for GPUs" in text and not re.search(r"\x1b\[[0-9;]*m", text)
