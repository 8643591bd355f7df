"""What labs read before they change over: every command of those pages is one, and nothing is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.cli.test_help import our_words, parse

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
MAPPING = DOCS / "howto" / "coming-from.md"
PAGES = [MAPPING, DOCS / "howto" / "lab.md", DOCS / "explanation" / "security.md"]
AS_SUCH = ("submit",)
"""Named where the text speaks of the command itself; run, it needs more."""

GPU_MAN = (
    "useradd", "addusers", "userdel", "suadd", "sudel", "lockuser", "unlockuser", "stop",
    "force stop", "start", "exit", "force exit", "dump", "dumpuser", "dumptask", "save state",
    "load state", "save iter", "move", "add device", "remove device", "set", "schedule", "reschedule",
    "prompt", "clear cache", "lock", "unlock",
)  # fmt: skip
"""Every command of its admin page."""
CLIENT = (
    "节点监控", "训练管理", "等待区", "执行区", "历史任务", "添加任务", "修改当前任务", "中止当前任务",
    "删除当前任务", "同时删除该任务的所有后继任务", "重新提交当前任务", "查看任务日志", "环境",
    "打开文件夹", "执行命令", "指定计算节点", "<默认>", "GPU数量", "前驱任务", "紧急任务", "复用GPU",
    "确认", "文件管理", "上传到此处", "从此处下载", "移动到", "复制到", "新建文件夹", "新建文件", "重命名",
    "删除文件", "测试环境", "查看Python版本", "测试CUDA(PyTorch)", "测试CUDA(TensorFlow)", "查看包",
    "命令行", "日志信息", "server_info.json",
)  # fmt: skip
"""Every page, button and field of the PyQt client."""
GPU_TASKER = (
    "用户设置", "服务器用户名", "私钥", "系统设置", "系统管理员", "gpustat路径", "GPU服务器", "是否可用",
    "是否可调度", "工作目录", "命令", "GPU数量需求", "独占显卡", "显存需求", "利用率需求", "指定服务器",
    "优先级", "状态", "准备就绪", "GPU任务运行记录", "settings.py", "init.sh", "run.sh", "run-ipv6.sh",
)  # fmt: skip
"""Every setting of GPU Tasker, of a task and of the installation."""


def commands(page: Path) -> list[str]:
    """What stands in back-ticks or in a block and begins with `stoker`."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    named = [*re.findall(r"`([^`\n]+)`", prose), *"".join(blocks).splitlines()]
    return [line for line in named if re.match(r"(sudo |[A-Z_]+=\S+ )*stoker ", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_that_a_page_names_is_one(page: Path) -> None:
    found = commands(page)
    wrong = []
    for line in found:
        words = our_words(line)
        try:
            if not (len(words) == 1 and words[0] in AS_SUCH):
                parse(words)
        except (Exception, AssertionError) as error:
            wrong.append(f"{line}: {error}")

    assert len(found) >= 2
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_option_that_a_page_names_is_one(page: Path) -> None:
    known = (DOCS / "reference" / "cli.md").read_text("utf-8")
    named = re.findall(r"(?<=[` ])--[a-z][a-z-]+", page.read_text("utf-8"))

    assert [option for option in named if not re.search(rf"{option}(?![\w-])", known)] == []


def section(title: str) -> list[tuple[str, str, str]]:
    """The rows of one table: there, here, about it."""
    text = MAPPING.read_text("utf-8").partition(f"\n## {title}")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0], row[1], " | ".join(row[2:])) for row in rows if row[0].strip() != "there"]


@pytest.mark.parametrize(
    ("title", "names"),
    [("GPU Man", GPU_MAN), ("The PyQt client", CLIENT), ("GPU Tasker", GPU_TASKER)],
    ids=["gpu-man", "client", "gpu-tasker"],
)
def test_everything_that_there_was_has_a_row(title: str, names: tuple[str, ...]) -> None:
    rows = section(title)
    told = [item.strip() for there, _, _ in rows for item in re.split(r"[`,:：、]", there)]

    assert [n for n in names if not any(one == n or one.startswith(f"{n} ") for one in told)] == []
    for there, here, about in rows:
        dropped = here.strip() == "–"
        assert not dropped or about.strip(" |"), f"{there} is dropped without a reason"
