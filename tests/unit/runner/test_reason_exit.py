"""Why a part failed, from real transcripts: Python, PyTorch, TensorFlow, JAX, bash, dash, zsh."""

from __future__ import annotations

import dataclasses
import signal
import time

import pytest

from stoker.runner.protocol import Incarnation, Launch
from stoker.runner.reason import explain_exit

EXACT = Launch(
    attempt="a1",
    rank=0,
    epoch=1,
    number=1,
    incarnation=Incarnation("boot", "spool"),
    task="17",
    node="node-a",
    workdir="/home/ana",
    argv=["python", "train.py"],
)
SHELL = dataclasses.replace(EXACT, argv=[], shell="python train.py")

TORCH_2 = """\
epoch 3: 100%|██████████| 391/391 [00:41<00:00,  9.51it/s]
Traceback (most recent call last):
  File "/home/ana/project/train.py", line 212, in <module>
    main()
  File "/home/ana/project/train.py", line 97, in main
    loss.backward()
  File "/opt/conda/lib/python3.11/site-packages/torch/_tensor.py", line 626, in backward
    torch.autograd.backward(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total \
capacity of 23.65 GiB of which 1.06 GiB is free. Process 4711 has 22.58 GiB memory in use. Of the \
allocated memory 21.02 GiB is allocated by PyTorch, and 1.11 GiB is reserved by PyTorch but \
unallocated. If reserved but unallocated memory is large try setting \
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for \
Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)
"""
TORCH_1 = """\
  File "/opt/conda/lib/python3.8/site-packages/torch/nn/functional.py", line 1847, in linear
    return torch._C._nn.linear(input, weight, bias)
RuntimeError: CUDA out of memory. Tried to allocate 734.00 MiB (GPU 1; 10.76 GiB total capacity; \
8.79 GiB already allocated; 441.44 MiB free; 9.24 GiB reserved in total by PyTorch)
"""
TORCH_RANKS = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/ana/ddp.py", line 64, in <module>
[rank1]:     out = model(x)
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/ana/ddp.py", line 66, in <module>
[rank0]:     dist.all_reduce(loss)
[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.
W1115 21:40:03.123 4711 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4713 closing signal SIGTERM
E1115 21:40:03.456 4711 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 4714) of binary: /opt/conda/bin/python
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 33, in <module>
    sys.exit(load_entry_point('torch==2.5.1', 'console_scripts', 'torchrun')())
  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
ddp.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-15_21:40:03
  host      : node-a
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 4714)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
TORCHRUN_KILLED = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
========================================================
train.py FAILED
--------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
--------------------------------------------------------
Root Cause (first observed failure):
[0]:
  exitcode  : -9 (pid: 31337)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 31337
========================================================
"""
TENSORFLOW = """\
2026-11-15 21:40:03.220141: W tensorflow/core/common_runtime/bfc_allocator.cc:497] *****************xxx
2026-11-15 21:40:03.220187: W tensorflow/core/framework/op_kernel.cc:1818] OP_REQUIRES failed at conv_ops.cc:1146 : RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[256,512,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc
Traceback (most recent call last):
  File "/home/ana/tf/fit.py", line 31, in <module>
    model.fit(ds, epochs=5)
  File "/opt/conda/lib/python3.10/site-packages/tensorflow/python/eager/execute.py", line 52, in quick_execute
    tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle, device_name, op_name,
tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:

Detected at node 'model/conv2d/Conv2D' defined at (most recent call last):
    File "/home/ana/tf/fit.py", line 31, in <module>
      model.fit(ds, epochs=5)
Node: 'model/conv2d/Conv2D'
OOM when allocating tensor with shape[256,512,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc
\t [[{{node model/conv2d/Conv2D}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info.
 [Op:__inference_train_function_4242]
"""
JAX = """\
jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames from the traceback of the following exception. Set JAX_TRACEBACK_FILTERING=off to include these.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/ana/jax/train.py", line 12, in <module>
    y = step(params, batch)
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:   12.00GiB
              constant allocation:         0B
"""
CPP = """\
terminate called after throwing an instance of 'c10::OutOfMemoryError'
  what():  CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 7.79 GiB
Exception raised from malloc at ../c10/cuda/CUDACachingAllocator.cpp:1176 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f1c in libc10.so)
"""
MODULE = """\
Traceback (most recent call last):
  File "/home/ana/project/train.py", line 3, in <module>
    import torchvision.models as models
ModuleNotFoundError: No module named 'torchvision'
"""
DISK = """\
Traceback (most recent call last):
  File "/opt/conda/lib/python3.11/site-packages/torch/serialization.py", line 850, in save
    _save(
RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 80, in <module>
    torch.save(model.state_dict(), "/data/ckpt/last.pt")
OSError: [Errno 28] No space left on device: '/data/ckpt/last.pt'
"""


def why(text: str, code: int = 1, launch: Launch = EXACT) -> tuple[str, str]:
    return explain_exit(code, None, text.encode(), 0, launch)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TORCH_2, ("gpu_memory", "20.00 GiB")),
        (TORCH_1, ("gpu_memory", "734.00 MiB")),
        (TORCH_RANKS, ("gpu_memory", "2.00 GiB")),
        (TENSORFLOW, ("gpu_memory", "")),
        (JAX, ("gpu_memory", "17179869184 bytes")),
        ("RuntimeError: CUDA error: out of memory\n", ("gpu_memory", "")),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED\n", ("gpu_memory", "")),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n", ("gpu_memory", "")),
        ("GPUassert: cudaErrorMemoryAllocation kernel.cu 40\n", ("gpu_memory", "")),
        ("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 0 bytes).\n", ("gpu_memory", "")),
        ("torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 6.25 GiB. GPU 0\n", ("gpu_memory", "6.25 GiB")),
        ("node-a:99:99 [0] transport/p2p.cc:273 NCCL WARN Cuda failure 'out of memory'\n", ("gpu_memory", "")),
        (MODULE, ("module_missing", "torchvision")),
        (
            "python: can't open file '/home/ana/trian.py': [Errno 2] No such file or directory\n",
            ("file_missing", "/home/ana/trian.py"),
        ),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    open("x")\n'
            "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.npy'\n",
            ("file_missing", "data/x.npy"),
        ),
        ("/usr/bin/python3: No module named accelerate\n", ("module_missing", "accelerate")),
        ("/opt/conda/bin/python3.11: Error while finding module specification for 'torch.distributed.run' (ModuleNotFoundError: No module named 'torch')\n", ("module_missing", "torch")),
        ("ImportError: No module named yaml\n", ("module_missing", "yaml")),
        (DISK, ("disk_full", "/data/ckpt/last.pt")),
        ("bash: line 1: echo: write error: No space left on device\n", ("disk_full", "")),
        ("OSError: [Errno 122] Disk quota exceeded: 'runs/17/events.out'\n", ("disk_quota", "runs/17/events.out")),
        ("npm ERR! code ENOSPC\n", ("disk_full", "")),
        ("Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nMemoryError\n", ("host_memory", "")),
        ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 29.1 GiB for an array with shape (62500, 62500) and data type float64\n", ("host_memory", "29.1 GiB")),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000 bytes. Error code 12 (Cannot allocate memory)\n", ("host_memory", "400000000000 bytes")),
        ("OSError: [Errno 12] Cannot allocate memory\n", ("host_memory", "")),
        ("PermissionError: [Errno 13] Permission denied: '/data/shared/model.pt'\n", ("permission_denied", "/data/shared/model.pt")),
        ("cp: cannot create regular file '/data/x': Permission denied\n", ("permission_denied", "/data/x")),
        (TORCHRUN_KILLED, ("killed_by_signal", "SIGKILL")),
        ("subprocess.CalledProcessError: Command '['python', 'a.py']' died with <Signals.SIGSEGV: 11>.\n", ("killed_by_signal", "SIGSEGV")),
    ],
)  # fmt: skip
def test_what_ran_out_or_is_missing(text: str, expected: tuple[str, str]) -> None:
    assert why(text) == expected


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (127, "bash: line 1: pyhton: command not found\n", ("command_not_found", "pyhton")),
        (127, "/home/ana/run.sh: line 12: nvidia-smi: command not found\n", ("command_not_found", "nvidia-smi")),
        (127, "sh: 1: pyhton: not found\n", ("command_not_found", "pyhton")),
        (127, "run.sh: 3: module: not found\n", ("command_not_found", "module")),
        (127, "zsh:1: command not found: pyhton\n", ("command_not_found", "pyhton")),
        (127, "zsh:1: no such file or directory: ./run.sh\n", ("command_not_found", "./run.sh")),
        (127, "bash: line 1: ./run.sh: No such file or directory\n", ("command_not_found", "./run.sh")),
        (127, "bash: run.sh: No such file or directory\n", ("command_not_found", "run.sh")),
        (127, "/usr/bin/env: ‘python’: No such file or directory\n", ("command_not_found", "python")),
        (127, "env: 'python': No such file or directory\n", ("command_not_found", "python")),
        (127, "nohup: failed to run command 'foo': No such file or directory\n", ("command_not_found", "foo")),
        (127, "fish: Unknown command: pyhton\n", ("command_not_found", "pyhton")),
        (127, "bash: ./a.sh: /opt/py/bin/python: bad interpreter: No such file or directory\n", ("interpreter_missing", "/opt/py/bin/python")),
        (127, "bash: line 1: ./a.sh: cannot execute: required file not found\n", ("interpreter_missing", "./a.sh")),
        (126, "bash: line 1: ./run.sh: Permission denied\n", ("not_executable", "./run.sh")),
        (126, "sh: 1: ./run.sh: Permission denied\n", ("not_executable", "./run.sh")),
        (126, "zsh:1: permission denied: ./run.sh\n", ("not_executable", "./run.sh")),
        (126, "bash: line 1: /tmp: Is a directory\n", ("not_executable", "/tmp")),
        (126, "env: ‘./run.sh’: Permission denied\n", ("not_executable", "./run.sh")),
        (126, "bash: line 1: ./prog: cannot execute binary file: Exec format error\n", ("start_failed", "./prog: cannot execute binary file: Exec format error")),
        (126, "bash: ./a.sh: /bin/nosh: bad interpreter: No such file or directory\n", ("interpreter_missing", "/bin/nosh")),
    ],
)  # fmt: skip
def test_words_of_shells(code: int, text: str, expected: tuple[str, str]) -> None:
    assert why("loading data\n" + text, code, SHELL) == expected
    assert why(text + "slurmstepd: done\n", code, SHELL) == expected


@pytest.mark.parametrize(
    ("code", "text", "detail"),
    [
        (127, "plain.sh: line 3: $'\\r': command not found\n", ""),
        (127, "plain.sh: line 1: $'foo\\r': command not found\n", "foo"),
        (127, "plain.sh: 1: foo\r: not found\n", "foo"),
        (127, "plain.sh: 3: \r: not found\n", ""),
        (127, "zsh: command not found: foo\r\n", None),
        (127, "/usr/bin/env: ‘python3\\r’: No such file or directory\n/usr/bin/env: use -[v]S to pass options in shebang lines\n", "python3"),
        (126, "-bash: ./run.sh: /bin/bash^M: bad interpreter: No such file or directory\n", "/bin/bash"),
        (2, "run.sh: line 4: syntax error near unexpected token `$'do\\r''\n", ""),
        (2, "run.sh: line 2: set: pipefail\r: invalid option name\n", "pipefail"),
        (2, "run.sh: 2: set: Illegal option -\r\n", ""),
        (2, "run.sh: line 1: cd: $'/data\\r': No such file or directory\n", "/data"),
        (2, "/usr/bin/python3: can't open file '/home/ana/train.py\\r': [Errno 2] No such file or directory\n", "/home/ana/train.py"),
    ],
)  # fmt: skip
def test_windows_line_ends(code: int, text: str, detail: str | None) -> None:
    if detail is None:  # a CR before the newline may be the terminal's own
        assert why(text, code, SHELL) == ("command_not_found", "foo")
    else:
        assert why(text, code, SHELL) == ("windows_line_ends", detail)


def test_a_progress_bar_is_not_a_script_with_windows_line_ends() -> None:
    bar = "".join(f"\r{n}%|{'#' * (n // 10)}| {n}/100" for n in range(100))
    assert why(bar + "\nbash: line 2: foo: command not found\n", 127, SHELL) == (
        "command_not_found",
        "foo",
    )
    assert why(bar + "bash: line 2: foo: command not found\n", 127, SHELL)[0] == "command_not_found"
    assert why(bar + "\n", 1) == ("", "")
    assert why(bar + "\rrun.sh: 4: foo: not found\n", 1) == ("command_not_found", "foo")


def test_a_shell_whose_words_went_to_a_file_still_tells_by_its_code() -> None:
    assert why("", 127, SHELL) == ("command_not_found", "")
    assert why("", 126, SHELL) == ("not_executable", "")
    assert why("", 127, EXACT) == ("", "")


@pytest.mark.parametrize("launch", [EXACT, SHELL])
def test_success_is_never_explained(launch: Launch) -> None:
    for text in (TORCH_2, MODULE, DISK, "bash: line 1: foo: command not found\n"):
        assert explain_exit(0, None, text.encode(), 3, launch) == ("", "")


def test_the_last_telling_line_wins() -> None:
    assert why(MODULE + TORCH_2) == ("gpu_memory", "20.00 GiB")
    assert why(TORCH_2 + MODULE) == ("module_missing", "torchvision")


OTHER = """\
Traceback (most recent call last):
  File "train.py", line 301, in <module>
    raise ValueError("label 1001 out of range")
ValueError: label 1001 out of range
"""


def test_what_was_survived_is_not_the_cause_of_a_later_failure() -> None:
    assert why(TORCH_1 + "retrying with batch size 16\nepoch 7 done\n" + OTHER) == ("", "")
    assert why(MODULE + "falling back to numpy\n" + OTHER) == ("", "")


def test_a_chained_exception_keeps_the_cause() -> None:
    text = TORCH_1 + "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert why(text + OTHER) == ("gpu_memory", "734.00 MiB")


def test_a_messenger_keeps_the_cause() -> None:
    for messenger in (
        "subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 1.",
        "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly",
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 1",
    ):
        assert why(MODULE + messenger + "\n") == ("module_missing", "torchvision")


def test_one_ranks_trouble_does_not_hide_anothers() -> None:
    text = (
        "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 2\n"
        "[rank0]: RuntimeError: Connection closed by peer\n"
    )
    assert why(text) == ("gpu_memory", "1.00 GiB")


def test_a_script_that_went_on_is_not_explained_by_an_early_complaint() -> None:
    early = "run.sh: line 1: module: command not found\n"
    assert why(early + "training\nsome other trouble\n", 1, SHELL) == ("", "")
    assert why("training\n" + early, 1, SHELL) == ("command_not_found", "module")


def test_words_in_the_middle_of_a_log_line_are_not_a_verdict() -> None:
    assert why("WARNING flash_attn: ModuleNotFoundError: No module named 'flash_attn'\n") == (
        "",
        "",
    )
    assert why("lookup of key model: not found\n") == ("", "")
    assert why("grpc: RESOURCE_EXHAUSTED: quota exceeded for quota metric\n") == ("", "")


def test_colours_are_seen_through() -> None:
    text = "\x1b[1;35mModuleNotFoundError\x1b[0m: \x1b[35mNo module named 'wandb'\x1b[0m\n"
    assert why(text) == ("module_missing", "wandb")


def test_output_that_is_not_text_or_is_cut_does_no_harm() -> None:
    cut = "显存".encode()[1:]
    assert explain_exit(1, None, cut + b"\xff\xfe\x00\n" + MODULE.encode(), 0, EXACT) == (
        "module_missing",
        "torchvision",
    )
    assert explain_exit(1, None, b"", 0, EXACT) == ("", "")


@pytest.mark.parametrize("filler", ["\n", "a", "a.", "CUDA ", "RESOURCE_EXHAUSTED: ", "x: ", "\r"])
def test_a_hostile_tail_is_read_quickly(filler: str) -> None:
    began = time.process_time()
    why((filler * 65536)[:65536], 1)
    why((filler * 65536)[:65536], 127)
    # A guard against quadratic patterns: those would take minutes.
    assert time.process_time() - began < 10


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_a_signal_is_named(number: signal.Signals) -> None:
    assert explain_exit(None, number, b"", 0, EXACT) == ("killed_by_signal", number.name)
    # through a shell
    assert explain_exit(128 + number, None, b"Killed\n", 0, SHELL) == (
        "killed_by_signal",
        number.name,
    )


def test_real_time_signals_have_a_name_of_sorts() -> None:
    assert explain_exit(None, 50, b"", 0, EXACT) == ("killed_by_signal", "SIG50")


def test_codes_above_128_that_are_no_shells_are_left_alone() -> None:
    for code in (128, 145, 200, 255):
        assert why("", code, SHELL) == ("", "")


def test_a_crash_says_why_and_a_kill_from_outside_does_not() -> None:
    assert explain_exit(None, signal.SIGABRT, CPP.encode(), 0, EXACT) == ("gpu_memory", "1.50 GiB")
    assert explain_exit(134, None, b"terminate called: std::bad_alloc\n", 0, SHELL) == (
        "host_memory",
        "",
    )
    assert explain_exit(None, signal.SIGKILL, CPP.encode(), 0, EXACT) == (
        "killed_by_signal",
        "SIGKILL",
    )


def test_the_kernels_count_beats_every_word() -> None:
    limited = dataclasses.replace(EXACT, memory_mib=4096)
    for code, number in ((None, signal.SIGKILL), (1, None), (137, None)):
        assert explain_exit(code, number, MODULE.encode(), 1, limited) == ("memory_limit", "4096")
    # without a limit of its own it was the node's memory
    assert explain_exit(None, signal.SIGKILL, b"", 1, EXACT) == ("host_memory", "")
