"""`stoker nodes`: machines and their cards, who holds them, and what is not as one might think."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime

import click
import msgspec

from stoker.text.amounts import memory
from stoker.wire import CardView, NodeView

from .client import Client
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .say import refuse_code, tell, words
from .screen import clean, colour, table, terminal_width, wrap
from .shown import ago, clock

LIMITS = ("cpus", "memory")


class Nodes(Group, Command):
    """`nodes` lists them; what is done to one is a command below."""


class LabelNode(Command):
    key = "nodes-label"


@click.group("nodes", cls=Nodes, invoke_without_command=True, context_settings=CONTEXT)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    if ctx.invoked_subcommand is None:
        _list(as_json)


@declare("label", cls=LabelNode)
@click.argument("node", metavar="NODE")
@option("--add", "add", metavar="LABEL", multiple=True, help="opt.nodes-add")
@option("--remove", "remove", metavar="LABEL", multiple=True, help="opt.nodes-remove")
@json_option
def label_command(node: str, add: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    with Client() as client:
        found = next((one for one in client.nodes() if one.name == node), None)
        if found is None:
            refuse_code("unknown_node", node=node)
        labels = {*found.labels, *_split(add)} - set(_split(remove))
        if labels != set(found.labels):
            found = client.label(node, sorted(labels))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    elif found.labels:
        tell("nodes.labelled", node=found.name, labels=", ".join(found.labels))
    else:
        tell("nodes.unlabelled", node=found.name)


command.add_command(label_command)


def _split(given: tuple[str, ...]) -> list[str]:
    return [label for one in given for label in one.split(",") if label]


def _list(as_json: bool) -> None:
    with Client() as client:
        nodes = client.nodes()
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(nodes) + b"\n")
        return
    if not nodes:
        tell("nodes.none")
    for node in nodes:
        for line in describe(node):
            print(line)


def describe(node: NodeView) -> Iterator[str]:
    """One node, its cards, and what is to be known about it."""
    yield _headline(node)
    if node.drained is not None:
        yield "  " + colour(words("nodes.drained", why=node.drained), "yellow")
    if node.labels:
        yield "  " + words("nodes.labels", labels=", ".join(node.labels))
    room = words(
        "nodes.room",
        cpus=node.cpus,
        cpus_held=node.cpus_held,
        memory=memory(node.memory_mib),
        memory_held=memory(node.memory_held_mib),
    )
    yield from wrap(f"  {room}{_sampled(node)}", terminal_width())
    if node.cards:
        names = ("gpu", "model", "task", "memory", "use", "heat", "foreign")
        rows = [[words(f"nodes.{name}") for name in names], *map(_card, node.cards)]
        tints = [["dim"] * len(names)]
        yield from table(rows, colours=tints, indent="  ", columns=terminal_width())
        yield from _kept(node)
    if any(card.gpu.simulated for card in node.cards):
        yield "  " + words("nodes.simulated")
    if node.gpu_error:
        yield "  " + words("nodes.gpu_error", why=node.gpu_error)
    missing = [words(f"nodes.limit_{name}") for name in LIMITS if name not in node.limits]
    if missing:
        yield "  " + words("nodes.not_enforced", what=words("list_and").join(missing))


def _kept(node: NodeView) -> Iterator[str]:
    """Cards that stay idle for a task, one line for each task."""
    kept: dict[tuple[str, datetime | None], list[str]] = {}
    for card in node.cards:
        if card.kept_for is not None and card.task is None and not card.busy:
            kept.setdefault((card.kept_for, card.kept_since), []).append(str(card.gpu.index))
    for (task, since), cards in kept.items():
        gpus = ", ".join(cards)
        if not task:
            yield "  " + words("nodes.kept_unnamed", gpus=gpus)
        elif since is None:
            yield "  " + words("nodes.kept", gpus=gpus, task=task)
        else:
            yield "  " + words("nodes.kept_since", gpus=gpus, task=task, since=clock(since))


def _headline(node: NodeView) -> str:
    since = ago(node.since) if node.since else "?"
    name = colour(clean(node.name), "bold")
    if node.up:
        up = colour(words("nodes.up", since=since), "green")
        why = "" if node.drained is not None else clean(node.why)
        return f"{name}  {up}  {why}".rstrip()
    return f"{name}  {colour(words('nodes.down', since=since, why=node.why), 'red')}"


def _sampled(node: NodeView) -> str:
    if node.memory_available_mib is None or node.disk_free_mib is None or node.load1 is None:
        return ""
    return words(
        "nodes.sampled",
        available=memory(node.memory_available_mib),
        load=f"{node.load1:.1f}",
        disk=memory(node.disk_free_mib),
    )


def _card(card: CardView) -> list[str]:
    used = "?" if card.memory_used_mib is None else memory(card.memory_used_mib)
    model = clean(card.gpu.model)
    if card.gpu.simulated and "simulated" not in model.lower():
        model += f" {words('nodes.mark_simulated')}"
    return [
        str(card.gpu.index),
        model,
        ", ".join(card.tasks) or card.task or (words("nodes.busy") if card.busy else "-"),
        f"{used} / {memory(card.gpu.memory_mib)}",
        "-" if card.utilisation is None else f"{card.utilisation} %",
        "-" if card.temperature_c is None else f"{card.temperature_c} °C",
        clean(", ".join(card.foreign)) or "-",
    ]
